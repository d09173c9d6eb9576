"""One path over the grid on one part of the rows: every problem once, each from the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drfl.client import Party
from drfl.engines import Engine
from drfl.estimators.fitting import find_model
from drfl.estimators.shared import solvable
from drfl.problem import Problem
from drfl.run import Result
from drfl.selection.grid import Candidate
from drfl.solvers import Solver, StatusKind, relative_gap
from drfl.solvers.certificate.server import server_problem
from drfl.supports import WholeSpace

SAME_RATIO = "flipped labels set the price of its models, and only radius / label_cost counts"
SMALL_NORM = "its models have so small a norm that a larger common radius has no effect"
AS_GOOD = "its models are proved to be as good here"
ROUNDING = 1e-14  # ratios that differ by less are the same


@dataclass(frozen=True)
class Prices:
    """What of a problem may differ between grid points that share a model."""

    kind: Hashable  # all that must not differ
    moves: bool  # whether labels move
    # radius, label_cost, ratio: of every client; the ratio is the mass that may flip
    radius: tuple[float, ...]
    label_cost: tuple[float, ...]
    ratio: tuple[float, ...]


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
        kind=(moves, problem.loss, problem.norm, problem.mixture, problem.intercept),
        moves=moves,
        radius=tuple(ball.radius for ball in balls),
        label_cost=tuple(ball.label_cost for ball in balls),
        ratio=tuple(ball.radius / ball.label_cost for ball in balls),
    )


def reused(old: Prices, fit: Fit, problem: Problem, new: Prices, tol: float) -> Fit | None:
    """The model of one problem for another of the same kind, if it is proved to be as good there.

    The objective and the clients' losses become upper bounds, exact where the ratio is the same
    and where labels do not move. The relative gap that has to be proved is ``tol``.
    """
    result = fit.result
    if any(b < (1.0 - tol) * a for a, b in zip(old.ratio, new.ratio, strict=True)):
        return None  # what is proved would fall by more than tol
    shift = (_flipped if new.moves else _fixed)(old, result, problem, new)
    if shift is None:
        return None
    upper = result.objective + max(shift.up)
    gap = relative_gap(upper, shift.lower, math.nan)
    if gap > tol:
        return None
    losses = [loss + up for loss, up in zip(result.client_losses.values(), shift.up, strict=True)]
    proved = replace(
        result,
        objective=upper,
        lower_bound=shift.lower,
        gap=gap,
        client_losses=dict(zip(result.client_losses, losses, strict=True)),
        client_multipliers=dict(zip(result.client_losses, shift.multipliers, strict=True)),
    )
    return Fit(proved, 0, fit.source, shift.reason)


@dataclass(frozen=True)
class _Shift:
    """By how much losses grow at most, the multipliers there, the new lower bound, and why."""

    up: list[float]
    multipliers: list[float]
    lower: float
    reason: str


def _flipped(old: Prices, result: Result, problem: Problem, new: Prices) -> _Shift | None:
    if any(a > b for a, b in zip(old.label_cost, new.label_cost, strict=True)):
        return None
    norm, factor = problem.gauge(result.coef.size).value(result.coef.ravel()), 1.0
    up, multipliers = [], []
    same = True
    balls = zip(old.ratio, new.ratio, old.label_cost, new.label_cost, strict=True)
    for (a, b, cost, dearer), lam in zip(balls, result.client_multipliers.values(), strict=True):
        if (a > 0.0) != (b > 0.0):
            return None
        if a == 0.0:  # nothing is paid, then as now
            up.append(0.0)
            multipliers.append(lam)
            continue
        mu = max(cost * lam, dearer * norm)
        up.append(b * mu - a * cost * lam)
        multipliers.append(mu / dearer)
        factor = min(factor, b / a)
        same = same and math.isclose(a, b, rel_tol=ROUNDING) and mu == cost * lam
    reason = SAME_RATIO if same else AS_GOOD
    return _Shift(up, multipliers, factor * result.lower_bound, reason)


def _fixed(old: Prices, result: Result, problem: Problem, new: Prices) -> _Shift | None:
    names, lip = list(result.client_losses), problem.loss.lipschitz
    w, dimension = result.coef.ravel(), problem.dimension(result.coef.size)
    server = server_problem(problem, names, dimension, np.ones(len(names)))
    up, multipliers, least = [], [], []
    balls = zip(old.radius, new.radius, old.label_cost, new.label_cost, strict=True)
    for s, (rho, larger, cost, same) in enumerate(balls):
        if rho > larger or (rho > 0.0 and cost != same):
            return None
        multipliers.append(lip * server.multiplier(s, w))
        up.append((larger - rho) * multipliers[-1])
        least.append((larger - rho) * (lip * float(server.floor[s])))
    reason = SMALL_NORM if up == least else AS_GOOD
    return _Shift(up, multipliers, result.lower_bound + min(least), reason)


SAME_PROBLEM = "they state the same problem"


@dataclass(frozen=True)
class Fit:
    """The model of a grid point on a part of the rows."""

    result: Result  # the model and its proof
    rounds: int  # what it cost; 0 if it was known already
    source: int  # the grid point that it was computed for
    reason: str = ""  # why the source's model is this one's, if it is another grid point

    @property
    def short(self) -> bool:
        """Whether it stopped before its tolerance."""
        return self.result.status.kind not in (StatusKind.CERTIFIED, StatusKind.LOCAL)


class KnownFits:
    """The models of these clients on one path so far, by what they may serve."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._fits: dict[Hashable, list[tuple[Prices, Fit]]] = {}

    def add(self, problem: Problem, fit: Fit) -> None:
        """Remember a model that was computed for this problem."""
        own = prices(problem, self.names)
        if own is not None and not fit.short:
            self._fits.setdefault(own.kind, []).append((own, fit))

    def serving(self, problem: Problem, tol: float) -> Fit | None:
        """The model that is proved to be best for a problem, if it is to the tolerance."""
        new = prices(problem, self.names)
        if new is None:
            return None
        best: Fit | None = None
        for old, fit in self._fits.get(new.kind, []):
            found = reused(old, fit, problem, new, tol)
            if found is not None and (best is None or found.result.gap < best.result.gap):
                best = found
        return best


def follow(
    candidates: Sequence[tuple[int, Candidate, Problem]],
    clients: Sequence[Party],
    solver: Solver,
    engine: Engine,
    solved: Callable[[int], object],
) -> dict[int, Fit]:
    """Solve the problems of these candidates, one after the other.

    Each candidate comes with its number and the problem to solve, in the order of the path; those
    of one key state the same problem. The solver may remember one problem for the next, and
    ``solved`` is told the rounds of every run.
    """
    fits: dict[int, Fit] = {}
    by_key: dict[str, Fit] = {}
    known = KnownFits([client.name for client in clients])
    for number, candidate, stated in candidates:
        twin = by_key.get(candidate.key)
        if twin is not None:
            fits[number] = replace(twin, rounds=0, reason=twin.reason or SAME_PROBLEM)
            continue
        choices = replace(candidate.choices, engine=engine, verbose=0)
        problem = solvable(stated, len(clients), solver)
        fit = known.serving(problem, choices.tol)
        if fit is None:
            result = find_model(problem, clients, choices, solver)
            fit = Fit(result, result.rounds, number)
            known.add(problem, fit)
            solved(result.rounds)
        fits[number] = by_key[candidate.key] = fit
    return fits
