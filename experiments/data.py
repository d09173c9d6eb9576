"""Rows of an experiment: split, divided into clients, with noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.datasets import (
    add_client_noise,
    load_abalone,
    load_breast_cancer,
    load_heart,
    partition,
)
from drfl.estimators.client_table import ClientTable
from drfl.selection.clients import sorted_table
from experiments.protocol import Protocol

Rows = tuple[Array, Array]
"""X (N, n) and y (N,)."""


@dataclass(frozen=True)
class Sample:
    """What the methods are given, and what they are judged by.

    Attributes
    ----------
    train : ClientTable
        Rows of all clients, in the order in which folds are drawn.
    tests : list of Rows
        One for every client that is judged.
    """

    train: ClientTable
    tests: list[Rows]


def load(dataset: str, *, with_id: bool = False, distinct: bool = False) -> Rows:
    """All rows of a bundled data set, features in [-1, 1]."""
    if dataset == "heart":
        bunch = load_heart()
    elif dataset == "abalone":
        bunch = load_abalone()
    else:
        bunch = load_breast_cancer(include_id=with_id)
    X, y = bunch.data, bunch.target.astype(np.float64)
    if distinct:
        first = np.sort(np.unique(np.column_stack([X, y]), axis=0, return_index=True)[1])
        X, y = X[first], y[first]
    return X, y


def paper_sample(protocol: Protocol, seed: int) -> Sample:
    """Split, divide, thin out and spoil the rows as Section 6 does."""
    X, y = load(protocol.dataset, with_id=protocol.with_id, distinct=protocol.distinct)
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(len(y))
    cut = round(protocol.train_share * len(y))
    train, test = ([side[part] for part in partition.random(len(side), protocol.clients, rng)]
                   for side in (order[:cut], order[cut:]))  # fmt: skip
    if protocol.minority:
        train = partition.class_imbalance(train, y, protocol.minority, rng)
    noisy = {0: protocol.train_mean}, {0: protocol.train_sd}
    features = add_client_noise([X[rows] for rows in train], *noisy, rng)
    if protocol.box == "clip":
        features = [np.clip(x, -1.0, 1.0) for x in features]
    return Sample(
        as_table(list(zip(features, [y[rows] for rows in train], strict=True))),
        [(X[rows], y[rows]) for rows in test],
    )


def as_table(clients: list[Rows]) -> ClientTable:
    """The rows of clients that are called client1, client2, and so on."""
    names = np.repeat([f"client{s + 1:02d}" for s in range(len(clients))],
                      [len(y) for _, y in clients])  # fmt: skip
    X, y = (np.concatenate(part) for part in zip(*clients, strict=True))
    return sorted_table(ClientTable.of(X, y, names, None))


def some_rows(table: ClientTable, kept: NDArray[np.bool_]) -> ClientTable:
    """The table of some of its rows; clients without any are gone."""
    return replace(table, weight=np.where(kept, table.weight, 0.0)).present()
