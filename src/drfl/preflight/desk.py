"""The client half: a file that stays where it is, and what may be told of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Client, Policy
from drfl.preflight.agreement import Form
from drfl.preflight.contents import Contents
from drfl.preflight.sizes import require_sizes
from drfl.preflight.targets import target_values
from drfl.preflight.wishes import Wishes, text_array
from drfl.privacy import Guard, Ledger, file_key, release_sums
from drfl.privacy.refusals import require_enough
from drfl.rows import Rows
from drfl.tables import Number, Reading, encoded, read_table
from drfl.wire import Field, Message, validate

REQUEST = {"wishes": Field("uint8", (None,))}


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
        self.ledger: Ledger | None = None

    def answer(self, message: Message) -> Message:
        """Reply to the preflight's one message; what is wrong with the file raises TableError."""
        validate(message, "preflight", None, REQUEST, {})
        return message.reply(self.look(Wishes.from_bytes(message.arrays["wishes"])))

    def look(self, wishes: Wishes) -> Mapping[str, NDArray[Any]]:
        """Read the file and sum it up; ``docs/command-line.md`` says what crosses.

        With a guard the answer is in its ledger before it leaves.
        """
        text, leave = frozenset(wishes.categorical), frozenset(wishes.exclude)
        self.table = read_table(self.path, Reading(text, leave, names=self.columns))
        k = 0 if self.guard is None else self.guard.k
        self.contents = Contents(self.table, wishes, k)
        facts, m = self.contents.facts(), self.contents.moments
        told: dict[str, NDArray[Any]] = {"facts": text_array(facts)}
        told |= {"count": m.count, "sum": m.sum, "squares": m.squares}
        if self.guard is None:
            return told
        require_sizes(self.path, facts, m, self.guard.k)
        self.ledger = self.guard.begin(
            file_key(self.path, self.contents.keep), self.contents.n_rows
        )
        for name, present in self.contents.present().items():
            what = f"{self.path}: column {name!r} without its gaps"
            self.ledger.declare(np.where(present, 1.0, 0.0), what)
        return release_sums(self.ledger, "preflight", wishes.to_bytes().tobytes(), told)

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
        return Client(
            self.name,
            X,
            y,
            shift=shift,
            scale=scale,
            policy=self.policy,
            guard=self.guard,
            ledger=self.ledger,
        )

    def check_guard(self, form: Form, positive: int | None = None) -> None:
        """Refuse rows that are too few for the guard."""
        if self.guard is not None:
            try:
                require_enough(Rows(*self._signed(form, positive)), self.guard.k)
            except ValueError as error:
                raise ValueError(f"client {self.name!r}: {error}") from error

    def rows(self, form: Form) -> tuple[Any, Array]:
        """Features in the units of the file, and positions of classes or scaled targets."""
        if not hasattr(self, "_encoded"):
            keep = self.contents.keep
            # Where another client named a rare value, it is that value, here as in a prediction;
            # a guard lets no sum over so few rows out.
            rare = None if self.guard is None else self.contents.rare()
            X = encoded(self.table, form.columns, keep, rare)
            self._encoded = X, target_values(self.table, form.target, keep)
        return self._encoded

    def _signed(self, form: Form, positive: int | None) -> tuple[Any, Array]:
        X, y = self.rows(form)
        return X, y if positive is None else np.where(y == positive, 1.0, -1.0)

    def scaling(self, form: Form) -> tuple[Array, Array]:
        """Shift and scale of every feature: as agreed upon, or of this client alone."""
        own = {}
        if form.scale == "per-client":
            moments = self.contents.moments
            deviation = np.where(moments.deviation > 0.0, moments.deviation, 1.0)
            pairs = zip(moments.mean.tolist(), deviation.tolist(), strict=True)
            own = dict(zip(self.contents.numbers, pairs, strict=True))
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
