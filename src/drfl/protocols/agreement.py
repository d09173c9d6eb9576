"""The round before the first: all clients agree on an encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drfl._registry import listed, nearest
from drfl.aligned import aligned
from drfl.inspection.table_one import TableOne
from drfl.protocols.data_request import NAMING, DataReply, DataRequest
from drfl.protocols.others import empty_others, question
from drfl.protocols.table_one import cells_of, column_sizes, table_one
from drfl.tables import OTHER, Category, Column, Number
from drfl.tables.encoding import FILLED, Encoding, Label, Target
from drfl.tables.moments import Moments, added
from drfl.tables.reading import LEVELS
from drfl.tables.table import folded
from drfl.wire import Message


@dataclass(frozen=True)
class Agreement(Encoding):
    """The outcome of the preflight: an encoding, and what the clients told, by client.

    ``class_counts`` is empty for a numeric target, or if nobody tells; ``guards`` is k of the
    guard, 0 for none; ``column_sizes`` bounds the root mean square of every feature; ``bytes_up``
    and ``bytes_down`` are what the round has cost.
    """

    rows: dict[str, int]
    dropped: dict[str, int]
    class_counts: dict[str, list[int]]
    guards: dict[str, int]
    warnings: tuple[str, ...]
    table: TableOne
    column_sizes: dict[str, tuple[float, ...]]
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]

    def describe(self) -> list[str]:
        """What was found, line by line."""
        lines = [self._first_line(), *self._client_lines(), *self._column_lines()]
        lines += ["", *self.table.lines(), ""]
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
        classes = [str(label) for label in self.target.classes or () if self.class_counts]
        rows = [["client", "rows", *classes]]
        for name, count in self.rows.items():
            rows.append([name, str(count), *map(str, self.class_counts.get(name, []))])
        return [f"  {line}" for line in aligned(rows, [0, 8, *(6 for _ in classes)])]

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


Channel = Callable[[Mapping[str, Message]], Mapping[str, Message]]
"""Carries a message to each client and brings the answers."""


def preflight(request: DataRequest, names: Sequence[str], channel: Channel) -> Agreement:
    """One round: ask every client about its columns, by way of a channel, and agree.

    A second one asks who has rows of a level `other` that some agreed upon; see `others`.
    """
    message = Message("preflight", 0, {"request": request.to_bytes()})
    replies = channel(dict.fromkeys(names, message))
    answers = {name: DataReply.read(replies[name]) for name in names}
    _refuse_typos(request, answers)
    _refuse_variants(request, answers)
    columns, warnings = _columns(request, answers)
    table = table_one(request, answers, {column.name for column in columns})
    target = _target(request, answers)
    encoding = Encoding(target, columns, request.scale, request.stated_missing)
    asked = question(encoding, answers)
    told = channel(asked) if asked else {}
    empty = empty_others(encoding, answers, told)
    columns = tuple(_without_other(c, answers) if c.name in empty else c for c in columns)
    _refuse_namesakes(columns)
    counts = {name: _class_counts(target, answer) for name, answer in answers.items()}
    for name, per_class in counts.items():
        present = [k for k, count in enumerate(per_class) if count]
        if target.classes and len(present) == 1:
            only = target.classes[present[0]]
            warnings.append(f"client {name!r} has rows of one class only, {only!r}")
    grades = max(answer.facts["hints"]["scale"] for answer in answers.values())
    if request.task == "auto" and target.classes is None and grades:
        warnings.append(
            f"the target {target.name!r} has {grades} different values and is taken for a number, "
            "one step being as large as any other: are classes meant? then give --task "
            "classification; or --task regression, which asks no more"
        )
    return Agreement(
        target=target,
        columns=columns,
        scale=request.scale,
        missing=request.stated_missing,
        rows={name: answer.facts["rows"] for name, answer in answers.items()},
        dropped={name: answer.facts["dropped"] for name, answer in answers.items()},
        # Clients with differential privacy name classes and count none.
        class_counts=counts if any(map(any, counts.values())) else {},
        guards={name: answer.facts["guard"] for name, answer in answers.items()},
        warnings=(*warnings, *table.warnings),
        table=table,
        column_sizes={
            name: column_sizes(columns, request.scale, answer) for name, answer in answers.items()
        },
        bytes_up={name: _nbytes(name, replies, told) for name in names},
        bytes_down={name: message.nbytes + _nbytes(name, asked) for name in names},
    )


def _nbytes(name: str, *messages: Mapping[str, Message]) -> int:
    return sum(by_client[name].nbytes for by_client in messages if name in by_client)


def _columns(
    request: DataRequest, answers: Mapping[str, DataReply]
) -> tuple[tuple[Column, ...], list[str]]:
    """How every column is used, and what is to be said about it."""
    sparse = all(answer.facts["sparse"] for answer in answers.values())
    names = _widest(answers) if sparse else _common(answers)
    numbers = _numbers(request, names, answers, sparse)
    columns: list[Column] = []
    constant: list[str] = []
    unnamed: list[str] = []
    gaps = {} if sparse else _mostly_missing(request.max_missing, names, answers)
    for name in (name for name in names if name not in gaps):
        column: Column | None = numbers.get(name) or _category(name, answers)
        if column is None:
            (unnamed if _is_unnamed(name, answers) else constant).append(name)
        else:
            columns.append(column)
    if not columns:
        raise ValueError("every column is the same in all rows: there is nothing to learn from")
    each = "is the same in every row: it is" if len(constant) == 1 else "are constant: they are"
    word = "column" if len(constant) == 1 else "columns"
    said = [f"{word} {listed(constant)} {each} left out"] if constant else []
    said += [
        f"column {name!r} is text with no value that 5 rows of a client hold, such as an id: it is "
        "left out"
        for name in unnamed
    ]
    said += [
        f"column {name!r} is left out: it has no value in {share:.0%} of the rows of {client!r}"
        for name, (client, share) in gaps.items()
    ]
    return tuple(columns), said


def _refuse_namesakes(columns: Sequence[Column]) -> None:
    """Two features of one name, as of a column 'town=oslo' beside a level of 'town'."""
    owner: dict[str, str] = {}
    for column in columns:
        for feature in column.features:
            if feature in owner:
                raise ValueError(
                    f"the columns {owner[feature]!r} and {column.name!r} would both have a feature "
                    f"{feature!r}: rename one of them"
                )
            owner[feature] = column.name


def _is_unnamed(name: str, answers: Mapping[str, DataReply]) -> bool:
    """Whether a column of text has values, and none that enough rows hold to be named."""
    told = [answer.facts["texts"].get(name) for answer in answers.values()]
    return any(t and t["other"] for t in told) and not any(t and t["values"] for t in told)


def _mostly_missing(
    most: float, names: Sequence[str], answers: Mapping[str, DataReply]
) -> dict[str, tuple[str, float]]:
    """Columns with more gaps at a client than are allowed, and where most are missing."""
    worst = [max(cells_of(name, answers), key=lambda cell: cell.missing) for name in names]
    return {cell.column: (cell.client, cell.missing) for cell in worst if cell.missing > most}


def _widest(answers: Mapping[str, DataReply]) -> list[str]:
    """Sparse files name what is not 0: the columns of all of them."""
    known = {name for answer in answers.values() for name in answer.facts["columns"]}
    return sorted(known, key=lambda name: int(name[1:]))


def _common(answers: Mapping[str, DataReply]) -> list[str]:
    known = dict.fromkeys(c for answer in answers.values() for c in answer.facts["columns"])
    lacking = {
        column: [name for name, answer in answers.items() if column not in answer.facts["columns"]]
        for column in known
    }
    lacking = {column: clients for column, clients in lacking.items() if clients}
    if lacking:
        said = [f"{column!r} (not at {listed(clients)})" for column, clients in lacking.items()]
        word = "column" if len(said) == 1 else "columns"
        raise ValueError(
            f"not all clients have the {word} {', '.join(said)}: rename or add, or leave out with "
            f"--exclude {','.join(lacking)}"
        )
    return list(known)


def _refuse_typos(request: DataRequest, answers: Mapping[str, DataReply]) -> None:
    """Columns that the request names and no client has, all in one sentence."""
    nowhere = set.intersection(*(set(answer.facts["unknown"]) for answer in answers.values()))
    named = [(option, name) for option in NAMING for name in getattr(request, option)]
    told = [c for answer in answers.values() for c in answer.facts["columns"]]
    # Columns that are left out are not told of, but named.
    known = list(dict.fromkeys([*told, *(name for _, name in named if name not in nowhere)]))
    said = []
    for option, name in named:
        if name in nowhere:
            near = nearest(name, known)
            hint = f" (did you mean {near!r}?)" if near else ""
            said.append(f"--{option.replace('_', '-')} {name}{hint}")
    if said:
        word = "such a column" if len(said) == 1 else "such columns"
        raise ValueError(f"{', '.join(said)}: no client has {word}; they have {listed(known)}")


def _refuse_variants(request: DataRequest, answers: Mapping[str, DataReply]) -> None:
    """Labels that differ in case or blanks alone are one label spelt in two ways."""
    if request.merge_labels:
        return
    spelt: dict[str, dict[str, str]] = {}
    for client, answer in answers.items():
        told = answer.facts["target"]
        labels = [(request.target, v) for v, _ in told["values"] or () if isinstance(v, str)]
        labels += [(c, v) for c, told in answer.facts["texts"].items() for v in told["values"]]
        for column, label in labels:
            first = spelt.setdefault(column, {}).setdefault(folded(label), label)
            if first != label:
                raise ValueError(
                    f"column {column!r} holds {first!r} and, at client {client!r}, {label!r}: if "
                    "they are the same, set --merge-labels, or write them in one way"
                )


def _numbers(
    request: DataRequest, names: Sequence[str], answers: Mapping[str, DataReply], sparse: bool
) -> dict[str, Number]:
    """The columns of numbers by name, those that are not constant."""
    known = {name for answer in answers.values() for name in answer.facts["numbers"]}
    numeric = [name for name in names if name in known]
    for name in numeric:
        text = [c for c, answer in answers.items() if name in answer.facts["texts"]]
        if text:
            other = next(c for c in answers if c not in text)
            raise ValueError(
                f"column {name!r} holds numbers at client {other!r} but text at {text[0]!r}: "
                f"correct it, or set --categorical {name}"
            )
    total = added([_aligned(answer, numeric) for answer in answers.values()])
    found = {}
    rows = sum(answer.facts["rows"] for answer in answers.values())
    told = zip(numeric, total.count, total.mean, total.deviation, strict=True)
    for name, count, mean, deviation in told:
        if deviation == 0.0 and not sparse:
            continue
        one, gaps = request.scale == "federated", request.gaps_of(name)
        found[name] = Number(
            name,
            shift=float(mean) if one else 0.0,
            scale=float(deviation) if one and deviation > 0.0 else 1.0,
            fill=float(mean) if gaps in FILLED else None,
            indicator=gaps == "indicator" and bool(count < rows),
        )
    return found


def _aligned(answer: DataReply, names: Sequence[str]) -> Moments:
    """The moments in the order of these names; a column that a sparse file lacks is 0."""
    place = {name: k for k, name in enumerate(answer.facts["numbers"])}
    at = np.array([place.get(name, -1) for name in names], dtype=np.intp)
    m, absent = answer.moments, at < 0
    count = np.append(m.count, 0.0)[at]
    count[absent] = float(answer.facts["rows"])
    return Moments(count, np.append(m.sum, 0.0)[at], np.append(m.squares, 0.0)[at])


def _without_other(column: Column, answers: Mapping[str, DataReply]) -> Column:
    """The column without a level that has no row, unless there is no other."""
    return _category(column.name, answers, merged=False) or column


def _category(
    name: str, answers: Mapping[str, DataReply], *, merged: bool = True
) -> Category | None:
    """A column of text, with or without what is ``merged``; None if it has one value only."""
    totals: dict[str, int] = {}
    other = False
    for answer in answers.values():
        if name not in answer.facts["texts"]:
            return None
        told = answer.facts["texts"][name]
        other = other or (merged and told["other"])
        for value, count in told["values"].items():
            totals[value] = totals.get(value, 0) + count
    if len(totals) > LEVELS:
        raise ValueError(
            f"column {name!r} has {len(totals)} different values over all clients, more than "
            f"{LEVELS}: leave it out with --exclude {name}"
        )
    order = sorted(totals, key=lambda value: (-totals[value], value))
    levels = [*sorted(order[1:]), *([OTHER] if other else [])]
    if not order or not levels:
        return None
    shares = [] if other else [totals[level] / sum(totals.values()) for level in levels]
    return Category(name, order[0], tuple(levels), other, tuple(shares))


def _target(request: DataRequest, answers: Mapping[str, DataReply]) -> Target:
    told = {name: answer.facts["target"] for name, answer in answers.items()}
    kinds = {name: facts["kind"] for name, facts in told.items()}
    if len(set(kinds.values())) > 1:
        text = next(name for name, kind in kinds.items() if kind == "text")
        number = next(name for name, kind in kinds.items() if kind == "number")
        raise ValueError(
            f"the target {request.target!r} holds numbers at client {number!r} but text at "
            f"{text!r}: write the labels in the same way"
        )
    classes: list[Label] | None = None
    if all(facts["values"] is not None for facts in told.values()):
        values = {value for facts in told.values() for value, _ in facts["values"]}
        classes = sorted(int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    if request.task == "auto" and classes and kinds[next(iter(kinds))] == "number":
        classes = classes if len(classes) <= 2 else None
    if request.task == "regression" or classes is None:
        return _numeric_target(request, [facts["moments"] for facts in told.values()])
    if len(classes) < 2:
        raise ValueError(
            f"the target {request.target!r} is {classes[0]!r} in every row of every client: two "
            "classes are needed at least"
        )
    if len(classes) > LEVELS:
        raise ValueError(f"the target has {len(classes)} classes, more than {LEVELS}")
    return Target(request.target, tuple(classes))


def _numeric_target(request: DataRequest, moments: Sequence[Sequence[float]]) -> Target:
    total = added([Moments(*(np.array([value]) for value in triple)) for triple in moments])
    deviation = float(total.deviation[0])
    if deviation == 0.0:
        raise ValueError(f"the target {request.target!r} is the same in every row of every client")
    if request.scale == "none":
        return Target(request.target)
    return Target(request.target, None, float(total.mean[0]), deviation)


def _class_counts(target: Target, answer: DataReply) -> list[int]:
    if target.classes is None:
        return []
    counts = dict(answer.facts["target"]["values"])
    return [int(counts.get(label, 0)) for label in target.classes]
