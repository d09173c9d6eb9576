"""One seed of the paper's comparison: five methods, every selection rule, three sweeps of noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.estimators.client_table import ClientTable
from experiments.data import Sample, paper_sample
from experiments.fits import Grid
from experiments.methods import METHODS, Params, grid, untuned
from experiments.protocol import Protocol
from experiments.rules import ORACLE, UNTUNED, Scores, choose, score_grid
from experiments.scoring import Models, sweep_scores

Row = dict[str, Any]


def run_seed(protocol: Protocol, seed: int) -> list[Row]:
    """The rows of the records: one for every method and rule.

    A row has the parameters that were chosen, and under ``sweeps`` the score at every level of each
    sweep: the accuracy, or the mean squared error, as the mean over the test clients. ``worst``
    is that of the worst test client without noise.
    """
    sample = paper_sample(protocol, seed)
    return compare(sample, protocol, seed, Judge(protocol, sample, seed))


class Judge:
    """Measures models on test rows.

    Parameters
    ----------
    protocol : Protocol
        The noise.
    sample : Sample
        The rows.
    seed : int
        Of draws, if there are any.
    """

    def __init__(self, protocol: Protocol, sample: Sample, seed: int) -> None:
        self.protocol, self.tests, self.seed = protocol, sample.tests, seed
        self.noises = {"clean": [(0.0, 0.0)], **protocol.sweeps}

    def scores(self, models: Models) -> dict[str, Array]:
        """Scores (levels, clients, P) by sweep: larger is better."""
        return {
            sweep: sweep_scores(
                models,
                self.tests,
                noises,
                draws=0 if sweep == "clean" else self.protocol.draws,
                seed=self.seed,
                regression=self.protocol.is_regression,
            )
            for sweep, noises in self.noises.items()
        }

    def row(self, scores: dict[str, Array], at: int | None) -> Row:
        """What the records say of the model with this number; None: the best at every level."""
        sign = -1.0 if self.protocol.is_regression else 1.0

        def picked(values: Array) -> Array:
            return np.asarray(values.max(axis=-1) if at is None else values[..., at])

        means = {name: picked(found.mean(axis=1)) for name, found in scores.items()}
        clean = means.pop("clean")
        return {
            "clean": sign * float(clean[0]),
            "worst": sign * float(picked(scores["clean"].min(axis=1))[0]),
            "sweeps": {name: (sign * values).tolist() for name, values in means.items()},
        }


def compare(sample: Sample, protocol: Protocol, seed: int, judge: Judge) -> list[Row]:
    """Tune, train and judge every method by every rule."""
    table, rows, rules = sample.train, list[Row](), protocol.rules
    erm, erm_row = None, Row()
    for method in METHODS:
        own = Grid(method, grid(method, protocol), table, protocol)
        scores = score_grid(own, table, seed, rules) if len(own.candidates) > 1 else None
        judged = judge.scores(own.fit(table))
        if method == "erm":
            erm_row = judge.row(judged, 0)
            erm = score_grid(own, table, seed, [rule for rule in rules if rule == "new_client"])
        for rule in rules:
            params, row = _row(rule, own, table, scores, erm, judge, judged)
            if params is None:
                params, row = {"erm": True}, erm_row
            rows.append({"method": method, "rule": rule, "params": params, **row})
    return rows


def _row(
    rule: str,
    own: Grid,
    table: ClientTable,
    scores: Scores | None,
    erm: Scores | None,
    judge: Judge,
    judged: dict[str, Array],
) -> tuple[Params | None, Row]:
    """Parameters and measures of a method by a rule; no parameters: the rule takes ERM."""
    if rule == ORACLE:
        return {}, judge.row(judged, None)
    if len(own.candidates) == 1:
        return own.params[0], judge.row(judged, 0)
    if rule in UNTUNED:
        params = untuned(own.method, UNTUNED[rule], table)
        model = Grid(own.method, [params], table, own.protocol).fit(table)
        return params, judge.row(judge.scores(model), 0)
    assert scores is not None
    assert erm is not None
    best = choose(rule, own, scores, erm)
    return (None, {}) if best < 0 else (own.params[best], judge.row(judged, best))
