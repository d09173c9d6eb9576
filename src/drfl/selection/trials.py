"""Which models are trained on what, and where they are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from drfl.arrays import Array
from drfl.client import Party
from drfl.engines import Engine, make_engine
from drfl.estimators.path import LOCAL, make_solver, solver_name
from drfl.selection import scores
from drfl.selection.grid import Candidate, for_clients
from drfl.selection.parts import Part, on_parts
from drfl.selection.path import Fit, follow
from drfl.selection.progress import Progress
from drfl.selection.roster import Roster
from drfl.selection.warm import WarmBundle
from drfl.selection.window import Window
from drfl.solvers import Solver
from drfl.solvers.bundle import Bundle
from drfl.wire import Failure, WireError


@dataclass(frozen=True)
class Trial:
    """Train on some clients, score on some.

    Attributes
    ----------
    trained, scored : tuple of int
        The numbers of the clients.
    parts : tuple of Part
        How each client divides its rows.
    """

    trained: tuple[int, ...]
    scored: tuple[int, ...]
    parts: tuple[Part, ...]


def folds_of_everyone(n_clients: int, folds: int, seed: int) -> list[Trial]:
    """Every client holds out one fold after the other."""
    everyone, seeds = tuple(range(n_clients)), _seeds(n_clients, seed)
    return [
        Trial(everyone, everyone, tuple(Part(fold, folds, s) for s in seeds))
        for fold in range(folds)
    ]


def one_client_out(n_clients: int) -> list[Trial]:
    """Train on all clients but one and score on that one, with all their rows."""
    everyone, whole = range(n_clients), tuple(Part(0, 1, 0) for _ in range(n_clients))
    return [Trial(tuple(s for s in everyone if s != out), (out,), whole) for out in everyone]


def _seeds(n_clients: int, seed: int) -> list[int]:
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(n_clients)]


@dataclass(frozen=True)
class Stage:
    """Clients placed once for candidates that differ in radii, label costs and weights alone.

    Attributes
    ----------
    roster : Roster
        Who takes part.
    candidates : dict of int to Candidate
        By number, in the order of the path.
    noise : float
        The standard deviation of the noise on held-out rows.
    """

    roster: Roster
    candidates: Mapping[int, Candidate]
    noise: float

    def run(
        self, trials: Sequence[Trial], progress: Progress
    ) -> tuple[Array, list[list[dict[int, Fit]]]]:
        """Scores (points, trials, clients), NaN where none is, and fits by trial and model."""
        first = next(iter(self.candidates.values()))
        found = np.full((len(self.candidates), len(trials), len(self.roster.names)), np.nan)
        placed = self.roster.groups
        fits: list[list[dict[int, Fit]]] = []
        wish = first.choices.engine
        with make_engine("serial" if wish is None else wish) as engine:
            solver = self._solver()
            handlers = {**on_parts(solver.handlers), **scores.HANDLERS}
            engine.start([client for group in placed for client in group], first.shell, handlers)
            for number, trial in enumerate(trials):
                solved = partial(progress.solved, number)
                fits.append([self._path(group, trial, solver, engine, solved) for group in placed])
                self._score(placed, trial, fits[-1], engine, found[:, number])
                progress.scored(number)
        return found, fits

    def _solver(self) -> Solver:
        """The local method where the estimator would take it, otherwise the bundle method."""
        choices = next(iter(self.candidates.values())).choices
        if solver_name(choices, named=self.roster.named) == LOCAL:
            return make_solver(LOCAL, choices)
        return WarmBundle(Bundle(curvature=choices.curvature))

    def _path(
        self,
        clients: Sequence[Party],
        trial: Trial,
        solver: Solver,
        engine: Engine,
        solved: Callable[[int], object],
    ) -> dict[int, Fit]:
        some = [clients[s] for s in trial.trained]
        names = [client.name for client in some]
        parts = {clients[s].name: trial.parts[s] for s in trial.trained}
        problems = [
            (number, candidate, for_clients(candidate.problem, self.roster, trial.trained, names))
            for number, candidate in self.candidates.items()
        ]
        if isinstance(solver, WarmBundle):
            solver.forget()  # cuts of other rows
        return follow(problems, some, solver, Window(engine, parts), solved)

    def _score(
        self,
        placed: Sequence[Sequence[Party]],
        trial: Trial,
        fits: Sequence[Mapping[int, Fit]],
        engine: Engine,
        found: Array,
    ) -> None:
        """Ask the clients of a trial for the scores of all its models, and add them up."""
        results = [[fit[number].result for fit in fits] for number in self.candidates]
        coef = np.array([[result.coef for result in models] for models in results])
        intercept = np.array([[result.intercept for result in models] for models in results])
        several = len(placed) > 1
        messages = {
            group[s].name: scores.request(
                trial.parts[s], coef, intercept, k if several else scores.EVERY_CLASS, self.noise
            )
            for k, group in enumerate(placed)
            for s in trial.scored
        }
        answers = engine.map(messages, None)
        for name, failure in answers.failures.items():
            why = Failure(failure).sentence
            raise RuntimeError(f"client {name!r} gave no score: {why}")
        for s in trial.scored:
            replies = [answers.replies[group[s].name] for group in placed]
            try:
                found[:, s] = sum(scores.read(reply, len(found)) for reply in replies)
            except WireError as error:
                raise RuntimeError(f"client {placed[0][s].name!r} gave no score: {error}") from None
