"""A table as it was read: numbers, and codes of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int32]

MISSING = -1
"""The code of a missing text; a missing number is NaN."""


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, in memory or in a temporary file that is mapped into it.

    Attributes
    ----------
    path : Path
        Where it was read from.
    columns : tuple of str
        All of them, in the order of the file.
    n_rows : int
        How many rows there are.
    numbers : array of shape (N, k), or CSR array
        The columns of numbers.
    number_names : tuple of str
        Their names.
    codes : array of shape (N, m)
        The columns of text: positions in ``levels``.
    levels : dict of str to list of str
        The different values of every column of text, in the order in which they occur.
    not_numbers : dict of str to (int, str)
        Line and value by which a column of text was told from one of numbers.
    label : array of shape (N,), optional
        The labels of a file that keeps them apart (LIBSVM).
    lines : callable
        From positions of rows to their lines in the file; slow, for error messages.
    """

    path: Path
    columns: tuple[str, ...]
    n_rows: int
    numbers: Any
    number_names: tuple[str, ...]
    codes: Codes
    levels: dict[str, list[str]]
    not_numbers: dict[str, tuple[int, str]]
    lines: Callable[[Sequence[int]], list[int]] = field(repr=False)
    label: Array | None = None

    @property
    def sparse(self) -> bool:
        """Whether the numbers are a CSR array."""
        return not isinstance(self.numbers, np.ndarray)

    def is_text(self, name: str) -> bool:
        """Whether a column holds text."""
        return name in self.levels

    def number(self, name: str) -> Array:
        """A column of numbers (N,)."""
        if self.label is not None and name == self.columns[0]:
            return self.label
        column = self.numbers[:, self.number_names.index(name)]
        return np.asarray(column.toarray().ravel() if self.sparse else column)

    def text(self, name: str) -> Codes:
        """The codes of a column of text (N,)."""
        return np.asarray(self.codes[:, list(self.levels).index(name)])

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Where a column has no value (N,)."""
        if self.is_text(name):
            return np.asarray(self.text(name) == MISSING)
        return np.isnan(self.number(name))
