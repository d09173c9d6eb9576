"""Who takes part in a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.client import Party
from drfl.curves import Curves
from drfl.estimators.base import RobustModel
from drfl.estimators.client_table import ClientTable
from drfl.selection.client_half.folds import copy_name


@dataclass(frozen=True)
class SelectionClients:
    """The clients of a selection, wherever their rows are."""

    names: Sequence[Any]  # as the user gave them
    rows: Sequence[int]  # how many different rows each client divides into folds
    totals: Array  # (S,), N_s: the total weight of every client's rows
    n_features: int  # how many columns the rows have
    # The clients of each of the K models, in the order of the names
    groups: Sequence[Sequence[Party]]
    named: bool = True  # whether the user named the clients
    curves: Curves | None = None  # of the columns, where the models are additive
    classes: int | None = None  # how many there are
    class_names: Sequence[str] = ()  # what they are called; their numbers, if nothing is said

    @property
    def labels(self) -> list[str]:
        """The names as strings."""
        return [str(name) for name in self.names]

    @property
    def classes_at_once(self) -> int | None:
        """How many classes one problem tells apart; None: every problem is of one score."""
        return None if self.classes in (None, 2) or len(self.groups) > 1 else self.classes

    @classmethod
    def of(
        cls, table: ClientTable, targets: Sequence[Array], *, named: bool, **known: Any
    ) -> SelectionClients:
        """The clients of a table, with the target of each of the K models."""
        table_rows = np.bincount(table.member, minlength=len(table.names)).tolist()
        copies: Sequence[int | None] = [None] if len(targets) == 1 else range(len(targets))
        groups = [list(_copy(table, k).clients(y)) for k, y in zip(copies, targets, strict=True)]
        names, n = table.names.tolist(), table.X.shape[1]
        return cls(names, table_rows, table.totals, n, groups, named, **known)

    @classmethod
    def read(cls, reader: RobustModel, table: ClientTable, *, named: bool) -> SelectionClients:
        """The clients of a table that an estimator has read, for its models."""
        curves = reader.curves_of(table)
        choices, n = reader.checked_parameters(), table.X.shape[1]
        joint = choices.together(reader.n_classes, n, curves)[0] is not None
        return cls.of(
            table,
            reader.model_targets(table.y, joint=joint),
            named=named,
            curves=curves,
            classes=reader.n_classes,
            class_names=[str(label) for label in getattr(reader, "classes_", ())],
        )


def _copy(table: ClientTable, copy: int | None) -> ClientTable:
    names = [copy_name(label, copy) for label in table.labels]
    return table if copy is None else replace(table, names=np.array(names))


def sorted_table(table: ClientTable) -> ClientTable:
    """Equal rows merged, and those of a client in the order of y: folds are then stratified.

    What is selected does not depend on the order of the rows, and copies of a row are never on
    both sides of a split.
    """
    table = table.canonical()
    order = np.lexsort((table.y, table.member))
    X, y, weight = table.X[order], table.y[order], table.weight[order]
    return ClientTable(X, y, weight, table.member[order], table.names)
