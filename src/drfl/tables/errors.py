"""What is wrong with a file, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
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
