"""Tables for a reader: cells in columns, as lines of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(
    rows: Sequence[Sequence[str]], least: Sequence[int] = (), *, texts: Collection[int] = (0,)
) -> list[str]:
    """Rows as lines, the heads first: every column is as wide as its widest cell.

    Parameters
    ----------
    rows : sequence of sequence of str
        The cells, as many in every row.
    least : sequence of int
        How wide the columns are at least, the first ones; 0 for the rest.
    texts : collection of int
        The numbers of the columns whose cells begin on the left; those of the others, which are
        numbers, end on the right.

    Examples
    --------
    >>> print(*aligned([["client", "rows"], ["a", "40"], ["north", "7"]], [0, 6]), sep=" |")
    client    rows |a           40 |north        7
    """
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    floor = [*least, *[0] * (len(sizes) - len(least))]
    widths = [max(pair) for pair in zip(sizes, floor, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k in texts else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
