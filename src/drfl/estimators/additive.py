"""Curves from the parameters of an estimator: which columns, which knots, which shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from drfl._registry import listed
from drfl.arrays import Array
from drfl.curves import Curves, standard_knots
from drfl.estimators.client_table import ClientTable
from drfl.rows import Rows
from drfl.rows.parts import is_sparse

FEW_ROWS = 5  # that a client may have in a piece, unless it has none
PIECE_ROWS = 20  # that a piece needs in all


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
        knots: list[list[float]] = [[] for _ in range(n)]
        for j in chosen:
            column = _column(table.X, j)
            if deviation[j] > 0.0 and len(np.unique(column)) > 2:
                wanted = [float(mean[j] + deviation[j] * z) for z in self.knots]
                knots[j] = enough_rows(column, table.member, wanted)
        rules: list[tuple[str, ...]] = [()] * n
        for key, own in self.shapes.items():
            j = self._numbers([key], n, names)[0]
            if j not in set(chosen):
                raise ValueError(f"shapes has a rule for {key!r}, which is not in additive")
            rules[j] = own
        return Curves(tuple(map(tuple, knots)), tuple(rules))

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


def enough_rows(column: Array, member: Any, wanted: Sequence[float]) -> list[float]:
    """Those knots that leave every piece enough rows, in all and at every client.

    A piece with few rows of a client would tell of them, and its slope would be theirs.
    """
    kept = list(wanted)
    while kept:
        piece = np.searchsorted(np.array(kept), column, side="right")
        counts = np.zeros((int(member.max()) + 1, len(kept) + 1), dtype=np.intp)
        np.add.at(counts, (member, piece), 1)
        thin = (counts.sum(axis=0) < PIECE_ROWS) | ((counts > 0) & (counts < FEW_ROWS)).any(axis=0)
        if not thin.any():
            return kept
        # The knot between the thinnest piece and its thinner neighbour goes.
        total = np.where(thin, counts.sum(axis=0), np.iinfo(np.intp).max)
        p, sums = int(np.argmin(total)), counts.sum(axis=0)
        left = p > 0 and (p == len(kept) or sums[p - 1] <= sums[p + 1])
        kept.pop(p - 1 if left else p)
    return kept


def _moments(table: ClientTable) -> tuple[Array, Array]:
    rows = Rows(table.X, np.zeros(table.X.shape[0]), weights=table.weight)
    mean, square = rows.moments()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _column(X: Any, j: int) -> Array:
    column = X[:, [j]].toarray() if is_sparse(X) else X[:, j]
    return np.asarray(column, dtype=np.float64).ravel()
