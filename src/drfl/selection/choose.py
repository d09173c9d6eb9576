"""Train on parts of the clients' rows, let them score, and follow a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drfl._registry import lookup
from drfl.arrays import Array
from drfl.checks import number, whole
from drfl.estimators import checks
from drfl.estimators.base import RobustModel
from drfl.selection.grid import Candidate, candidate, grid_points
from drfl.selection.path import Fit
from drfl.selection.progress import Progress
from drfl.selection.roster import Roster
from drfl.selection.rules import RULES, Evidence
from drfl.selection.summary import summarise
from drfl.selection.table import Choice
from drfl.selection.trials import Stage, Trial, folds_of_everyone, one_client_out

ERM = ("radius", "mixture_radius")
"""With these parameters at 0 a problem is ERM."""


def choose(
    estimator: RobustModel,
    roster: Roster,
    *,
    rule: str,
    grid: Mapping[str, Sequence[Any]] | None = None,
    folds: int = 5,
    noise_scale: float | None = None,
    random_state: Any = None,
    verbose: int = 1,
) -> Choice:
    """What `select` finds out, on clients wherever they are."""
    noise = checked_noise(rule, noise_scale)
    folds, shown = whole("folds", folds), checks.verbose_of(verbose)
    seed = checks.seed_of(random_state)
    candidates = [candidate(estimator, p, roster) for p in grid_points(grid, roster.totals)]
    erm = -1
    if rule == "new_client":
        erm = _with_erm(estimator, roster, candidates)
    trials = _trials(rule, roster, folds, seed)
    word = "client left out" if rule == "new_client" else "fold"
    with Progress(shown, len(trials), word) as progress:
        scores, fits = _run(candidates, Stage(roster, {}, noise), trials, progress)
    points = summarise(candidates, roster, scores, fits, erm)
    best, reason = RULES[rule](Evidence(points, [c.radius for c in candidates], noise, erm))
    return Choice(tuple(points), candidates[best].params, reason)


def _run(
    candidates: Sequence[Candidate], whole: Stage, trials: Sequence[Trial], progress: Progress
) -> tuple[Array, list[list[Fit]]]:
    """Scores (points, trials, clients) and every fit, by point; in stages of one shell each."""
    scores = np.full((len(candidates), len(trials), len(whole.roster.names)), np.nan)
    fits: list[list[Fit]] = [[] for _ in candidates]
    waiting = dict(enumerate(candidates))
    while waiting:
        shell = next(iter(waiting.values())).shell
        own = [k for k, point in waiting.items() if point.shell == shell]
        own.sort(key=lambda k: candidates[k].order)
        stage = replace(whole, candidates={k: waiting.pop(k) for k in own})
        scores[own], found = stage.run(trials, progress)
        for k in own:
            fits[k] = [model[k] for trial in found for model in trial]
    return scores, fits


def _trials(rule: str, roster: Roster, folds: int, seed: int) -> list[Trial]:
    rows = roster.rows
    if rule == "new_client":
        if len(rows) < 2:
            raise ValueError("rule='new_client' leaves one client out: name at least two clients")
        return one_client_out(len(rows))
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    least = int(np.argmin(rows))
    if rows[least] < folds:
        raise ValueError(
            f"client {roster.labels[least]!r} cannot split n_samples = {rows[least]} different "
            f"rows into {folds} folds: take fewer folds"
        )
    return folds_of_everyone(len(rows), folds, seed)


def _with_erm(estimator: RobustModel, roster: Roster, candidates: list[Candidate]) -> int:
    """The number of the grid point that is ERM, which is added if there is none."""
    params = estimator.get_params(deep=False)
    erm = candidate(estimator, {name: 0.0 for name in ERM if name in params}, roster)
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
