r"""Curves: additive piecewise-linear models, and the rules that their shapes may follow.

A column with knots :math:`t_1<\dots<t_k` is replaced by its *ramps*

.. math:: r_0=\min(x-t_1,0),\qquad r_i=\mathrm{clip}(x,t_i,t_{i+1})-t_i,\qquad r_k=\max(x-t_k,0).

The coefficients of the ramps are the slopes of the column's curve, and the curve is 0 at
:math:`t_1`. Each point of a segment is covered by one ramp, so that the map to all ramps is an
isometry of :math:`(R^n,\ell_1)`: the linear problem on ramps bounds the worst case in x with the
same radius, and its proof is the proof of the additive model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl._registry import listed, lookup
from drfl.arrays import Array
from drfl.defaults import FEW_ROWS
from drfl.norms import Entries

SHAPES = ("increasing", "decreasing", "convex", "concave", "flat ends")
OPPOSITE = (("increasing", "decreasing"), ("convex", "concave"))
BENT = ("convex", "concave")
MOST_KNOTS = 50
PIECE_ROWS = 20  # that a piece needs in all

Shapes = tuple[str, ...]


@dataclass(frozen=True)
class Curves:
    r"""Which columns have curves: their knots, and the rules of their slopes.

    Parameters
    ----------
    knots : sequence of sequences of float
        For every column its knots, increasing, in the units of the scaled rows; none: the column
        stays linear.
    shapes : sequence of sequences of str, optional
        For every column which of "increasing", "decreasing", "convex", "concave" and "flat ends"
        its curve has to be.

    Examples
    --------
    >>> curves = Curves([[0.0, 1.0], []], [["increasing"], []])
    >>> curves.expand(np.array([[0.5, 2.0]])).tolist()
    [[0.0, 0.5, 0.0, 2.0]]
    """

    knots: tuple[tuple[float, ...], ...]
    shapes: tuple[Shapes, ...] = ()

    def __post_init__(self) -> None:
        knots = tuple(_knots(column) for column in self.knots)
        shapes = tuple(tuple(sorted(set(rules))) for rules in self.shapes) or ((),) * len(knots)
        if len(shapes) != len(knots):
            raise ValueError(f"shapes of {len(shapes)} columns, but knots of {len(knots)}")
        for column, rules in zip(knots, shapes, strict=True):
            _check_rules(rules, len(column))
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "shapes", shapes)

    # ---------------------------------------------------------------- columns and slopes
    @property
    def n(self) -> int:
        """How many columns there are."""
        return len(self.knots)

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """How many slopes every column has (n,)."""
        return np.array([len(knots) + 1 for knots in self.knots], dtype=np.intp)

    @cached_property
    def column(self) -> NDArray[np.intp]:
        """The column of every slope (n',)."""
        return np.repeat(np.arange(self.n), self.sizes)

    @property
    def n_slopes(self) -> int:
        """How many slopes there are in all, n'."""
        return int(self.sizes.sum())

    @property
    def shaped(self) -> bool:
        """Whether any column has a rule."""
        return any(self.shapes)

    def free(self) -> Curves:
        """The same without rules."""
        return Curves(self.knots)

    def straight(self) -> Curves | None:
        """The same without knots, with the rules that a line can follow; None: there are none."""
        rules = tuple(map(rules_of_lines, self.shapes))
        return Curves(((),) * self.n, rules) if any(rules) else None

    def of(self, j: int) -> slice:
        """Where the slopes of column j are."""
        start = int(self.sizes[:j].sum())
        return slice(start, start + int(self.sizes[j]))

    # ---------------------------------------------------------------- ramps
    @cached_property
    def pieces(self) -> tuple[Array, Array, Array]:
        """From where to where every ramp rises, and where it is 0 (n',)."""
        low, high, zero = [], [], []
        for knots in self.knots:
            low += [-np.inf, *knots]
            high += [*knots, np.inf]
            zero += [knots[0], *knots] if knots else [0.0]
        return np.array(low), np.array(high), np.array(zero)

    def expand(self, X: NDArray[Any]) -> NDArray[Any]:
        """The ramps (N, n') of dense rows (N, n)."""
        return self.ramps(X[:, self.column], np.arange(self.n_slopes))

    def ramps(self, x: NDArray[Any], which: NDArray[np.intp]) -> NDArray[Any]:
        """Entries of columns as entries of given ramps."""
        low, high, zero = (part[which].astype(x.dtype) for part in self.pieces)
        return np.asarray(np.clip(x, low, high) - zero)

    def hats(self, ramps: Array) -> Array:
        """From ramps (N, n') the functions of columns that are 0 but between three knots (N, m).

        With the ramps of the two ends they are the functions of the smallest supports.
        """
        low, high, _ = self.pieces
        share = ramps / np.where(np.isfinite(high - low), high - low, 1.0)
        inner = np.isfinite(low) & np.isfinite(high)
        first = np.flatnonzero(inner[:-1] & inner[1:] & (self.column[:-1] == self.column[1:]))
        return np.asarray(share[:, first] - share[:, first + 1])

    def value(self, j: int, slopes: Array, x: Array) -> Array:
        """The curve of column j at x, from all slopes (n',)."""
        at = np.arange(self.n_slopes)[self.of(j)]
        ramps = self.ramps(np.repeat(np.asarray(x, dtype=float)[:, None], len(at), axis=1), at)
        return np.asarray(ramps @ slopes[at])

    def counts(self, j: int, x: Array) -> NDArray[np.intp]:
        """How many entries of column j are in each of its pieces; a knot is in the right one."""
        at = np.searchsorted(np.array(self.knots[j]), x, side="right")
        return np.bincount(at, minlength=int(self.sizes[j]))

    def with_knots(self, kept: Sequence[Sequence[int]]) -> Curves:
        """The same with some of its knots, by their positions in every column."""
        knots = [[k[p] for p in keep] for k, keep in zip(self.knots, kept, strict=True)]
        return Curves(tuple(map(tuple, knots)), self.shapes)

    def names(self, columns: Sequence[str]) -> list[str]:
        """What the slopes of columns with these names are called."""
        named = []
        for name, knots in zip(columns, self.knots, strict=True):
            ends = ["", *(f"{knot:.3g}" for knot in knots), ""]
            pieces = [f"{name} ({a}..{b})" for a, b in pairwise(ends)]
            named += pieces if knots else [name]
        return named

    # ---------------------------------------------------------------- rules
    def nearest(self, slopes: Array) -> Array:
        """Slopes that follow the rules to the last bit, near some that do up to rounding."""
        slopes = slopes.copy()
        for j, rules in enumerate(self.shapes):
            if not rules:
                continue
            s, (low, high) = slopes[self.of(j)], self._range(j)
            s = np.clip(s, np.where(low < 0.0, -np.inf, 0.0), np.where(high > 0.0, np.inf, 0.0))
            s = np.maximum.accumulate(s) if "convex" in rules else s
            slopes[self.of(j)] = np.minimum.accumulate(s) if "concave" in rules else s
        return slopes

    def projected(self, slopes: Array) -> Array:
        """The nearest slopes that follow the rules."""
        from scipy.optimize import isotonic_regression  # `import drfl` must not wait for it

        slopes = slopes.copy()
        for j, rules in enumerate(self.shapes):
            if not rules:
                continue
            s, (low, high) = slopes[self.of(j)], self._range(j)
            if set(rules) & set(BENT):
                s = isotonic_regression(s, increasing="convex" in rules).x
            # What is in order stays in order, and is nearest, within bounds that all share.
            ends = np.where(low < 0.0, -np.inf, 0.0), np.where(high > 0.0, np.inf, 0.0)
            slopes[self.of(j)] = np.clip(s, *ends)
        return slopes

    def rows(self) -> Entries:
        r"""The rules as rows :math:`As\le0`."""
        rows: list[dict[int, float]] = []
        for j, rules in enumerate(self.shapes):
            at, (low, high) = np.arange(self.n_slopes)[self.of(j)], self._range(j)
            rows += [{p: 1.0} for p in at[high == 0.0]] + [{p: -1.0} for p in at[low == 0.0]]
            bent = 1.0 if "convex" in rules else -1.0
            steps = at[:-1] if set(rules) & set(BENT) else at[:0]
            rows += [{p: bent, p + 1: -bent} for p in steps]
        entries = [(k, p, value) for k, row in enumerate(rows) for p, value in row.items()]
        table = np.array(entries, dtype=np.float64).reshape(len(entries), 3)
        return Entries(table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2])

    def polars(self, g: Array) -> Array:
        r"""For every column :math:`\max\{-g_j^\top s:|s|\le1,\ s\text{ follows its rules}\}` (n,).

        The extreme points of the slopes in order within a range take its two ends, one after the
        other: there are as many as places to change over.
        """
        found = np.zeros(self.n)
        for j, rules in enumerate(self.shapes):
            own, (low, high) = g[self.of(j)], self._range(j)
            first, last = (high, low) if "concave" in rules else (low, high)
            if set(rules) & set(BENT):
                before = np.concatenate([[0.0], np.cumsum(first * own)])
                after = np.concatenate([[0.0], np.cumsum(last * own)])
                found[j] = float((-(before + after[-1] - after)).max())
            else:
                found[j] = float(np.maximum(-own * low, -own * high).sum())
        return found

    def _range(self, j: int) -> tuple[Array, Array]:
        """The least and the largest slope of every piece, where 1 is the largest of all."""
        rules, size = self.shapes[j], int(self.sizes[j])
        low = np.full(size, 0.0 if "increasing" in rules else -1.0)
        high = np.full(size, 0.0 if "decreasing" in rules else 1.0)
        if "flat ends" in rules:
            low[[0, -1]] = high[[0, -1]] = 0.0
        return low, high

    # ---------------------------------------------------------------- files
    def to_dict(self) -> dict[str, Any]:
        """Write them down as what JSON can hold."""
        return {"knots": [list(k) for k in self.knots], "shapes": [list(s) for s in self.shapes]}

    @classmethod
    def from_dict(cls, data: Any) -> Curves:
        """Read what `to_dict` wrote; every field is checked."""
        if not (isinstance(data, dict) and set(data) == {"knots", "shapes"}):
            raise ValueError("curves must be an object with exactly the fields knots and shapes")
        for name, entry in data.items():
            if not (isinstance(entry, list) and all(isinstance(part, list) for part in entry)):
                raise ValueError(f"the {name} of curves must be a list of lists")
        return cls(tuple(map(tuple, data["knots"])), tuple(map(tuple, data["shapes"])))


