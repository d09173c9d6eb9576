"""The two halves of the bundle method by hand: a session after some rounds, a site to ask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Policy, Site
from drfl.solvers import Assignment
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.certificate.server import ServerProblem
from kit.cases import Case

Array = NDArray[np.float64]


def sites_of(case: Case, policy: Policy | None = None) -> dict[str, Site]:
    """Every client bound to the problem; exceptions of handlers come through."""
    return {c.name: Site(c, case.problem, debug=True) for c in case.clients(policy)}


def session_after(case: Case, rounds: int, **settings: Any) -> BundleSession:
    """The server half after a number of rounds with everyone answering."""
    sites, bundle = sites_of(case), Bundle(**settings)
    session = bundle.start(Assignment(case.problem, case.names, case.n, 1e-15, 10_000))
    assert isinstance(session, BundleSession)
    for _ in range(rounds):
        messages = session.propose()
        replies = {name: sites[name].answer(m, bundle.handlers) for name, m in messages.items()}
        session.absorb(replies, {})
        assert not session.standing.rejected
        if session.standing.status is not None:
            break
    return session


def random_points(case: Case, rng: np.random.Generator, count: int, *centres: Array) -> list[Array]:
    """Points of all sizes in the units of the data, around 0 and the given centres."""
    unit = float(np.abs(np.vstack([X for X, _ in case.data])).max()) or 1.0
    size = np.append(np.full(case.n, 1.0 / unit), 1.0)[: case.dimension]
    starts = [np.zeros(case.dimension), *centres]
    return [
        starts[k % len(starts)]
        + 10.0 ** rng.uniform(-3.0, 3.0)
        * size
        * rng.standard_normal(case.dimension)
        * (rng.random(case.dimension) < rng.choice([0.4, 1.0]))
        for k in range(count)
    ]


def norm_excess(terms: ServerProblem, x: Array) -> Array:
    """How far every client's multiplier is at least above its floor, on the whole space."""
    return np.maximum(terms.gauge.value(x) - terms.floor, 0.0)
