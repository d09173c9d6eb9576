r"""What a client tells of its rows in the first round: enough for weights and step sizes.

Client s tells the total weight of its rows, and of their second moments

.. math:: M_s = \sum_i p_i a_ia_i^\top,\qquad a_i = (x_i, 1)\text{ or } x_i,

the largest eigenvalue and the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.rows import Rows
from drfl.wire import Field, WireError

FACTS = {"facts": Field("float64", (3,))}  # weight of the rows, largest eigenvalue, trace

# Enough for a step size, which may be wrong by a factor of two.
POWER_STEPS = 20


# ---------------------------------------------------------------------- the client's half
def spread(site: Site) -> Array:
    """The three numbers.

    The eigenvalue, by which a step size is chosen, is second-order information: where the policy
    keeps that back, the trace stands for it.
    """
    rows = site.rows
    if site.network is not None:  # its curvature is not known by moments
        return np.array([rows.total, 0.0, 0.0])
    trace = float(rows.moments()[1].sum()) + site.fit_intercept
    largest = _largest_eigenvalue(rows, site.fit_intercept) if site.policy.curvature else trace
    return np.array([rows.total, min(largest, trace), trace])


def _largest_eigenvalue(rows: Rows, fit_intercept: bool) -> float:
    """By the power method from a fixed start."""
    v = np.random.default_rng(0).normal(size=rows.n_features)
    b = float(fit_intercept)
    size = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.sqrt(v @ v + b * b))
        if length == 0.0:
            return 0.0
        v, b = rows.combine(rows.mass() * rows.scores(v / length, b / length))
        b *= fit_intercept
        size = float(np.sqrt(v @ v + b * b))
    return size


# ---------------------------------------------------------------------- the server's half
def refuse_impossible(facts: NDArray[Any]) -> None:
    """Raise if no rows have these facts."""
    total, largest, trace = facts
    if not (total > 0.0 and 0.0 <= largest <= trace):
        raise WireError("its moments are impossible")


@dataclass(frozen=True)
class Facts:
    """The facts of all clients.

    Attributes
    ----------
    totals, largest, traces : arrays of shape (S,)
        Weights of the rows; largest eigenvalues and traces of the second moments.
    """

    totals: Array
    largest: Array
    traces: Array

    @classmethod
    def of(cls, replies: Sequence[NDArray[Any]]) -> Self:
        """What the clients told, in their order."""
        totals, largest, traces = np.array(replies, dtype=np.float64).T
        return cls(totals, largest, traces)