def standard_knots(knots: Any) -> tuple[float, ...]:
    """Knots in standard units: given, or so many at even quantiles of the normal distribution.

    Examples
    --------
    >>> [round(z, 2) for z in standard_knots(3)]
    [-0.67, 0.0, 0.67]
    """
    if isinstance(knots, Integral) and not isinstance(knots, bool):
        k = checks.whole("knots", knots, least=0, most=MOST_KNOTS)
        return tuple(NormalDist().inv_cdf(i / (k + 1)) for i in range(1, k + 1))
    if isinstance(knots, str) or not isinstance(knots, Sequence | np.ndarray):
        raise TypeError(f"knots must be a number of knots or a list of them, got {knots!r}")
    return tuple(sorted({checks.number("a knot", z) for z in knots}))


def enough_rows(counts: NDArray[np.intp], values: int | None = None) -> list[int]:
    """Which knots of a column leave every piece enough rows, in all and at every client.

    A piece with few rows of a client would tell of them, and its slope would be theirs: the knot
    between the thinnest piece and its thinner neighbour goes. So it does while there are as many
    slopes as values, which rows do not tell apart: what one adds the next can take back.

    Parameters
    ----------
    counts : (S, k + 1)
        Rows of the clients in the pieces; where they are not told, a bound from below.
    values : int, optional
        How many values the column has, if no piece holds two of them.

    Examples
    --------
    >>> enough_rows(np.array([[40, 3, 40], [40, 20, 40]]))
    [1]
    >>> enough_rows(np.array([[40, 30, 40], [40, 30, 40]]), values=3)
    [1]
    """
    counts, kept = np.array(counts), list(range(counts.shape[1] - 1))
    most = len(kept) if values is None else values - 2
    while kept:
        total = counts.sum(axis=0)
        thin = (total < PIECE_ROWS) | ((counts > 0) & (counts < FEW_ROWS)).any(axis=0)
        thin |= len(kept) > most
        if not thin.any():
            break
        p = int(np.argmin(np.where(thin, total, np.iinfo(np.intp).max)))
        left = p > 0 and (p == len(kept) or total[p - 1] <= total[p + 1])
        gone = p - 1 if left else p
        kept.pop(gone)
        counts[:, gone] += counts[:, gone + 1]
        counts = np.delete(counts, gone + 1, axis=1)
    return kept


def rules_of_lines(rules: Shapes) -> Shapes:
    """Those rules that a line can follow, without being constant."""
    return tuple(rule for rule in rules if rule in OPPOSITE[0])


def _knots(column: Sequence[float]) -> tuple[float, ...]:
    knots = tuple(checks.number("a knot", t) for t in column)
    if any(a >= b for a, b in pairwise(knots)):
        raise ValueError(f"the knots of a column must increase, got {listed(map(str, knots))}")
    if len(knots) > MOST_KNOTS:
        raise ValueError(f"{len(knots)} knots of a column are too many: at most {MOST_KNOTS}")
    return knots


def _check_rules(rules: Shapes, knots: int) -> None:
    for rule in rules:
        lookup("shape", rule, {name: name for name in SHAPES})
    for pair in OPPOSITE:
        if set(pair) <= set(rules):
            raise ValueError(f"a curve cannot be {pair[0]} and {pair[1]}: choose one")
    if "flat ends" in rules and set(BENT) & set(rules):
        raise ValueError("a convex or concave curve with flat ends is constant: choose one rule")
    if "flat ends" in rules and knots < 2:
        raise ValueError(
            "a curve with flat ends needs two knots or more, each with rows enough on either side"
        )
