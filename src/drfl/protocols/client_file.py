"""A file that stays where it is: what of it is used, what is told of it, and its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.client import RefusedError
from drfl.defaults import FEW_ROWS
from drfl.inspection.column import NOTHING
from drfl.inspection.suspicion import hints
from drfl.privacy import merge_categories
from drfl.privacy.columns import deviations, require_many, ruled
from drfl.privacy.refusals import require_columns, require_counts, require_two
from drfl.protocols.data_request import NAMING, DataRequest
from drfl.tables import OTHER, Category, Number, Reading, TableError, encoded, read_table
from drfl.tables.encoding import (
    FILLED,
    Encoding,
    Target,
    Withheld,
    few_values,
    holds_other,
    refuse_missing,
    target_values,
)
from drfl.tables.moments import Moments, moments_of
from drfl.tables.reading import LEVELS, shown
from drfl.tables.table import folded

FARTHEST, WIDEST = 10.0, 1e3
"""With a guard, how far the agreed units may be from a client's own, and how much larger."""


class ClientFile:
    """A file as a request uses it; TableError says what is wrong with it.

    ``k`` is that of the client's guard, 0 if it has none; ``reading`` says what columns are called
    in the file and which rows of it are the client's; columns that are not ``allowed`` beside the
    target are not read. Of the columns but the target, ``names``, those of ``numbers`` have
    ``moments``; ``keep`` (N,) says which rows are used. None always means all.
    """

    def __init__(
        self,
        path: Path,
        request: DataRequest,
        k: int,
        reading: Reading = Reading(),  # noqa: B008  (frozen)
        allowed: frozenset[str] | None = None,
    ) -> None:
        text, leave = frozenset(request.categorical), frozenset(request.exclude)
        only = None if allowed is None else allowed | {request.target}
        own = Reading(text, leave, only, reading.names, request.decimal, reading.where)
        table = read_table(path, own)
        table = table.merged_labels() if request.merge_labels else table
        table = table.with_gap_level([n for n in table.levels if request.gaps_of(n) in FILLED])
        self.table, self.request, self.k = table, request, k
        if request.target not in table.columns:
            raise TableError(
                f"{table.path} has no column {request.target!r}, the target: it has "
                f"{listed(table.columns)}"
            )
        self.names = [name for name in table.columns if name != request.target]
        if not self.names:
            raise TableError(f"{table.path} has no column but the target: there is nothing to use")
        if request.support and k:
            # Which bounds are refused would tell the least and the largest entry.
            raise TableError(f"{table.path}: a guard does not know a support: leave it out")
        self.keep = self._kept()
        self._check_support()
        self.numbers = [name for name in self.names if not table.is_text(name)]
        moments = self._moments(self.numbers)
        self.withheld = self._withheld(moments)
        self.moments = _without(moments, self.numbers, self.withheld, self.n_rows)
        self._rows: tuple[Any, Any, Array] | None = None

    def facts(self) -> dict[str, Any]:
        """What is told beside the moments."""
        table = self.table
        dropped, step = table.n_rows - self.n_rows, max(self.k, 1)
        return {
            "rows": self.n_rows,
            "dropped": -(-dropped // step) * step,  # under a guard the next multiple of k
            "guard": self.k,
            "sparse": table.sparse,
            "columns": self.names,
            "numbers": self.numbers,
            "texts": {name: self._levels(name) for name in self.names if table.is_text(name)},
            "target": self._target_facts(),
            "unknown": self._unknown(),
            "hints": NOTHING
            if self.k
            else hints(table, self.names, self.request.target, self.keep),
        }

    def _unknown(self) -> list[str]:
        """Names in the request that the file does not have."""
        named = dict.fromkeys(name for option in NAMING for name in getattr(self.request, option))
        known = {*self.table.header, *self.table.columns}
        return [] if self.table.sparse else [name for name in named if name not in known]

    def _withheld(self, moments: Moments) -> Withheld:
        r"""What a guard does not let be told of: rare texts, few gaps, few values.

        The sum of the m values that are there is :math:`\sum_i\tilde x_i-(N-m)f`, :math:`\tilde x`
        being the column filled with the agreed f, of which every answer tells. So it tells nothing
        more but the number of gaps, and answers for two f tell it by class. Where there are 1 to
        k - 1 gaps, or in a class 1 to k - 1, they hold the client's own mean, count as values and
        are not marked. Where fewer than k values are there, or in a class 1 to k - 1, or fewer than
        k rule them, they count as gaps.
        """
        if not self.k:
            return Withheld()
        rare = {name: self._rare(name) for name in self.names if self.table.is_text(name)}
        own_fill, blank = {}, []
        for name, mean in zip(self.numbers, moments.mean.tolist(), strict=True):
            if self.table.sparse or self.request.gaps_of(name) not in FILLED:
                continue
            gaps = self._by_class(self.table.missing(name))
            values = self._by_class(~self.table.missing(name))
            column = self.table.number(name)[self._used][:, None]
            few = sum(values) < self.k or _few(values, self.k)
            if few or (sum(gaps) > 0 and ruled(deviations(column), self.k)[0]):
                blank.append(name)
            elif _few([sum(gaps), *gaps], self.k):
                own_fill[name] = mean
        return Withheld(rare, own_fill, blank)

    def require_many(self) -> None:
        """With a guard, refuse numbers that few rows rule: their sums are told to begin with."""
        table, target = self.table, self.request.target
        y, used = np.asarray(table.values(target)[self._used], dtype=np.float64), self._used
        classes = np.unique(y)
        if len(classes) <= 2 and self.request.task != "regression":
            y = np.where(y == classes[0], -1.0, 1.0)
        names = [name for name in self.numbers if name not in self.withheld.blank]
        X = np.array([table.number(name)[used] for name in names]).reshape(len(names), len(y)).T
        try:
            require_many(X, y, self.k, names)
        except ValueError as error:
            raise TableError(f"{table.path}: {error}") from None

    def rows(self, encoding: Encoding) -> tuple[Any, Array]:
        """Features in the units of the file, and positions of classes or scaled targets."""
        if self._rows is None or self._rows[0] != (encoding.target, encoding.columns):
            # Where another client named a rare value, it is that value, here as in a prediction;
            # a guard lets no sum over so few rows out.
            X = encoded(self.table, encoding.columns, self.keep, self.withheld)
            y = target_values(self.table, encoding.target, self.keep)
            self._rows = (encoding.target, encoding.columns), X, y
        return self._rows[1:]

    def others(self, encoding: Encoding) -> set[str]:
        """The columns in whose level `OTHER` a row is."""
        rare = self.withheld.rare
        return {
            column.name
            for column in encoding.columns
            if isinstance(column, Category)
            and column.other
            and holds_other(self.table, column, self.keep, rare.get(column.name, ()))
        }

    def scaling(self, encoding: Encoding) -> tuple[Array, Array]:
        """Shift and scale of every feature: as agreed upon, or of this client alone."""
        return encoding.scaling(self.rows(encoding)[0])

    def require_agreed(self, encoding: Encoding) -> None:
        r"""Refuse an encoding that cannot have come of what this client told in the preflight.

        The target, the columns and their kinds, the treatment of numbers and gaps must be those of
        the request; categories must name what was named here and merge what was not. With a guard
        the units must be near the client's own: from an agreement of all clients with weights
        :math:`n_s/N` follow :math:`\sigma\ge\sqrt{n_s/N}\,\sigma_s` and
        :math:`|\mu-\mu_s|\le\sqrt{N/n_s}\,\sigma`, here with :math:`N/n_s` at most 100. And
        :math:`\sigma` is at most a thousand times :math:`\sigma_s`: beside larger units what is
        here would be rounding.
        """
        request = self.request
        asked = (request.target, request.scale, request.stated_missing)
        if (encoding.target.name, encoding.scale, encoding.missing) != asked:
            raise RefusedError("a binding speaks of other data than the preflight")
        self._require_target(encoding.target)
        columns = {column.name: column for column in encoding.columns}
        # Which columns a rule leaves out for their gaps is decided by those of other clients too.
        told = [] if self.table.sparse or request.max_missing < 1.0 else self._told()
        if not set(told) <= set(columns) or not (
            self.table.sparse or set(columns) <= set(self.names)
        ):
            raise RefusedError("a binding has other columns than the preflight")
        for name in set(columns) & set(self.names):
            column = columns[name]
            if isinstance(column, Number) == self.table.is_text(name):
                raise RefusedError("a binding takes numbers for text, or text for numbers")
            if isinstance(column, Number):
                at = self.numbers.index(name)
                mean, deviation = self.moments.mean[at], self.moments.deviation[at]
                self._require_units(column, float(mean), float(deviation))
            else:
                self._require_levels(column)

    def _told(self) -> list[str]:
        """Columns that are not the same in all rows here, and so cannot have been left out."""
        varied = dict(zip(self.numbers, (self.moments.deviation > 0.0).tolist(), strict=True))
        return [
            name
            for name in self.names
            if varied.get(name, False) or (self.table.is_text(name) and self._varies(name))
        ]

    def _varies(self, name: str) -> bool:
        told = self._levels(name)
        return bool(len(told["values"]) + told["other"] > 1)

    def _require_target(self, target: Target) -> None:
        facts = self._target_facts()
        if target.classes is None:
            if facts["kind"] != "number":
                raise RefusedError("a binding takes labels for numbers")
            count, total, squares = facts["moments"]
            number = Number(target.name, target.shift, target.scale)
            mean, deviation = total / max(count, 1.0), float(np.sqrt(squares / max(count, 1.0)))
            self._require_units(number, mean, deviation)
        elif facts["values"] is None or not {v for v, _ in facts["values"]} <= set(target.classes):
            raise RefusedError("a binding has other classes than the preflight")

    def _require_units(self, column: Number, mean: float, deviation: float) -> None:
        if self.request.scale != "federated":
            if (column.shift, column.scale) != (0.0, 1.0):
                raise RefusedError("a binding scales what is not to be scaled")
        elif self.k and not (
            deviation / FARTHEST <= column.scale <= (WIDEST * deviation or math.inf)
            and abs(column.shift - mean) <= FARTHEST * max(column.scale, deviation)
        ):
            raise RefusedError(f"the units of column {column.name!r} are far from those here")
        elif (
            self.k
            and column.fill is not None
            and not (abs(column.fill - mean) <= FARTHEST * max(column.scale, deviation))
        ):
            raise RefusedError(f"column {column.name!r} would be filled with what is far away")
        how = self.request.gaps_of(column.name)
        if (column.fill is not None) != (how in FILLED):
            raise RefusedError("a binding fills gaps in another way than was asked")
        if column.indicator and how != "indicator":
            raise RefusedError("a binding marks gaps that were not to be marked")

    def _require_levels(self, column: Category) -> None:
        rare, counts = self._rare(column.name), self._counts(column.name)
        known = {column.reference, *column.levels}
        if not set(counts) - rare - {OTHER} <= known:
            raise RefusedError("a binding leaves out categories that were named")
        alike = {folded(level) for level in known}
        # Without a guard what is rare here may be named by others, and then needs no merging.
        strange = rare if self.k else {v for v in counts if folded(v) not in alike}
        if strange and not column.other:
            raise RefusedError("a binding does not merge categories that are rare here")

    @property
    def used(self) -> NDArray[np.bool_] | None:
        """Which rows of the file are used; None: all."""
        if self.table.origin is None:
            return self.keep
        used = np.array(self.table.origin)
        used[used] = True if self.keep is None else self.keep
        return used

    @property
    def _used(self) -> NDArray[np.bool_] | slice:
        return slice(None) if self.keep is None else self.keep

    @property
    def n_rows(self) -> int:
        """How many rows are used."""
        return self.table.n_rows if self.keep is None else int(self.keep.sum())

    def _kept(self) -> NDArray[np.bool_] | None:
        """Which rows are used (N,); None: all."""
        table, target = self.table, self.request.target
        keep = np.ones(table.n_rows, dtype=bool)
        for name in [target] if table.sparse else table.columns:
            how = self.request.gaps_of(name)
            if how == "drop":
                keep &= ~table.missing(name)
            elif how == "error":
                advice = "fill it, or set --missing drop, mean or indicator"
                if name == target:
                    advice = f"a row needs a target; set --missing-columns {target}=drop"
                refuse_missing(table, name, advice)
        if not keep.any():
            raise TableError(f"{table.path}: every row lacks a value: no row is left to use")
        return None if keep.all() else keep

    def _check_support(self) -> None:
        for name, (low, high) in self.request.support.items():
            if name not in self.table.columns or self.table.is_text(name):
                raise TableError(
                    f"{self.table.path} has no column {name!r} of numbers, which the support bounds"
                )
            values = self.table.number(name)
            outside = (values < low) | (values > high)
            if outside.any():
                row = int(np.argmax(outside))
                raise TableError(
                    f"{self.table.path}, line {self.table.lines([row])[0]}: column {name!r} holds "
                    f"{values[row]:g}, outside its support [{low:g}, {high:g}]: widen the support, "
                    "or correct it"
                )

    def _moments(self, names: list[str]) -> Moments:
        table = self.table
        if table.sparse:
            return moments_of(table.numbers, self.keep)
        places = [table.number_names.index(name) for name in names]
        whole = moments_of(table.numbers, self.keep)
        return Moments(whole.count[places], whole.sum[places], whole.squares[places])

    def _counts(self, name: str) -> dict[str, int]:
        """How many used rows hold each value of a column of text."""
        levels = self.table.levels[name]
        if len(levels) > LEVELS:
            line, value = self.table.not_numbers.get(name, (0, ""))
            hint = f" (line {line} holds {shown(value)}, no number)" if line else ""
            asked = name in self.request.categorical
            what = "is to be categories, and has" if asked else f"is text{hint} with"
            advice = "take it as numbers" if asked else "correct it"
            raise TableError(
                f"{self.table.path}: column {name!r} {what} more than {LEVELS} different values: "
                f"leave it out with --exclude {name}, or {advice}"
            )
        codes = self.table.text(name)[self._used]
        counts = np.bincount(codes[codes >= 0], minlength=len(levels))
        return {level: int(n) for level, n in zip(levels, counts, strict=True) if n}

    def _rare(self, name: str) -> set[str]:
        counts = self._counts(name)
        if self.k == 0:
            return {value for value, count in counts.items() if count < FEW_ROWS}
        merged = merge_categories(self._cells(name, list(counts)), max(self.k, FEW_ROWS), OTHER)
        return {value for value, goes in merged.items() if goes == OTHER}

    def _cells(self, name: str, values: list[str]) -> dict[str, list[int]]:
        """How many used rows hold each value, by class if there are two."""
        codes, levels = self.table.text(name), list(self.table.levels[name])
        return {value: self._by_class(codes == levels.index(value)) for value in values}

    def _by_class(self, these: NDArray[np.bool_]) -> list[int]:
        """How many of these rows are used, by class if there are two."""
        table, target = self.table, self.request.target
        y = table.values(target)
        used = np.ones(table.n_rows, dtype=bool) if self.keep is None else self.keep
        classes = np.unique(y[used])
        if len(classes) != 2:
            return [int((used & these).sum())]
        return [int((used & these & (y == each)).sum()) for each in classes]

    def _levels(self, name: str) -> dict[str, Any]:
        counts, rare = self._counts(name), self._rare(name)
        named = {value: n for value, n in counts.items() if value not in rare}
        # A value that is called so is one of the others too.
        hidden = bool(rare) or OTHER in named
        named.pop(OTHER, None)
        return {"values": named, "other": hidden}

    def _target_facts(self) -> dict[str, Any]:
        name, task = self.request.target, self.request.task
        if self.table.is_text(name):
            if task == "regression":
                line, value = self.table.not_numbers.get(name, (1, ""))
                raise TableError(
                    f"{self.table.path}, line {line}: the target {name!r} holds {shown(value)}, "
                    "but --task regression needs numbers"
                )
            return {"kind": "text", "values": sorted(self._counts(name).items())}
        y = self.table.number(name)[self._used]
        # Numbers of many kinds are nobody's business; two are labels.
        most = {"auto": 2, "classification": LEVELS, "regression": 0}[task]
        values = few_values(y, most)
        if values is None and task == "classification":
            raise TableError(
                f"{self.table.path}: the target {name!r} has more than {LEVELS} different values: "
                "are they classes? set --task regression"
            )
        m = moments_of(np.asarray(y)[:, None], None)
        sums = [float(m.count[0]), float(m.sum[0]), float(m.squares[0])]
        return {"kind": "number", "values": values, "moments": sums}


def _few(cells: Sequence[int], k: int) -> bool:
    """Whether one of these counts would tell of 1 to k - 1 rows."""
    return any(0 < count < k for count in cells)


def _without(moments: Moments, names: list[str], withheld: Withheld, n_rows: int) -> Moments:
    """The moments, few gaps being values at the mean and few values gaps."""
    own = np.array([name in withheld.own_fill for name in names], dtype=bool)
    there = np.array([name not in withheld.blank for name in names], dtype=float)
    count, mean = np.where(own, float(n_rows), moments.count), moments.mean
    return Moments(
        there * count, there * np.where(own, count * mean, moments.sum), there * moments.squares
    )


def require_sizes(path: Path, facts: Mapping[str, Any], moments: Moments, k: int) -> None:
    """Refuse a file with too few rows, of a class or for its columns, or with many classes.

    ``facts`` and moments are what the client is about to answer. What is the same in all rows may
    not become a parameter, so it does not count yet.
    """
    classes = [count for _, count in facts["target"]["values"] or ()]
    levels = [len(text["values"]) + text["other"] for text in facts["texts"].values()]
    n_features = int((moments.deviation > 0.0).sum()) + sum(max(n - 1, 0) for n in levels)
    try:
        require_counts(facts["rows"], classes, k)
        require_two(len(classes))
        require_columns(facts["rows"], n_features, k)
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
