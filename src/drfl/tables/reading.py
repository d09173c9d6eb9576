"""What is known of a file's columns before it is read, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 3
LONG = 40


class TableError(ValueError):
    """A file that cannot be used: the sentence names it and, where it can, line and column."""


def at_line(path: Path, line: int, what: str) -> TableError:
    """An error in one line of a file."""
    return TableError(f"{path}, line {line}: {what}")


def shown(value: str) -> str:
    """A value from a file, short enough for a sentence."""
    return repr(value if len(value) <= LONG else value[: LONG - 3] + "...")


def listed_lines(lines: Sequence[int], total: int) -> str:
    """Lines for a sentence: the first few, and how many there are.

    Examples
    --------
    >>> listed_lines([4, 7, 9], 12)
    'lines 4, 7, 9, ... (12 in all)'
    """
    first = ", ".join(str(line) for line in lines[:SHOWN])
    if total <= SHOWN:
        return f"line {first}" if total == 1 else f"lines {first}"
    return f"lines {first}, ... ({total} in all)"


MISSING_TEXTS = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "?"})
"""What stands for a missing value in a file of text."""

LARGEST = 1e100  # squares of larger numbers, and sums of them, would not be numbers any more
LABEL = "label"  # the name of the labels of a LIBSVM file, which has no names
LEVELS = 50  # a column of text with more different values is refused where it is used


@dataclass(frozen=True)
class Reading:
    """How a file is to be read."""

    # columns that are text even if their values look like numbers
    text: frozenset[str] = frozenset()
    leave: frozenset[str] = frozenset()  # columns that are not read
    only: frozenset[str] | None = None  # columns that are read, those that exist; None: all
    # what columns are called in the file, where that differs
    names: Mapping[str, str] = field(default_factory=dict)
    decimal: str = "."  # ".", ",": what separates the decimals of a number
    # A column of the file and the value of it that the wanted rows have; the column is left out
    where: tuple[str, str] | None = None

    def wanted(self, name: str) -> bool:
        """Whether a column is read."""
        return name not in self.leave and (self.only is None or name in self.only)

    def in_file(self) -> Reading:
        """The same in the names of the file."""
        text, leave = (frozenset(map(self._own, names)) for names in (self.text, self.leave))
        only = None if self.only is None else frozenset(map(self._own, self.only))
        leave |= frozenset() if self.where is None else {self.where[0]}
        return Reading(text, leave, only, decimal=self.decimal)

    def _own(self, name: str) -> str:
        return self.names.get(name, name)
