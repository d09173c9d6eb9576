r"""The problems that others have named, as what each fixes of ours.

.. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s\,\sup\{E_PL : W(P,\hat P_s)\le\rho_s\}

ERM trusts rows and weights, AFL (Mohri, Sivek, Suresh, 2019) the rows, the problem of DRFA (Deng,
Kamani, Mahdavi, 2020) is AFL's with the whole simplex, and WAFL (Nguyen et al., 2022), as the paper
compares with it, has one ball around the mixture of all clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drfl._registry import lookup
from drfl.problem import Problem

TRUST_ROWS: Mapping[str, Any] = {
    "radius": 0.0,
    "label_cost": math.inf,
    "norm": "l1",
    "support": None,
    "shared_ball": False,
}
"""Balls of radius 0."""
TRUST_WEIGHTS: Mapping[str, Any] = {
    "mixture_radius": 0.0,
    "mixture_norm": 1,
    "max_weight": math.inf,
}
"""The weights of the centre, or all there are."""


@dataclass(frozen=True)
class NamedProblem:
    """A problem with a name."""

    text: str  # what it is, for a list
    # The parameters of `drfl.DRFLClassifier` that it does not leave open; and whether the
    # clients share a ball
    fixed: Mapping[str, Any]


NAMED_PROBLEMS: Mapping[str, NamedProblem] = {
    "erm": NamedProblem(
        "empirical risk minimisation: rows and weights are trusted",
        {**TRUST_ROWS, **TRUST_WEIGHTS},
    ),
    "afl": NamedProblem(
        "agnostic federated learning: the weights are uncertain, rows are trusted", TRUST_ROWS
    ),
    "drfa": NamedProblem(
        "the worst client alone counts, rows are trusted",
        {**TRUST_ROWS, **TRUST_WEIGHTS, "mixture_radius": math.inf, "mixture_center": "uniform"},
    ),
    "wafl": NamedProblem(
        "one ball around the mixture of all clients", {**TRUST_WEIGHTS, "shared_ball": True}
    ),
}


NO_RULES = (
    "erm follows no rules for shapes, which need a radius: what the model loses to it may be their "
    "price"
)
NO_RULES_OF_ERM = (
    "rule='new_client' compares with ERM, which follows no rules for shapes: take another rule, or "
    "leave out the shapes"
)


def restated(problem: Problem, name: str, rows: Sequence[float]) -> Problem:
    """The problem of a name with the loss, the weights and what else is open of another problem.

    ``rows`` says how many the clients have. The radius of one ball for all is that of the clients'
    balls, or their mean over the rows.
    """
    fixed = lookup("problem", name, NAMED_PROBLEMS).fixed
    mixture = replace(
        problem.mixture,
        radius=fixed.get("mixture_radius", problem.mixture.radius),
        center=fixed.get("mixture_center", problem.mixture.center),
        max_weight=fixed.get("max_weight", problem.mixture.max_weight),
    )
    if problem.curves is not None and fixed.get("radius") == 0.0:
        problem = replace(problem, curves=problem.curves.free())  # rules need a radius
    if not fixed["shared_ball"]:
        return replace(with_radius(problem, fixed["radius"]), mixture=mixture, shared_ball=False)
    balls = problem.balls
    weights = rows if len(balls) == len(rows) else [1] * len(balls)
    total = sum(ball.radius * weight for ball, weight in zip(balls, weights, strict=True))
    ball = replace(balls[0], radius=total / sum(weights))
    return replace(problem, ball=ball, mixture=mixture, shared_ball=len(rows) > 1)


def with_radius(problem: Problem, radius: float) -> Problem:
    """The same problem with one radius for all clients."""
    return problem.with_balls(lambda ball: replace(ball, radius=radius))
