"""The choice of radius and other parameters, without seeing anyone's data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drfl._registry import lookup
from drfl.estimators import checks
from drfl.estimators.base import RobustModel
from drfl.estimators.table import Table
from drfl.losses import Array
from drfl.selection.grid import Candidate, candidate, grid_points, with_params
from drfl.selection.path import Fit
from drfl.selection.progress import Progress
from drfl.selection.rules import RULES, Evidence
from drfl.selection.summary import summarise
from drfl.selection.table import Selection
from drfl.selection.trials import Stage, Trial, folds_of_everyone, one_client_out

ERM = ("radius", "mixture_radius")
"""With these parameters at 0 a problem is ERM."""


def select(
    estimator: RobustModel,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    rule: str = "mean",
    grid: Mapping[str, Sequence[Any]] | None = None,
    folds: int = 5,
    noise_scale: float | None = None,
    random_state: Any = None,
    verbose: int = 1,
    sample_weight: Any = None,
) -> Selection:
    r"""Choose parameters of an estimator by what clients report of rows they held out.

    Every client splits its own rows into folds. Models are trained federatedly on the rest, and
    each client answers with its score: the share of its held-out rows whose class is predicted, or
    minus the mean loss. The path over the radii is warm-started, and grid points that cannot
    differ are solved once. In every fold a radius is the number that it is for all rows.

    Parameters
    ----------
    estimator : DRFLClassifier, DRFLRegressor or one of drfl.baselines
        Its parameters hold where the grid says nothing.
    X, y, clients, sample_weight
        As for its ``fit``.
    rule : {"mean", "one_se", "worst_client", "noise", "new_client"}
        The best mean score, the clients weighing as in the centre of the mixture; the largest
        radius within one standard error of it; the best score of the worst client; the best mean
        score on rows with noise; the best score on a client that was left out, in turn, unless ERM
        is better.
    grid : mapping of str to sequence, optional
        Values to try by parameter, in all combinations; by default seven radii from 0 to
        :math:`3/\sqrt{\bar N}` with the mean number of rows of a client.
    folds : int
        Into how many folds clients split their rows; without effect for "new_client".
    noise_scale : float, optional
        For "noise": the standard deviation of the noise in every feature.
    random_state : None, int or RandomState
        Decides which rows are in which fold.
    verbose : int
        If positive, progress is shown on the standard error stream.

    Returns
    -------
    Selection
        The table, the choice with its reason, and the estimator fitted to all rows.

    Examples
    --------
    >>> from drfl.estimators import DRFLRegressor
    >>> X, y = np.arange(12.0)[:, None] / 4.0, np.arange(12.0)
    >>> found = select(DRFLRegressor(), X, y, folds=3, grid={"radius": [0.0, 1.0]}, verbose=0)
    >>> found.best_params
    {'radius': 0.0}
    """
    _check_estimator(estimator)
    noise = _checked_noise(rule, noise_scale)
    folds, shown = checks.whole("folds", folds), checks.whole("verbose", verbose)
    seed = checks.seed_of(random_state)
    reader = with_params(estimator, {})
    reader._choices()
    table = sorted_table(reader._read(X, y, clients, sample_weight))
    candidates = [candidate(estimator, p, table) for p in grid_points(grid, table.totals)]
    erm = -1
    if rule == "new_client":
        erm = _with_erm(estimator, table, candidates)
    trials = _trials(rule, table, folds, seed)
    word = "client left out" if rule == "new_client" else "fold"
    whole = Stage(table, reader._targets(table.y), {}, clients is not None, noise)
    with Progress(shown, len(trials), word) as progress:
        scores, fits = _run(candidates, whole, trials, progress)
    points = summarise(candidates, table, scores, fits, erm)
    best, reason = RULES[rule](Evidence(points, [c.radius for c in candidates], noise, erm))
    chosen: Any = with_params(estimator, candidates[best].params)
    chosen.fit(X, y, clients=clients, sample_weight=sample_weight)
    return Selection(tuple(points), candidates[best].params, reason, chosen)


def sorted_table(table: Table) -> Table:
    """Equal rows merged, and those of a client in the order of y: folds are then stratified.

    What is selected does not depend on the order of the rows, and copies of a row are never on
    both sides of a split.
    """
    table = table.canonical()
    order = np.lexsort((table.y, table.member))
    X, y, weight = table.X[order], table.y[order], table.weight[order]
    return Table(X, y, weight, table.member[order], table.names)


def _run(
    candidates: Sequence[Candidate], whole: Stage, trials: Sequence[Trial], progress: Progress
) -> tuple[Array, list[list[Fit]]]:
    """Scores (points, trials, clients) and every fit, by point; in stages of one shell each."""
    scores = np.full((len(candidates), len(trials), len(whole.table.names)), np.nan)
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


def _trials(rule: str, table: Table, folds: int, seed: int) -> list[Trial]:
    rows = np.bincount(table.member, minlength=len(table.names))
    if rule == "new_client":
        if len(rows) < 2:
            raise ValueError("rule='new_client' leaves one client out: name at least two clients")
        return one_client_out(len(rows))
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    least = int(rows.argmin())
    if rows[least] < folds:
        raise ValueError(
            f"client {table.labels[least]!r} cannot split n_samples = {rows[least]} different rows "
            f"into {folds} folds: take fewer folds"
        )
    return folds_of_everyone(len(rows), folds, seed)


def _with_erm(estimator: RobustModel, table: Table, candidates: list[Candidate]) -> int:
    """The number of the grid point that is ERM, which is added if there is none."""
    params = estimator.get_params(deep=False)
    erm = candidate(estimator, {name: 0.0 for name in ERM if name in params}, table)
    for k, other in enumerate(candidates):
        if other.key == erm.key:
            return k
    candidates.append(erm)
    return len(candidates) - 1


def _check_estimator(estimator: Any) -> None:
    solved = isinstance(estimator, RobustModel) and type(estimator)._fit is RobustModel._fit
    if not solved or "grid" in estimator.get_params(deep=False):
        raise TypeError(
            "estimator must be a DRFLClassifier, a DRFLRegressor or one of drfl.baselines, got "
            f"{type(estimator).__name__}"
        )


def _checked_noise(rule: str, scale: Any) -> float:
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
    number = checks.number("noise_scale", scale)
    if not 0.0 < number < math.inf:
        raise ValueError(f"noise_scale must be a finite number > 0, got {number!r}")
    return number
