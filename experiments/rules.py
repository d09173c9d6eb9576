"""Selection rules on an experiment's scores, and the oracle that no rule may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.estimators.client_table import ClientTable
from drfl.selection.choice import summarise
from drfl.selection.cross_validation import Split, folds_of_everyone, one_client_out
from drfl.selection.rules import RULES, GridEvidence
from experiments.data import some_rows
from experiments.fits import Grid
from experiments.methods import RADIUS, THETA
from experiments.scoring import mean_scores

CROSS_VALIDATED = ("mean", "one_se", "worst_client", "noise")
UNTUNED = {"untuned_0.1": 0.1, "untuned_0.3": 0.3}
"""Radii c / sqrt(N_s) by the name of the rule."""
ORACLE = "oracle"
TITLES = {
    "mean": "best mean in cross-validation (the paper's rule)",
    "one_se": "largest radius within one standard error",
    "worst_client": "best worst client in cross-validation",
    "noise": "best mean on held-out rows with noise",
    "new_client": "best on clients left out",
    "untuned_0.1": "no tuning: radius 0.1/√N, θ = 0.2",
    "untuned_0.3": "no tuning: radius 0.3/√N, θ = 0.2",
    ORACLE: "ORACLE - LEAKAGE: parameters picked on the noisy test rows",
}


@dataclass(frozen=True)
class Scores:
    """What a grid has scored, larger is better; each (points, trials, clients), NaN: not scored.

    Attributes
    ----------
    plain, noisy : arrays
        On rows held out in cross-validation, as they are and with noise.
    left_out : array
        On clients that were left out.
    """

    plain: Array
    noisy: Array
    left_out: Array


def score_grid(grid: Grid, table: ClientTable, seed: int, rules: Sequence[str]) -> Scores:
    """Fit a grid to every trial's rows and score it on those that are held out.

    Parameters
    ----------
    grid, table : Grid, ClientTable
        What is tried on which rows.
    seed : int
        Of the folds.
    rules : sequence of str
        Those that will be asked: what none of them needs is not computed.
    """
    protocol, S = grid.protocol, len(table.names)
    folds = folds_of_everyone(S, protocol.folds, seed)
    plain, noisy = _run(
        grid, table, folds if set(rules) & {*CROSS_VALIDATED} else [], [0.0, protocol.feared_sd]
    )
    alone = one_client_out(S) if "new_client" in rules else []
    (left_out,) = _run(grid, table, alone, [0.0])
    return Scores(plain, noisy, left_out)


def choose(rule: str, grid: Grid, scores: Scores, erm: Scores) -> int:
    """The number of the grid point that a rule takes; -1: ERM, which "new_client" may prefer.

    Parameters
    ----------
    rule : str
        A rule of `drfl.selection`.
    grid : Grid
        What was tried.
    scores, erm : Scores
        Those of the grid, and of ERM.
    """
    found = {"noise": scores.noisy, "new_client": scores.left_out}.get(rule, scores.plain)
    candidates, last = list(grid.candidates), -1
    caution = [_caution(point) for point in grid.params]
    if rule == "new_client":
        found = np.concatenate([found, erm.left_out])
        candidates, last = [*candidates, candidates[0]], len(candidates)
        caution.append(0.0)
    points = summarise(candidates, grid.taking_part, found, [[] for _ in candidates], {last: "ERM"})
    best, _ = RULES[rule](GridEvidence(points, caution, grid.protocol.feared_sd, last))
    return -1 if best == last else best


def _caution(params: dict[str, float]) -> float:
    """What "one_se" wants to be large: the radius, or for AFL the radius of the weights."""
    return float(params.get(RADIUS, params.get(THETA, 0.0)))


def _run(
    grid: Grid, table: ClientTable, trials: Sequence[Split], sds: Sequence[float]
) -> list[Array]:
    """Scores (points, trials, clients) under noise of each standard deviation."""
    shape = (len(grid.candidates), len(trials), len(table.names))
    found = [np.full(shape, np.nan) for _ in sds]
    starts = np.searchsorted(table.member, range(len(table.names) + 1))
    for t, trial in enumerate(trials):
        kept = np.zeros(len(table.y), dtype=bool)
        for s in trial.trained:
            kept[starts[s] + trial.parts[s].training(starts[s + 1] - starts[s])] = True
        models = grid.fit(some_rows(table, kept))
        for s in trial.scored:
            rows = starts[s] + trial.parts[s].held_out(starts[s + 1] - starts[s])
            X, y, weight = table.X[rows], table.y[rows], table.weight[rows]
            for k, sd in enumerate(sds):
                regression = grid.protocol.is_regression
                found[k][:, t, s] = mean_scores(
                    models, X, y, weight, (0.0, sd), regression=regression
                )
    return found
