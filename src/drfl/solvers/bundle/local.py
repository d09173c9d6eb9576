"""A client's own optimum, by the same method with one client: a start for the others."""

from __future__ import annotations

import copy

import numpy as np

from drfl.arrays import Array
from drfl.client import Handler, Site
from drfl.mixture import Mixture
from drfl.problem import Problem
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.bundle.settings import Settings

TOLERANCE, ROUNDS = 1e-2, 15


def local_optimum(site: Site, answer: Handler) -> Array:
    """A rough minimiser of this client's worst-case loss, with its intercept."""
    alone = copy.copy(site)
    alone.memory = {}
    oracle = site.oracle
    problem = Problem(oracle.loss, oracle.ball, Mixture(), fit_intercept=site.fit_intercept)
    settings = Settings(groups=1, dual_cuts=False, second_point=False, warm_start=False)
    session = BundleSession(
        settings, problem, [site.name], site.n_features, tol=TOLERANCE, max_rounds=ROUNDS
    )
    while session.status is None:
        messages = session.propose()
        session.absorb({k: m.reply(answer(alone, m)) for k, m in messages.items()}, {})
    return np.append(session.coef, session.intercept)[: site.dimension]
