"""The client half: a file that stays where it is, and what may be told of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.client import Client, Policy
from drfl.preflight.agreement import Array, Form
from drfl.preflight.moments import Moments, moments_of
from drfl.preflight.sizes import require_sizes
from drfl.preflight.targets import few_values, target_values
from drfl.preflight.wishes import Wishes, text_array
from drfl.privacy import Guard, merge_categories, release_moments
from drfl.privacy.preflight import require_enough
from drfl.rows import Rows
from drfl.tables import OTHER, Number, Reading, TableError, encoded, read_table
from drfl.tables.encode import refuse_missing
from drfl.tables.errors import shown
from drfl.tables.reading import LEVELS
from drfl.wire import Field, Message, validate

REQUEST = {"wishes": Field("uint8", (None,))}
RARE = 5
"""A value that fewer rows of a client hold is not named to anybody."""


class Desk:
    """A client before it has rows: it reads its file and answers the preflight.

    Parameters
    ----------
    name : str
        Of the client.
    path : path
        Of its file.
    guard : Guard, optional
        Disclosure control of the client.
    policy : Policy
        What else it allows.
    columns : mapping of str to str
        What columns are called in its file, where that differs from what others call them.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        guard: Guard | None = None,
        *,
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.path, self.guard = name, Path(path), guard
        self.policy, self.columns = policy, dict(columns or {})

    def answer(self, message: Message) -> Message:
        """Reply to the preflight's one message; what is wrong with the file raises TableError."""
        validate(message, "preflight", None, REQUEST, {})
        return message.reply(self.look(Wishes.from_bytes(message.arrays["wishes"])))

    def look(self, wishes: Wishes) -> Mapping[str, NDArray[Any]]:
        """Read the file and sum it up; ``docs/command-line.md`` says what crosses."""
        self.wishes = wishes
        text, leave = frozenset(wishes.categorical), frozenset(wishes.exclude)
        self.table = table = read_table(self.path, Reading(text, leave, names=self.columns))
        if wishes.target not in table.columns:
            raise TableError(
                f"{self.path} has no column {wishes.target!r}, the target: it has "
                f"{listed(table.columns)}"
            )
        self.names = [name for name in table.columns if name != wishes.target]
        if not self.names:
            raise TableError(f"{self.path} has no column but the target: there is nothing to use")
        self.keep = self._kept()
        self._check_support()
        self.numbers = [name for name in self.names if not table.is_text(name)]
        self.moments = self._moments(self.numbers)
        facts = {
            "rows": self._rows,
            "dropped": table.n_rows - self._rows,
            "guard": 0 if self.guard is None else self.guard.k,
            "sparse": table.sparse,
            "columns": self.names,
            "numbers": self.numbers,
            "texts": {name: self._levels(name) for name in self.names if table.is_text(name)},
            "target": self._target_facts(),
        }
        if self.guard is not None:
            require_sizes(self.path, facts, self.guard.k)
        m = self.moments
        return {"facts": text_array(facts), "count": m.count, "sum": m.sum, "squares": m.squares}

    def client(self, form: Form, positive: int | None = None) -> Client:
        """The client with its rows as agreed upon.

        Parameters
        ----------
        form : Form
            What all have agreed upon.
        positive : int, optional
            The class that is +1, all others being -1; None for a numeric target.
        """
        X, y = self._signed(form, positive)
        shift, scale = self.scaling(form)
        if self.guard is not None and not hasattr(self, "_told"):
            # The sums of the preflight: they could not wait for rows that follow from them.
            self._told = release_moments(self.guard.open(Rows(X, y)))
        return Client(
            self.name, X, y, shift=shift, scale=scale, policy=self.policy, guard=self.guard
        )

    def check_guard(self, form: Form, positive: int | None = None) -> None:
        """Refuse rows that are too few for the guard, before a ledger is begun."""
        if self.guard is not None:
            try:
                require_enough(Rows(*self._signed(form, positive)), self.guard.k)
            except ValueError as error:
                raise ValueError(f"client {self.name!r}: {error}") from error

    def rows(self, form: Form) -> tuple[Any, Array]:
        """Features in the units of the file, and positions of classes or scaled targets."""
        if not hasattr(self, "_encoded"):
            rare = {name: self._rare(name) for name in self.names if self.table.is_text(name)}
            X = encoded(self.table, form.columns, self.keep, rare)
            self._encoded = X, target_values(self.table, form.target, self.keep)
        return self._encoded

    def _signed(self, form: Form, positive: int | None) -> tuple[Any, Array]:
        X, y = self.rows(form)
        return X, y if positive is None else np.where(y == positive, 1.0, -1.0)

    def scaling(self, form: Form) -> tuple[Array, Array]:
        """Shift and scale of every feature: as agreed upon, or of this client alone."""
        own = {}
        if form.scale == "per-client":
            deviation = np.where(self.moments.deviation > 0.0, self.moments.deviation, 1.0)
            pairs = zip(self.moments.mean.tolist(), deviation.tolist(), strict=True)
            own = dict(zip(self.numbers, pairs, strict=True))
        shift, scale = [], []
        for column in form.columns:
            if isinstance(column, Number):
                one, other = own.get(column.name, (column.shift, column.scale))
                shift.append(one)
                scale.append(other)
            else:
                shift += [0.0] * len(column.levels)
                scale += [1.0] * len(column.levels)
        return np.array(shift), np.array(scale)

    @property
    def _rows(self) -> int:
        return self.table.n_rows if self.keep is None else int(self.keep.sum())

    def _kept(self) -> NDArray[np.bool_] | None:
        """Which rows are used (N,); None: all."""
        table, wishes = self.table, self.wishes
        if wishes.missing == "drop":
            if table.sparse:
                return None
            keep = np.ones(table.n_rows, dtype=bool)
            for name in table.columns:
                keep &= ~table.missing(name)
            if not keep.any():
                raise TableError(f"{self.path}: every row lacks a value: no row is left to use")
            return None if keep.all() else keep
        refuse_missing(table, wishes.target, "a row needs a target; correct it, or drop such rows")
        for name in self.names if not table.sparse else []:
            if wishes.missing == "error":
                advice = "fill it, or set missing = 'drop' or 'mean'"
                refuse_missing(table, name, advice)
            elif table.is_text(name):
                refuse_missing(table, name, "text has no mean; fill it, or set missing = 'drop'")
        return None

    def _check_support(self) -> None:
        for name, (low, high) in self.wishes.support.items():
            if name not in self.table.columns or self.table.is_text(name):
                raise TableError(
                    f"{self.path} has no column {name!r} of numbers, which the support bounds"
                )
            values = self.table.number(name)
            outside = (values < low) | (values > high)
            if outside.any():
                row = int(np.argmax(outside))
                raise TableError(
                    f"{self.path}, line {self.table.lines([row])[0]}: column {name!r} holds "
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
            raise TableError(
                f"{self.path}: column {name!r} is text{hint} with more than {LEVELS} different "
                f"values: leave it out with exclude = [{name!r}], or correct it"
            )
        codes = self.table.text(name)
        codes = codes if self.keep is None else codes[self.keep]
        counts = np.bincount(codes[codes >= 0], minlength=len(levels))
        return {level: int(n) for level, n in zip(levels, counts, strict=True) if n}

    def _rare(self, name: str) -> set[str]:
        counts = self._counts(name)
        if self.guard is None:
            return {value for value, count in counts.items() if count < RARE}
        merged = merge_categories(counts, max(self.guard.k, RARE), OTHER)
        return {value for value, goes in merged.items() if goes == OTHER}

    def _levels(self, name: str) -> dict[str, Any]:
        counts, rare = self._counts(name), self._rare(name)
        named = {value: n for value, n in counts.items() if value not in rare}
        # A value that is called so is one of the others too.
        hidden = bool(rare) or OTHER in named
        named.pop(OTHER, None)
        return {"values": named, "other": hidden}

    def _target_facts(self) -> dict[str, Any]:
        name, task = self.wishes.target, self.wishes.task
        if self.table.is_text(name):
            if task == "regression":
                line, value = self.table.not_numbers.get(name, (1, ""))
                raise TableError(
                    f"{self.path}, line {line}: the target {name!r} holds {shown(value)}, but "
                    "task = 'regression' needs numbers"
                )
            return {"kind": "text", "values": sorted(self._counts(name).items())}
        y = self.table.number(name)
        y = y if self.keep is None else y[self.keep]
        # Numbers of many kinds are nobody's business; two are labels.
        most = {"auto": 2, "classification": LEVELS, "regression": 0}[task]
        values = few_values(y, most)
        if values is None and task == "classification":
            raise TableError(
                f"{self.path}: the target {name!r} has more than {LEVELS} different values: "
                "are they classes? set task = 'regression'"
            )
        m = moments_of(np.asarray(y)[:, None], None)
        sums = [float(m.count[0]), float(m.sum[0]), float(m.squares[0])]
        return {"kind": "number", "values": values, "moments": sums}
