"""One path over the grid on one part of the rows: every problem once, each from the last.

A model that is proved to be optimal at another grid point as well, see
`drfl.selection.path.reuse`, is taken over and not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from drfl.client import Party
from drfl.engines import Engine
from drfl.estimators.fitting import find_model
from drfl.estimators.shared import solvable
from drfl.problem import Problem
from drfl.run import Result
from drfl.selection.grid import Candidate
from drfl.selection.path.reuse import Prices, prices, reused
from drfl.solvers import Solver, StatusKind

SAME_PROBLEM = "they state the same problem"


@dataclass(frozen=True)
class Fit:
    """The model of a grid point on a part of the rows.

    Attributes
    ----------
    result : Result
        The model and its proof.
    rounds : int
        What it cost; 0 if it was known already.
    source : int
        The grid point that it was computed for.
    reason : str
        Why the source's model is this one's, if it is another grid point.
    """

    result: Result
    rounds: int
    source: int
    reason: str = ""

    @property
    def short(self) -> bool:
        """Whether it stopped before its tolerance."""
        return self.result.status.kind not in (StatusKind.CERTIFIED, StatusKind.LOCAL)


class KnownFits:
    """The models of one path so far, by what they may serve.

    Parameters
    ----------
    names : sequence of str
        Who takes part.
    """

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
            found = reused(old, fit.result, problem, new, tol)
            if found is not None and (best is None or found.result.gap < best.result.gap):
                best = Fit(found.result, 0, fit.source, found.reason)
        return best


def follow(
    candidates: Sequence[tuple[int, Candidate, Problem]],
    clients: Sequence[Party],
    solver: Solver,
    engine: Engine,
    solved: Callable[[int], object],
) -> dict[int, Fit]:
    """Solve the problems of these candidates, one after the other.

    Parameters
    ----------
    candidates : sequence of tuples
        Numbers, candidates and the problems to solve, in the order of the path; those of one key
        state the same problem.
    clients : sequence of Party
        Who takes part.
    solver : Solver
        What solves them; it may remember one problem for the next.
    engine : Engine
        How messages reach them.
    solved : callable
        Told the rounds of every run.
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
