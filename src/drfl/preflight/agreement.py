"""What the clients have agreed upon: how every file becomes rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drfl.tables import Column, Number, feature_names

Label = str | int | float


@dataclass(frozen=True)
class Target:
    """What is predicted.

    Attributes
    ----------
    name : str
        The column.
    classes : tuple, or None
        The classes in their order; None: a number.
    shift, scale : float
        A number is predicted as ``shift + scale * score``.
    """

    name: str
    classes: tuple[Label, ...] | None = None
    shift: float = 0.0
    scale: float = 1.0

    @property
    def task(self) -> str:
        """The task of the losses that fit."""
        return "regression" if self.classes is None else "classification"


@dataclass(frozen=True)
class Form:
    """How every file becomes rows.

    Attributes
    ----------
    target : Target
        What is predicted.
    columns : tuple of Column
        What the features are made of.
    scale, missing : str
        As wished.
    """

    target: Target
    columns: tuple[Column, ...]
    scale: str
    missing: str

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return feature_names(self.columns)


@dataclass(frozen=True)
class Agreement(Form):
    """The outcome of the preflight.

    Attributes
    ----------
    target, columns, scale, missing
        The form.
    rows, dropped : dict of str to int
        Used and dropped rows, by client.
    class_counts : dict of str to list of int
        Rows of every class, by client; empty for a numeric target.
    guards : dict of str to int
        k of the guard of every client; 0: it has none.
    warnings : tuple of str
        Sentences that a user should read before the training.
    bytes_up, bytes_down : dict of str to int
        What the round has cost.
    """

    rows: dict[str, int]
    dropped: dict[str, int]
    class_counts: dict[str, list[int]]
    guards: dict[str, int]
    warnings: tuple[str, ...]
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]

    def describe(self) -> list[str]:
        """What was found, line by line."""
        lines = [self._first_line(), *self._client_lines(), *self._column_lines()]
        lines += [f"scaling: {SCALINGS[self.scale]}", *self._scale_lines()]
        if self.target.classes is None and self.scale != "none":
            t = self.target
            lines.append(f"target: mean {t.shift:.6g} and deviation {t.scale:.6g} become 0 and 1")
        return lines

    def _first_line(self) -> str:
        dropped = sum(self.dropped.values())
        without = f" ({dropped} with missing values are left out)" if dropped else ""
        kind = "a number" if self.target.classes is None else f"{len(self.target.classes)} classes"
        return (
            f"{len(self.rows)} clients, {sum(self.rows.values())} rows{without}, target "
            f"{self.target.name!r}: {kind}"
        )

    def _client_lines(self) -> list[str]:
        width = max(len("client"), *(len(name) for name in self.rows))
        classes = [str(label) for label in self.target.classes or ()]
        widths = [max(6, len(label)) for label in classes]
        heads = "".join(f"  {c:>{w}}" for c, w in zip(classes, widths, strict=True))
        lines = [f"  {'client':{width}}  {'rows':>8}{heads}"]
        for name, rows in self.rows.items():
            counts = self.class_counts.get(name, [])
            cells = "".join(f"  {n:>{w}}" for n, w in zip(counts, widths, strict=True))
            lines.append(f"  {name:{width}}  {rows:>8}{cells}")
        return lines

    def _column_lines(self) -> list[str]:
        texts = [column for column in self.columns if not isinstance(column, Number)]
        numbers = len(self.columns) - len(texts)
        lines = [f"{len(self.columns)} columns: {numbers} of numbers, {len(texts)} of categories"]
        return lines + [
            f"  {column.name}: {column.reference} (reference), {_few(column.levels)}"
            for column in texts
        ]

    def _scale_lines(self) -> list[str]:
        """Means and deviations, of the first columns if there are many."""
        if self.scale != "federated":
            return []
        numbers = [column for column in self.columns if isinstance(column, Number)]
        lines = [f"  {c.name}: {c.shift:.5g} and {c.scale:.5g}" for c in numbers[:MANY]]
        more = len(numbers) - len(lines)
        return [*lines, f"  and {more} more, all in the model"] if more else lines


SCALINGS = {
    "federated": "federated: numbers get mean 0 and deviation 1 over all clients",
    "per-client": "per-client: numbers get mean 0 and deviation 1 at every client by itself",
    "none": "none: numbers are used as they are",
}
MANY = 15


def _few(levels: Sequence[str]) -> str:
    shown = ", ".join(levels[:MANY])
    return shown if len(levels) <= MANY else f"{shown}, ... ({len(levels)} in all)"
