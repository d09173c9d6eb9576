"""What `drfl train --compare` trains beside: problems and methods by name."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drfl.ball import Ball
from drfl.problem import Problem
from drfl.solvers import Solver, make_solver
from drfl.training.problems import replace_radius, with_mixture_radius, with_radii

EXACT = {
    "erm": "empirical risk minimisation: rows and weights are trusted",
    "afl": "agnostic federated learning: the weights are uncertain, rows are trusted",
    "drfa": "the worst client alone counts, rows are trusted",
    "wafl": "one ball around the mixture of all clients",
}
"""Problems solved to a proved optimum."""

NATIVE = {
    "fedavg": "fedavg",
    "fedprox": "fedprox",
    "scaffold": "scaffold",
    "qffl": "qffl",
    "fedadmm": "fedadmm",
    "scaff_pd": "scaff_pd",
    "afl_steps": "afl",
    "drfa_steps": "drfa",
    "wafl_steps": "wafl",
}
"""The methods' own iterations, by the name in `drfl.native`; they prove nothing."""


def known_methods() -> list[str]:
    """Every name."""
    return [*EXACT, *NATIVE]


def stated(name: str, problem: Problem, rows: Sequence[int], seed: int) -> tuple[Problem, Solver]:
    """The problem and the solver of a method, for clients with so many rows."""
    trusted = with_radii(problem, 0.0)
    if name == "erm":
        return with_mixture_radius(trusted, 0.0), make_solver("bundle")
    if name == "afl":
        return trusted, make_solver("bundle")
    if name == "drfa":
        return with_mixture_radius(trusted, math.inf), make_solver("bundle")
    if name == "wafl":
        return _shared(problem, rows), make_solver("bundle")
    from drfl.native import METHODS

    kind = METHODS[NATIVE[name]]
    radius = {"drfa": math.inf, "scaff_pd": math.inf}.get(kind.name, trusted.mixture.radius)
    return with_mixture_radius(trusted, radius if kind.robust else 0.0), kind(seed=seed)


def _shared(problem: Problem, rows: Sequence[int]) -> Problem:
    """One ball around the mixture; its radius is that of the clients' balls, or their mean."""
    balls = [problem.ball] if isinstance(problem.ball, Ball) else list(problem.ball.values())
    weights = rows if len(balls) == len(rows) else [1] * len(balls)
    pairs = zip(balls, weights, strict=True)
    radius = sum(ball.radius * weight for ball, weight in pairs) / sum(weights)
    certain = with_mixture_radius(problem, 0.0)
    ball = replace_radius(balls[0], radius)
    return Problem(
        certain.loss,
        ball,
        certain.mixture,
        fit_intercept=certain.fit_intercept,
        shared_ball=len(rows) > 1,
    )
