r"""Proofs that serve another problem on the same rows: one of two functions of the radius.

Between problems that differ in radii and label costs alone, a model and its bound often remain good
enough. The losses of the clients grow by at most what their prices of transport do, so that

.. math:: \max_{q\in Q}\ q^\top(F+\mathit{up})

bounds the new objective at the model from above; the lower bound grows with the least of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.solvers.certificate.server import server_problem
from drfl.supports import WholeSpace

SAME_RATIO = "flipped labels set the price of its models, and only radius / label_cost counts"
SMALL_NORM = "its models have so small a norm that a larger common radius has no effect"
AS_GOOD = "its models are proved to be as good here"
ROUNDING = 1e-14  # ratios that differ by less are the same


@dataclass(frozen=True)
class Prices:
    """What of a problem may differ between problems that share a model."""

    names: tuple[str, ...]  # of the clients
    kind: Hashable  # all that must not differ
    moves: bool  # whether labels move
    # radius, label_cost, ratio: of every client; the ratio is the mass that may flip
    radius: tuple[float, ...]
    label_cost: tuple[float, ...]
    ratio: tuple[float, ...]


@dataclass(frozen=True)
class Solved:
    """A model w (n,), every client's loss and multiplier there (S,), and the bound of its fit."""

    coef: Array
    losses: Array
    multipliers: Array
    lower_bound: float


@dataclass(frozen=True)
class Transfer:
    """What a model is worth in another problem: upper bounds by client (S,), and why it serves."""

    losses: Array
    multipliers: Array
    lower_bound: float
    reason: str


def prices(problem: Problem, names: Sequence[str]) -> Prices | None:
    """The prices of these clients; None if neither of the two functions is theirs."""
    if problem.support_kind is not WholeSpace or (problem.shared_ball and len(names) > 1):
        return None
    balls = [problem.ball_of(name) for name in names]
    finite = {math.isfinite(ball.label_cost) for ball in balls if ball.radius > 0.0}
    moves = problem.loss.task == "classification" and True in finite
    if moves and False in finite:
        return None
    return Prices(
        names=tuple(names),
        kind=(moves, problem.loss, problem.norm, problem.mixture, problem.intercept),
        moves=moves,
        radius=tuple(ball.radius for ball in balls),
        label_cost=tuple(ball.label_cost for ball in balls),
        ratio=tuple(ball.radius / ball.label_cost for ball in balls),
    )


def transfer(old: Prices, new: Prices, problem: Problem, found: Solved) -> Transfer | None:
    """What is known of the ``problem`` with the new prices; None if its losses may fall.

    The losses are exact where the ratio is the same and where labels do not move.
    """
    return (_flipped if new.moves else _fixed)(old, new, problem, found)


def _flipped(old: Prices, new: Prices, problem: Problem, found: Solved) -> Transfer | None:
    if any(a > b for a, b in zip(old.label_cost, new.label_cost, strict=True)):
        return None
    norm, factor = problem.gauge(found.coef.size).value(found.coef.ravel()), 1.0
    up, multipliers = np.zeros(len(found.losses)), found.multipliers.copy()
    same = True
    balls = zip(old.ratio, new.ratio, old.label_cost, new.label_cost, strict=True)
    for s, (a, b, cost, dearer) in enumerate(balls):
        if (a > 0.0) != (b > 0.0):
            return None
        if a == 0.0:  # nothing is paid, then as now
            continue
        before = cost * float(multipliers[s])
        mu = max(before, dearer * norm)
        up[s] = b * mu - a * before
        multipliers[s] = mu / dearer
        factor = min(factor, b / a)
        same = same and math.isclose(a, b, rel_tol=ROUNDING) and mu == before
    reason = SAME_RATIO if same else AS_GOOD
    return Transfer(found.losses + up, multipliers, factor * found.lower_bound, reason)


def _fixed(old: Prices, new: Prices, problem: Problem, found: Solved) -> Transfer | None:
    S, w, lip = len(found.losses), found.coef.ravel(), problem.loss.lipschitz
    server = server_problem(problem, new.names, problem.dimension(w.size), np.ones(S))
    radius, larger = np.array(old.radius), np.array(new.radius)
    costs = zip(old.radius, old.label_cost, new.label_cost, strict=True)
    if (radius > larger).any() or any(rho > 0.0 and a != b for rho, a, b in costs):
        return None
    multipliers = lip * np.array([server.multiplier(s, w) for s in range(S)])
    up, least = (larger - radius) * multipliers, (larger - radius) * (lip * server.floor)
    reason = SMALL_NORM if np.array_equal(up, least) else AS_GOOD
    lower = found.lower_bound + float(least.min())
    return Transfer(found.losses + up, multipliers, lower, reason)
