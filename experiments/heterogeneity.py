"""Where robustness for every client should pay: clients that differ, and clients nobody has seen.

Three settings on each data set. ``label_skew``: the clients' shares of the classes, or their ranges
of the target, differ. ``noisy_client``: one client's training rows are noisy, its test rows are
not. ``unseen_client``: the clients differ, each is left out of the training in turn and judged
alone. Measured are the mean over the clients and the worst client, without noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drfl.datasets import add_client_noise, partition
from experiments.comparison import Judge, compare
from experiments.data import Rows, Sample, as_table, load
from experiments.heterogeneity_figure import draw, report
from experiments.protocol import RULES, Protocol
from experiments.records import Row, Task
from experiments.registry import Experiment
from experiments.settings import Settings, at_least, one_of

SCENARIOS = ("label_skew", "noisy_client", "unseen_client")


@dataclass(frozen=True)
class Heterogeneity(Settings):
    """The settings and the grid.

    Attributes
    ----------
    datasets, scenarios : tuple of str
        What is run.
    clients : int
        How many there are.
    skew, noise : float
        How random the sorted rows are divided (0: sorted by the target); SD of the noisy client.
    train_share, folds, tol
        As in the paper's protocol.
    rows : int
        At most so many rows of a data set are used, drawn anew with every seed.
    radii, mixture_radii : tuple of float
        The grid; labels never move.
    """

    datasets: tuple[str, ...] = ("heart", "breast-cancer", "abalone")
    scenarios: tuple[str, ...] = SCENARIOS
    clients: int = 4
    skew: float = 1.0
    noise: float = 1.0
    train_share: float = 0.6
    folds: int = 3
    tol: float = 1e-5
    rows: int = 1000
    radii: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
    mixture_radii: tuple[float, ...] = (0.2, 1.0)

    def __post_init__(self) -> None:
        for name in self.datasets:
            one_of("dataset", name, "heart", "breast-cancer", "abalone")
        for name in self.scenarios:
            one_of("scenario", name, *SCENARIOS)
        at_least("clients", self.clients, 3)
        at_least("skew", self.skew, 0.0)

    def quick(self) -> Self:
        return replace(self, clients=3, folds=2, radii=(1e-2, 1e-1), mixture_radii=(0.2,), rows=300)

    def protocol(self, dataset: str) -> Protocol:
        """The grid and the choices as the comparison takes them."""
        return Protocol(
            dataset,
            clients=self.clients,
            folds=self.folds,
            tol=self.tol,
            radii=self.radii,
            label_costs=(np.inf,),
            mixture_radii=self.mixture_radii,
            means=(0.0,),
            sds=(0.0,),
            ratio_sds=(0.0,),
            fixed_sd=0.0,
            rules=tuple(rule for rule in RULES if rule != "noise"),
        )


def tasks(settings: Heterogeneity, seeds: int) -> list[Task]:
    """Every scenario on every data set with every seed."""
    return [
        {"scenario": scenario, "dataset": dataset, "seed": seed}
        for scenario in sorted(settings.scenarios, reverse=True)  # the longest first
        for dataset in settings.datasets
        for seed in range(seeds)
    ]


def run(settings: Heterogeneity, task: Task) -> list[Row]:
    """Mean and worst client of every method by every rule."""
    scenario, seed = task["scenario"], task["seed"]
    protocol = settings.protocol(task["dataset"])
    trained, judged = divided(settings, task["dataset"], scenario, seed)
    if scenario != "unseen_client":
        sample = Sample(as_table(trained), judged)
        return [_slim(row) for row in _compared(sample, protocol, seed)]
    each = [
        _compared(Sample(as_table(trained[:s] + trained[s + 1 :]), [judged[s]]), protocol, seed)
        for s in range(len(trained))
    ]
    return [_merged(rows, protocol) for rows in zip(*each, strict=True)]


def divided(
    settings: Heterogeneity, dataset: str, scenario: str, seed: int
) -> tuple[list[Rows], list[Rows]]:
    """Training and test rows of every client."""
    X, y = load(dataset)
    rng = np.random.default_rng([seed, 5])
    chosen = rng.permutation(len(y))[: settings.rows]
    X, y = X[chosen], y[chosen]
    if scenario == "noisy_client":
        parts = partition.random(len(y), settings.clients, rng)
    else:
        parts = partition.sorted_skew(y, settings.clients, settings.skew, rng)
    sides = [_cut(rng.permutation(rows), settings.train_share) for rows in parts]
    features = [X[train] for train, _ in sides]
    if scenario == "noisy_client":
        features = add_client_noise(features, 0.0, {0: settings.noise}, rng)
    trained = list(zip(features, [y[train] for train, _ in sides], strict=True))
    return trained, [(X[test], y[test]) for _, test in sides]


def _cut(rows: NDArray[Any], share: float) -> tuple[NDArray[Any], NDArray[Any]]:
    cut = round(share * len(rows))
    return rows[:cut], rows[cut:]


def _compared(sample: Sample, protocol: Protocol, seed: int) -> list[Row]:
    return compare(sample, protocol, seed, Judge(protocol, sample, seed))


def _slim(row: Row) -> Row:
    return {name: row[name] for name in ("method", "rule", "params", "clean", "worst")}


def _merged(rows: Sequence[Row], protocol: Protocol) -> Row:
    """The clients that were left out, together."""
    values = [row["clean"] for row in rows]
    worst = max(values) if protocol.is_regression else min(values)
    first = {name: rows[0][name] for name in ("method", "rule")}
    params = [row["params"] for row in rows]
    return {**first, "params": params, "clean": float(np.mean(values)), "worst": worst}


EXPERIMENT = Experiment(Heterogeneity(), tasks, run, report, draw)
