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
from drfl.solvers import Solver, Status, StatusKind, relative_gap
from drfl.solvers.certificate.transfer import Prices, Solved, Transfer, prices, transfer

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


def reused(fit: Fit, found: Transfer, tol: float) -> Fit | None:
    """The model in another problem, if it is proved there to be as good as ``tol``.

    The worst weights stay those of the problem that it was found for.
    """
    old = fit.result
    upper = old.objective + float((found.losses - _solved(old).losses).max())
    gap = relative_gap(upper, found.lower_bound, math.nan)
    if gap > tol:
        return None
    everywhere = old.status.kind is StatusKind.CERTIFIED
    proved = replace(
        old,
        status=Status.certified(gap) if everywhere else old.status,
        objective=upper,
        lower_bound=found.lower_bound,
        gap=gap,
        client_losses=dict(zip(old.weights, found.losses.tolist(), strict=True)),
        client_multipliers=dict(zip(old.weights, found.multipliers.tolist(), strict=True)),
    )
    return Fit(proved, 0, fit.source, found.reason)


def _solved(result: Result) -> Solved:
    losses, multipliers = (
        np.array(list(by_client.values()))
        for by_client in (result.client_losses, result.client_multipliers)
    )
    return Solved(result.coef, losses, multipliers, result.lower_bound)


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
            if any(b < (1.0 - tol) * a for a, b in zip(old.ratio, new.ratio, strict=True)):
                continue  # what is proved would fall by more than tol
            local = fit.result.status.kind is StatusKind.LOCAL
            if local and old.radius != new.radius:
                continue  # with a radius more can be proved than what the status says
            found = transfer(old, new, problem, _solved(fit.result))
            again = None if found is None else reused(fit, found, tol)
            if again is not None and (best is None or again.result.gap < best.result.gap):
                best = again
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
