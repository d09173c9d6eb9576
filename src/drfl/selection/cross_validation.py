"""Train on parts of the clients' rows, let them score what was held out, and follow a rule.

What is seen while a selection runs: one line on the standard error stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np

from drfl._registry import lookup
from drfl.arrays import Array
from drfl.checks import number, whole
from drfl.client import Party
from drfl.engines import Engine, make_engine
from drfl.estimators import parameters
from drfl.estimators.base import RobustModel
from drfl.estimators.fitting import LOCAL, make_solver, solver_name
from drfl.named_problems import NO_RULES_OF_ERM
from drfl.run.result import stacked
from drfl.selection.choice import Choice, summarise
from drfl.selection.client_half import scores
from drfl.selection.client_half.folds import FoldEngine, Part, on_parts
from drfl.selection.clients import SelectionClients
from drfl.selection.grid import (
    Candidate,
    anchor_params,
    candidate,
    default_grid,
    for_clients,
    grid_points,
)
from drfl.selection.path import Fit, follow
from drfl.selection.rules import RULES, GridEvidence
from drfl.selection.warm import WarmBundle
from drfl.solvers import Solver, StatusKind
from drfl.solvers.bundle import Bundle
from drfl.wire import Failure, Message, WireError


class ProgressLine:
    """Counts fits, rounds and seconds; on a terminal the line is rewritten in place.

    ``splits`` says how many parts the work has, ``word`` what one is called; nothing is shown
    unless ``verbose``.
    """

    def __init__(self, verbose: int, splits: int, word: str) -> None:
        self.verbose, self.splits, self.word = verbose, splits, word
        self.fits = self.rounds = 0
        self._start, self._rewrites = perf_counter(), sys.stderr.isatty()

    def solved(self, split: int, rounds: int) -> None:
        """A fit of a split is done."""
        self.fits, self.rounds = self.fits + 1, self.rounds + rounds
        if self._rewrites:
            self._write(split, "\r")

    def scored(self, split: int) -> None:
        """All models of a split have their scores."""
        if not self._rewrites:
            self._write(split, "\n")

    def _write(self, split: int, end: str) -> None:
        if self.verbose:
            line = (
                f"select: {self.word} {split + 1} of {self.splits}, {self.fits} fits in "
                f"{self.rounds} rounds, {perf_counter() - self._start:.1f} s"
            )
            print(line, end=end, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.verbose and self._rewrites:
            print(file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Split:
    """Train on some clients, score on some."""

    # trained, scored: the numbers of the clients
    trained: tuple[int, ...]
    scored: tuple[int, ...]
    parts: tuple[Part, ...]  # how each client divides its rows


def folds_of_everyone(n_clients: int, folds: int, seed: int) -> list[Split]:
    """Every client holds out one fold after the other."""
    everyone, seeds = tuple(range(n_clients)), _seeds(n_clients, seed)
    return [
        Split(everyone, everyone, tuple(Part(fold, folds, s) for s in seeds))
        for fold in range(folds)
    ]


def one_client_out(n_clients: int) -> list[Split]:
    """Train on all clients but one and score on that one, with all their rows."""
    everyone, whole = range(n_clients), tuple(Part(0, 1, 0) for _ in range(n_clients))
    return [Split(tuple(s for s in everyone if s != out), (out,), whole) for out in everyone]


def _seeds(n_clients: int, seed: int) -> list[int]:
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(n_clients)]


@dataclass(frozen=True)
class Stage:
    """Clients placed once for candidates that differ in radii, label costs and weights alone."""

    clients: SelectionClients  # who takes part
    candidates: Mapping[int, Candidate]  # by number, in the order of the path
    noise: float  # the standard deviation of the noise on held-out rows
    score: str  # what the clients tell of held-out rows

    def run(
        self, splits: Sequence[Split], progress: ProgressLine
    ) -> tuple[Array, list[list[dict[int, Fit]]]]:
        """Scores (points, splits, clients), NaN where none is, and fits by split and model."""
        first = next(iter(self.candidates.values()))
        found = np.full((len(self.candidates), len(splits), len(self.clients.names)), np.nan)
        placed = self.clients.groups
        fits: list[list[dict[int, Fit]]] = []
        wish = first.choices.engine
        with make_engine("serial" if wish is None else wish) as engine:
            solver = solver_for(first, self.clients)
            handlers = {**on_parts(solver.handlers), **scores.HANDLERS}
            engine.start([client for group in placed for client in group], first.shell, handlers)
            for number, split in enumerate(splits):
                solved = partial(progress.solved, number)
                fits.append([self._path(group, split, solver, engine, solved) for group in placed])
                self._score(placed, split, fits[-1], engine, found[:, number])
                progress.scored(number)
        return found, fits

    def _path(
        self,
        clients: Sequence[Party],
        split: Split,
        solver: Solver,
        engine: Engine,
        solved: Callable[[int], object],
    ) -> dict[int, Fit]:
        some = [clients[s] for s in split.trained]
        names = [client.name for client in some]
        parts = {clients[s].name: split.parts[s] for s in split.trained}
        problems = [
            (number, candidate, for_clients(candidate.problem, self.clients, split.trained, names))
            for number, candidate in self.candidates.items()
        ]
        if isinstance(solver, WarmBundle):
            solver.forget()  # cuts of other rows
        return follow(problems, some, solver, FoldEngine(engine, parts), solved)

    def _score(
        self,
        placed: Sequence[Sequence[Party]],
        split: Split,
        fits: Sequence[Mapping[int, Fit]],
        engine: Engine,
        found: Array,
    ) -> None:
        """Ask the clients of a split for the scores of all its models, and add them up."""
        results = [[fit[number].result for fit in fits] for number in self.candidates]
        for result in (one for models in results for one in models):
            if result.status.kind is StatusKind.FAILED:
                raise RuntimeError(f"the rows of a split give no model: {result.status.message}")
        told = ask_scores(engine, placed, split, results, [self.score], self.noise)
        for s, scored in zip(split.scored, told, strict=True):
            if np.isnan(scored).any():
                raise RuntimeError(f"client {placed[0][s].name!r} gave no score: it is no number")
            found[:, s] = scored[0]


def solver_for(first: Candidate, clients: SelectionClients, **bundle: Any) -> Solver:
    """The local method where the estimator would take it, otherwise the bundle method."""
    choices, joint = first.choices, first.problem.classes is not None
    if solver_name(choices, named=clients.named, joint=joint) == LOCAL:
        return make_solver(LOCAL, choices)
    return WarmBundle(Bundle(curvature=choices.curvature, **bundle))


def ask_scores(
    engine: Engine,
    placed: Sequence[Sequence[Party]],
    split: Split,
    models: Sequence[Sequence[Any]],
    names: Sequence[str],
    noise: float = 0.0,
) -> Array:
    """Scores (clients, M, P) of P models on the rows that the clients of a split hold out."""
    coef = np.array([stacked(ones)[0] for ones in models])
    own = range(len(placed)) if len(placed) > 1 else [scores.EVERY_CLASS]
    messages = {
        group[s].name: scores.request(
            split.parts[s], coef, scores.intercepts_of(models, group[s].name), k, noise, names
        )
        for k, group in zip(own, placed, strict=True)
        for s in split.scored
    }
    replies, found = answered(engine, messages), []
    for s in split.scored:
        try:
            told = [scores.read(replies[group[s].name], names, len(coef)) for group in placed]
        except WireError as error:
            raise RuntimeError(f"client {placed[0][s].name!r} gave no score: {error}") from None
        found.append(np.sum(told, axis=0))
    return np.array(found)


def answered(engine: Engine, messages: Mapping[str, Message]) -> Mapping[str, Message]:
    """The answers of all clients; a RuntimeError names one that gave none."""
    answers = engine.map(messages, None)
    for name, failure in answers.failures.items():
        raise RuntimeError(f"client {name!r} gave no score: {Failure(failure).sentence}")
    return answers.replies


ERM = ("radius", "mixture_radius")
"""With these parameters at 0 a problem is ERM."""
ANCHORED = ("mean", "new_client")
"""Rules that keep the anchor of the default grid unless another point is clearly better."""


def choose(
    estimator: RobustModel,
    clients: SelectionClients,
    *,
    rule: str,
    grid: Mapping[str, Sequence[Any]] | None = None,
    folds: int = 5,
    noise_scale: float | None = None,
    scoring: str | None = None,
    random_state: Any = None,
    verbose: int = 1,
) -> Choice:
    """What `select` finds out, on clients wherever they are."""
    noise = checked_noise(rule, noise_scale)
    folds, shown = whole("folds", folds), parameters.verbose_of(verbose)
    seed = parameters.seed_of(random_state)
    told = scores.score_of(scoring, estimator.checked_parameters().loss)
    tried = default_grid(clients, estimator.get_params(), rule) if grid is None else grid
    candidates = [candidate(estimator, point, clients) for point in grid_points(tried)]
    anchor = erm = -1
    if grid is None and rule in ANCHORED:
        kept = anchor_params(clients, tried)
        anchor = next(k for k, point in enumerate(candidates) if point.params == kept)
    if rule == "new_client":
        if clients.curves is not None and clients.curves.shaped:
            raise ValueError(NO_RULES_OF_ERM)
        erm = _with_erm(estimator, clients, candidates)
    splits = _splits(rule, clients, folds, seed)
    word = "client left out" if rule == "new_client" else "fold"
    with ProgressLine(shown, len(splits), word) as progress:
        found, fits = _run(candidates, Stage(clients, {}, noise, told), splits, progress)
    names = {erm: "ERM", anchor: "the anchor"}
    points = summarise(candidates, clients, found, fits, names)
    radii = [point.radius for point in candidates]
    best, reason = RULES[rule](GridEvidence(points, radii, noise, erm, anchor))
    return Choice(tuple(points), candidates[best].params, reason)


def _run(
    candidates: Sequence[Candidate],
    whole: Stage,
    splits: Sequence[Split],
    progress: ProgressLine,
) -> tuple[Array, list[list[Fit]]]:
    """Scores (points, splits, clients) and every fit, by point; in stages of one shell each."""
    found = np.full((len(candidates), len(splits), len(whole.clients.names)), np.nan)
    fits: list[list[Fit]] = [[] for _ in candidates]
    waiting = dict(enumerate(candidates))
    while waiting:
        shell = next(iter(waiting.values())).shell
        own = [k for k, point in waiting.items() if point.shell == shell]
        own.sort(key=lambda k: candidates[k].order)
        stage = replace(whole, candidates={k: waiting.pop(k) for k in own})
        found[own], solved = stage.run(splits, progress)
        for k in own:
            fits[k] = [model[k] for split in solved for model in split]
    return found, fits


def _splits(rule: str, clients: SelectionClients, folds: int, seed: int) -> list[Split]:
    rows = clients.rows
    if rule == "new_client":
        if len(rows) < 2:
            raise ValueError("rule='new_client' leaves one client out: name at least two clients")
        return one_client_out(len(rows))
    whole("folds", folds, least=2)
    least = int(np.argmin(rows))
    if rows[least] < folds:
        raise ValueError(
            f"client {clients.labels[least]!r} cannot split n_samples = {rows[least]} different "
            f"rows into {folds} folds: take fewer folds"
        )
    return folds_of_everyone(len(rows), folds, seed)


def _with_erm(
    estimator: RobustModel, clients: SelectionClients, candidates: list[Candidate]
) -> int:
    """The number of the grid point that is ERM, which is added if there is none."""
    params = estimator.get_params(deep=False)
    erm = candidate(estimator, {name: 0.0 for name in ERM if name in params}, clients)
    for k, other in enumerate(candidates):
        if other.key == erm.key:
            return k
    candidates.append(erm)
    return len(candidates) - 1


def checked_noise(rule: str, scale: Any) -> float:
    """The deviation of the noise that a rule adds, 0 if it adds none."""
    lookup("rule", rule, RULES)
    if rule != "noise":
        if scale is not None:
            raise ValueError(
                f"noise_scale is for rule='noise', not for rule={rule!r}: leave it out"
            )
        return 0.0
    if scale is None:
        raise ValueError(
            "rule='noise' needs noise_scale: the standard deviation of the noise that you fear"
        )
    return number("noise_scale", scale, above=0.0)
