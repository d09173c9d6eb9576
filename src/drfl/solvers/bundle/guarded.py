"""The client's half under a guard: a bound and one cut per point, and nothing else.

No curvature, no groups, no dual cut, no local optimum, whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Site
from drfl.privacy import Keeper
from drfl.privacy.rounding import power_of_two
from drfl.solvers.bundle.messages import Request
from drfl.worst_case.whole_space import WholeSpaceOracle


def guarded_answer(site: Site, request: Request) -> Mapping[str, NDArray[Any]]:
    """Evaluate the points of a request with what the ledger allows."""
    keeper, n = keeper_of(site), site.n_features
    moves, d = keeper.oracle.labels_move, site.dimension
    values, cuts = [], []
    for x in request.points:
        told = keeper.answer(x[:n], float(x[n]) if d > n else 0.0)
        values.append([told.upper, told.multiplier] if moves else [told.upper])
        head = told.cut[:2] if moves else told.cut[:1]
        cuts.append(np.concatenate([head, told.cut[2 : 2 + d]])[None])
    reply = {"value": np.array(values), "cuts": np.array(cuts)}
    if request.introduction:
        size = float(site.rows.moments()[1].mean()) if n else 1.0
        reply["about"] = np.array([site.rows.total, power_of_two(size)])
        reply["guard"] = np.array([min(keeper.ledger.k, 255)], dtype=np.uint8)
    return reply


def keeper_of(site: Site) -> Keeper:
    """Who answers for a guarded site."""
    assert site.guard is not None
    assert site.ledger is not None
    assert isinstance(site.oracle, WholeSpaceOracle)  # the site was refused otherwise
    if "keeper" not in site.memory:
        site.memory["keeper"] = Keeper(site.oracle, site.ledger, site.guard.answers)
    keeper = site.memory["keeper"]
    assert isinstance(keeper, Keeper)
    return keeper
