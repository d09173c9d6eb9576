"""The server half: one message to every client, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from drfl._registry import listed
from drfl.preflight.agreement import Agreement, Label, Target
from drfl.preflight.moments import Moments, added
from drfl.preflight.replies import Answer
from drfl.preflight.wishes import Wishes
from drfl.tables import OTHER, Category, Column, Number
from drfl.tables.reading import LEVELS
from drfl.wire import Message

Channel = Callable[[Mapping[str, Message]], Mapping[str, Message]]
"""Carries a message to each client and brings the answers."""


def preflight(wishes: Wishes, names: Sequence[str], channel: Channel) -> Agreement:
    """One round: ask every client about its columns, and agree.

    Parameters
    ----------
    wishes : Wishes
        What is to be learned.
    names : sequence of str
        The clients, in order.
    channel : callable
        How messages reach them.
    """
    request = Message("preflight", 0, {"wishes": wishes.to_bytes()})
    replies = channel(dict.fromkeys(names, request))
    answers = {name: Answer.read(replies[name]) for name in names}
    columns, warnings = _columns(wishes, answers)
    target = _target(wishes, answers)
    counts = {name: _class_counts(target, answer) for name, answer in answers.items()}
    for name, per_class in counts.items():
        present = [k for k, count in enumerate(per_class) if count]
        if target.classes and len(present) == 1:
            only = target.classes[present[0]]
            warnings.append(f"client {name!r} has rows of one class only, {only!r}")
    return Agreement(
        target=target,
        columns=columns,
        scale=wishes.scale,
        missing=wishes.missing,
        rows={name: answer.facts["rows"] for name, answer in answers.items()},
        dropped={name: answer.facts["dropped"] for name, answer in answers.items()},
        class_counts=counts if target.classes else {},
        guards={name: answer.facts["guard"] for name, answer in answers.items()},
        warnings=tuple(warnings),
        bytes_up={name: replies[name].nbytes for name in names},
        bytes_down=dict.fromkeys(names, request.nbytes),
    )


def _columns(wishes: Wishes, answers: Mapping[str, Answer]) -> tuple[tuple[Column, ...], list[str]]:
    """How every column is used, and what is to be said about it."""
    sparse = all(answer.facts["sparse"] for answer in answers.values())
    names = _widest(answers) if sparse else _common(answers)
    numbers = _numbers(wishes, names, answers, sparse)
    columns: list[Column] = []
    constant = []
    for name in names:
        column: Column | None = numbers.get(name) or _category(name, answers)
        if column is None:
            constant.append(name)
        else:
            columns.append(column)
    if not columns:
        raise ValueError("every column is the same in all rows: there is nothing to learn from")
    each = "is the same in every row: it is" if len(constant) == 1 else "are constant: they are"
    word = "column" if len(constant) == 1 else "columns"
    said = [f"{word} {listed(constant)} {each} left out"] if constant else []
    return tuple(columns), said


def _widest(answers: Mapping[str, Answer]) -> list[str]:
    """Sparse files name what is not 0: the columns of all of them."""
    known = {name for answer in answers.values() for name in answer.facts["columns"]}
    return sorted(known, key=lambda name: int(name[1:]))


def _common(answers: Mapping[str, Answer]) -> list[str]:
    (first, answer), *others = answers.items()
    columns: list[str] = answer.facts["columns"]
    for name, other in others:
        theirs = other.facts["columns"]
        for has, lacks, column in (
            *((first, name, c) for c in columns if c not in theirs),
            *((name, first, c) for c in theirs if c not in columns),
        ):
            raise ValueError(
                f"client {has!r} has a column {column!r}, but client {lacks!r} has none: rename "
                f"or add it, or leave it out with exclude = [{column!r}]"
            )
    return columns


def _numbers(
    wishes: Wishes, names: Sequence[str], answers: Mapping[str, Answer], sparse: bool
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
                f"correct it, or set categorical = [{name!r}]"
            )
    total = added([_aligned(answer, numeric) for answer in answers.values()])
    found = {}
    for name, mean, deviation in zip(numeric, total.mean, total.deviation, strict=True):
        if deviation == 0.0 and not sparse:
            continue
        one = wishes.scale == "federated"
        found[name] = Number(
            name,
            shift=float(mean) if one else 0.0,
            scale=float(deviation) if one and deviation > 0.0 else 1.0,
            fill=float(mean) if wishes.missing == "mean" else None,
        )
    return found


def _aligned(answer: Answer, names: Sequence[str]) -> Moments:
    """The moments in the order of these names; a column that a sparse file lacks is 0."""
    place = {name: k for k, name in enumerate(answer.facts["numbers"])}
    at = np.array([place.get(name, -1) for name in names], dtype=np.intp)
    m, absent = answer.moments, at < 0
    count = np.append(m.count, 0.0)[at]
    count[absent] = float(answer.facts["rows"])
    return Moments(count, np.append(m.sum, 0.0)[at], np.append(m.squares, 0.0)[at])


def _category(name: str, answers: Mapping[str, Answer]) -> Category | None:
    """A column of text; None if it has one value only."""
    totals: dict[str, int] = {}
    other = False
    for answer in answers.values():
        if name not in answer.facts["texts"]:
            return None
        told = answer.facts["texts"][name]
        other = other or told["other"]
        for value, count in told["values"].items():
            totals[value] = totals.get(value, 0) + count
    if len(totals) > LEVELS:
        raise ValueError(
            f"column {name!r} has {len(totals)} different values over all clients, more than "
            f"{LEVELS}: leave it out with exclude = [{name!r}]"
        )
    order = sorted(totals, key=lambda value: (-totals[value], value))
    levels = [*sorted(order[1:]), *([OTHER] if other else [])]
    return Category(name, order[0], tuple(levels), other) if order and levels else None


def _target(wishes: Wishes, answers: Mapping[str, Answer]) -> Target:
    told = {name: answer.facts["target"] for name, answer in answers.items()}
    kinds = {name: facts["kind"] for name, facts in told.items()}
    if len(set(kinds.values())) > 1:
        text = next(name for name, kind in kinds.items() if kind == "text")
        number = next(name for name, kind in kinds.items() if kind == "number")
        raise ValueError(
            f"the target {wishes.target!r} holds numbers at client {number!r} but text at "
            f"{text!r}: write the labels in the same way"
        )
    classes: list[Label] | None = None
    if all(facts["values"] is not None for facts in told.values()):
        values = {value for facts in told.values() for value, _ in facts["values"]}
        classes = sorted(int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    if wishes.task == "auto" and classes and kinds[next(iter(kinds))] == "number":
        classes = classes if len(classes) <= 2 else None
    if wishes.task == "regression" or classes is None:
        return _numeric_target(wishes, [facts["moments"] for facts in told.values()])
    if len(classes) < 2:
        raise ValueError(
            f"the target {wishes.target!r} is {classes[0]!r} in every row of every client: two "
            "classes are needed at least"
        )
    if len(classes) > LEVELS:
        raise ValueError(f"the target has {len(classes)} classes, more than {LEVELS}")
    return Target(wishes.target, tuple(classes))


def _numeric_target(wishes: Wishes, moments: Sequence[Sequence[float]]) -> Target:
    total = added([Moments(*(np.array([value]) for value in triple)) for triple in moments])
    deviation = float(total.deviation[0])
    if deviation == 0.0:
        raise ValueError(f"the target {wishes.target!r} is the same in every row of every client")
    if wishes.scale == "none":
        return Target(wishes.target)
    return Target(wishes.target, None, float(total.mean[0]), deviation)


def _class_counts(target: Target, answer: Answer) -> list[int]:
    if target.classes is None:
        return []
    counts = dict(answer.facts["target"]["values"])
    return [int(counts.get(label, 0)) for label in target.classes]
