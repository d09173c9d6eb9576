"""Curves from the parameters of an estimator: which columns, which knots, which shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from drfl._registry import listed
from drfl.arrays import Array
from drfl.curves import Curves, enough_rows, standard_knots
from drfl.estimators.client_table import ClientTable
from drfl.rows import Rows
from drfl.rows.parts import is_sparse


@dataclass(frozen=True)
class Additive:
    """Which columns have curves, as the user says it.

    Attributes
    ----------
    columns : "all" or tuple
        Names or numbers of columns.
    knots : tuple of float
        In standard units: standard deviations from the mean.
    shapes : dict
        Rules by column.
    """

    columns: Any
    knots: tuple[float, ...]
    shapes: dict[Any, tuple[str, ...]]

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Additive | None:
        """Check the parameters of an estimator; None: the model is linear."""
        columns, shapes = params.get("additive"), params.get("shapes") or {}
        if not isinstance(shapes, Mapping):
            raise TypeError("shapes must be a mapping from columns to rules such as 'increasing'")
        if columns is None:
            if shapes:
                raise ValueError("shapes are rules for curves: name the columns in additive too")
            return None
        if isinstance(columns, str) and columns != "all":
            raise ValueError(f"additive must be None, 'all' or a list of columns, got {columns!r}")
        if not isinstance(columns, str | Sequence | np.ndarray):
            raise TypeError(f"additive must be None, 'all' or a list of columns, got {columns!r}")
        chosen = columns if isinstance(columns, str) else tuple(columns)
        rules = {key: (r,) if isinstance(r, str) else tuple(r) for key, r in shapes.items()}
        return cls(chosen, standard_knots(params.get("knots", 4)), rules)

    def curves(self, table: ClientTable, names: Sequence[str] | None) -> Curves:
        """The curves of a table: knots in the units of its columns."""
        n = table.X.shape[1]
        chosen = (
            range(n) if isinstance(self.columns, str) else self._numbers(self.columns, n, names)
        )
        mean, deviation = _moments(table)
        knots: list[tuple[float, ...]] = [()] * n
        for j in chosen:
            column = _column(table.X, j)
            if deviation[j] > 0.0 and len(np.unique(column)) > 2:
                knots[j] = tuple(float(mean[j] + deviation[j] * z) for z in self.knots)
        rules: list[tuple[str, ...]] = [()] * n
        for key, own in self.shapes.items():
            j = self._numbers([key], n, names)[0]
            if j not in set(chosen):
                raise ValueError(f"shapes has a rule for {key!r}, which is not in additive")
            rules[j] = own
        wanted = Curves(tuple(knots), tuple(rules))
        return wanted.with_knots([_kept(wanted, j, table) for j in range(n)])

    @staticmethod
    def _numbers(keys: Sequence[Any], n: int, names: Sequence[str] | None) -> list[int]:
        known = {} if names is None else {name: j for j, name in enumerate(names)}
        found = []
        for key in keys:
            if isinstance(key, Integral) and 0 <= int(key) < n:
                found.append(int(key))
            elif key in known:
                found.append(known[key])
            else:
                have = listed(known) if known else f"0 to {n - 1}"
                raise ValueError(f"there is no column {key!r} for a curve: known are {have}")
        return found


def _kept(wanted: Curves, j: int, table: ClientTable) -> list[int]:
    """Which knots of a column leave its pieces rows enough."""
    if not wanted.knots[j]:
        return []
    column, clients = _column(table.X, j), range(len(table.names))
    return enough_rows(np.array([wanted.counts(j, column[table.member == s]) for s in clients]))


def _moments(table: ClientTable) -> tuple[Array, Array]:
    rows = Rows(table.X, np.zeros(table.X.shape[0]), weights=table.weight)
    mean, square = rows.moments()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _column(X: Any, j: int) -> Array:
    column = X[:, [j]].toarray() if is_sparse(X) else X[:, j]
    return np.asarray(column, dtype=np.float64).ravel()
