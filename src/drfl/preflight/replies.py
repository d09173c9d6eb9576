"""What a client answers, read with every field checked: it may come from anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drfl.preflight.moments import Moments
from drfl.preflight.wishes import array_text
from drfl.wire import Field, Message, WireError, validate

REPLY = {
    "facts": Field("uint8", (None,)),
    "count": Field("float64", ("k",)),
    "sum": Field("float64", ("k",)),
    "squares": Field("float64", ("k",)),
}
"""The arrays of a reply; the facts are JSON."""


@dataclass(frozen=True)
class Answer:
    """A client's answer.

    Attributes
    ----------
    facts : dict
        ``rows``, ``dropped``, ``guard`` (its k, or 0), ``sparse``, ``columns`` (names), ``numbers``
        (those of numbers), ``texts`` (the others, with ``values`` and their counts, and whether
        there are ``other`` ones), ``target`` (its ``kind``, ``values`` with counts or None,
        ``moments`` of numbers).
    moments : Moments
        Of the columns of numbers, in their order.
    """

    facts: dict[str, Any]
    moments: Moments

    @classmethod
    def read(cls, reply: Message) -> Answer:
        """Read a reply; WireError says what is wrong with it."""
        sizes = validate(reply, "preflight/reply", 0, REPLY, {})
        arrays = reply.arrays
        try:
            facts = array_text(arrays["facts"])
        except (ValueError, RecursionError):
            raise WireError("the facts of a preflight are no JSON") from None
        if not _sound(facts) or len(facts["numbers"]) != sizes["k"]:
            raise WireError("the facts of a preflight are not of the agreed form")
        return cls(facts, Moments(arrays["count"], arrays["sum"], arrays["squares"]))


def _sound(facts: Any) -> bool:
    if not isinstance(facts, dict) or set(facts) != FACTS:
        return False
    texts, names = facts["texts"], facts["columns"]
    return (
        _whole(facts["rows"])
        and _whole(facts["dropped"])
        and _whole(facts["guard"])
        and isinstance(facts["sparse"], bool)
        and all(_names(facts[key]) for key in ("columns", "numbers"))
        and isinstance(texts, dict)
        and all(_levels(told) for told in texts.values())
        and sorted([*facts["numbers"], *texts]) == sorted(names)
        and _target(facts["target"])
    )


FACTS = {"rows", "dropped", "sparse", "columns", "numbers", "texts", "target", "guard"}


def _levels(told: Any) -> bool:
    return (
        isinstance(told, dict)
        and set(told) == {"values", "other"}
        and isinstance(told["other"], bool)
        and isinstance(told["values"], dict)
        and all(_whole(count) for count in told["values"].values())
    )


def _target(told: Any) -> bool:
    kind = told.get("kind") if isinstance(told, dict) else None
    if kind == "text":
        return set(told) == {"kind", "values"} and _pairs(told["values"], str)
    if kind != "number" or set(told) != {"kind", "values", "moments"}:
        return False
    sums = told["moments"]
    few = told["values"] is None or _pairs(told["values"], float)
    return few and isinstance(sums, list) and len(sums) == 3 and all(map(_number, sums))


def _pairs(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(
        isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is kind and _whole(pair[1])
        for pair in values
    )


def _names(values: Any) -> bool:
    texts = isinstance(values, list) and all(isinstance(value, str) for value in values)
    return texts and len(set(values)) == len(values)


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _number(value: Any) -> bool:
    return type(value) is float and abs(value) < float("inf")
