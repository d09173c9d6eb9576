"""What is asked of a file at a client before a training, and how the answer is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl._registry import lookup
from drfl.tables.encoding import FILLED, MISSING, SCALES
from drfl.tables.moments import Moments
from drfl.wire import Field, Message, WireError, validate

TASKS = ("auto", "classification", "regression")
NAMING = ("exclude", "categorical", "support", "missing_columns")  # what of a request names columns


@dataclass(frozen=True)
class DataRequest:
    """What is to be learned from which columns."""

    target: str  # the column that is predicted
    # "auto", "classification", "regression": "auto": text, or numbers of two kinds, are
    # classes; other numbers are a numeric target
    task: str = "auto"
    # "error", "drop", "mean", "indicator": what is done about missing values: refused; their
    # rows left out; the mean over all clients in place of a number, and for text a level of its
    # own; the same, and a feature that says where a number was missing
    missing: str = "error"
    # the same for single columns, where it differs; for the target "error" or "drop"
    missing_columns: Mapping[str, str] = field(default_factory=dict)
    scale: str = "federated"  # "federated", "per-client", "none": how columns of numbers are scaled
    # columns that are categories even if they look like numbers; columns that are left out
    categorical: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    # between which bounds columns can be, in the units of the files
    support: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    decimal: str = "."  # ".", ",": what separates the decimals of a number in files of text
    merge_labels: bool = False  # whether texts that differ in case and blanks alone are the same
    # A column with a larger share of gaps at any client is left out everywhere
    max_missing: float = 1.0
    # for clients with differential privacy: public ranges of all columns that are used, and of
    # a numeric target
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()  # for the same: the labels of the target

    def __post_init__(self) -> None:
        for name, known in (("task", TASKS), ("missing", MISSING), ("scale", SCALES)):
            lookup(name, getattr(self, name), dict.fromkeys(known))
        if self.decimal not in (".", ",") or not isinstance(self.merge_labels, bool):
            raise ValueError("decimal must be . or , and merge_labels true or false")
        checks.number("--max-missing", self.max_missing, least=0.0, most=1.0)
        for name, how in self.missing_columns.items():
            lookup(f"--missing-columns of {name!r}", how, dict.fromkeys(MISSING))
        if self.missing_columns.get(self.target) in FILLED:
            raise ValueError(f"{self.target!r} is the target: its gaps are an error, or dropped")
        if self.max_missing < 1.0 and not {self.missing, *self.missing_columns.values()} & {
            *FILLED
        }:
            raise ValueError(
                "--max-missing goes with --missing mean or indicator: other gaps are not filled"
            )
        if self.target in self.exclude:
            raise ValueError(f"{self.target!r} is the target and cannot be left out")
        if self.support and self.scale == "per-client":
            raise ValueError(
                "a support needs one scaling for all clients: take --scale federated or none"
            )

    def gaps_of(self, name: str) -> str:
        """What is done about missing values of a column."""
        if name == self.target and name not in self.missing_columns:
            return "drop" if self.missing == "drop" else "error"
        return self.missing_columns.get(name, self.missing)

    @property
    def stated_missing(self) -> str:
        """What a model says of missing values: "drop" if rows are left out for any column."""
        how = self.missing_columns.values()
        return "drop" if "drop" in how else self.missing

    def to_bytes(self) -> NDArray[np.uint8]:
        """As text for a message."""
        return text_array(asdict(self))

    @classmethod
    def from_bytes(cls, array: NDArray[np.uint8]) -> DataRequest:
        """Read what `to_bytes` wrote; it may come from anywhere."""
        try:
            data = array_text(array)
            lists, tables = ("categorical", "exclude", "classes"), ("support", "ranges")
            named = (*lists, *tables, "missing_columns")
            texts = [data["target"], *(t for name in named for t in data[name])]
            texts += data["missing_columns"].values()
            bounds = {
                table: {name: (float(low), float(high)) for name, (low, high) in pairs.items()}
                for table, pairs in ((table, data[table]) for table in tables)
            }
            if not all(isinstance(text, str) for text in texts):
                raise TypeError
            for name in lists:
                data[name] = tuple(data[name])
            return cls(**{**data, **bounds})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise WireError("the request of a preflight cannot be read") from None


def text_array(data: Any) -> NDArray[np.uint8]:
    """JSON as an array of bytes, which is what travels.

    Examples
    --------
    >>> array_text(text_array({"rows": 3}))
    {'rows': 3}
    """
    return np.frombuffer(json.dumps(data).encode(), dtype=np.uint8)


def array_text(array: NDArray[np.uint8]) -> Any:
    """Undo `text_array`."""
    return json.loads(array.tobytes())


REPLY = {
    "facts": Field("uint8", (None,)),
    "count": Field("float64", ("k",)),
    "sum": Field("float64", ("k",)),
    "squares": Field("float64", ("k",)),
}
"""The arrays of a reply; the facts are JSON."""


@dataclass(frozen=True)
class DataReply:
    """A client's answer.

    Attributes
    ----------
    facts : dict
        ``rows``, ``dropped``, ``guard`` (its k, or 0), ``sparse``, ``columns`` (names), ``numbers``
        (those of numbers), ``texts`` (the others, with ``values`` and their counts, and whether
        there are ``other`` ones), ``target`` (its ``kind``, ``values`` with counts or None,
        ``moments`` of numbers), ``unknown`` (names in the request that the file does not have),
        ``hints`` (what looks wrong, see `drfl.inspection.suspicion`).
    moments : Moments
        Of the columns of numbers, in their order.
    """

    facts: dict[str, Any]
    moments: Moments

    @classmethod
    def read(cls, reply: Message) -> DataReply:
        """Read a reply; WireError says what is wrong with it."""
        sizes = validate(reply, "preflight/reply", 0, REPLY, {})
        arrays = reply.arrays
        try:
            facts = array_text(arrays["facts"])
        except (ValueError, RecursionError):
            raise WireError("the facts of a preflight are no JSON") from None
        agreed = checks.fits(facts, FACTS) and len(facts["numbers"]) == sizes["k"]
        if not agreed or sorted([*facts["numbers"], *facts["texts"]]) != sorted(facts["columns"]):
            raise WireError("the facts of a preflight are not of the agreed form")
        return cls(facts, Moments(arrays["count"], arrays["sum"], arrays["squares"]))


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _names(value: Any) -> bool:
    return checks.fits(value, [str]) and len(set(value)) == len(value)


NUMBERS: dict[str, Any] = {
    "kind": lambda kind: kind == "number",
    "moments": (_number, _number, _number),
}
TARGETS: tuple[dict[str, Any], ...] = (
    {"kind": lambda kind: kind == "text", "values": [(str, _whole)]},
    {**NUMBERS, "values": [(float, _whole)]},
    {**NUMBERS, "values": lambda told: told is None},
)
"""What may be told of the target: texts, few numbers, or many."""

FACTS = {
    "rows": _whole,
    "dropped": _whole,
    "guard": _whole,
    "sparse": bool,
    "columns": _names,
    "numbers": _names,
    "texts": {str: {"values": {str: _whole}, "other": bool}},
    "target": lambda told: any(checks.fits(told, form) for form in TARGETS),
    "unknown": _names,
    "hints": {
        "codes": {str: [(_number, _whole)]},
        "far": {str: _whole},
        "ids": _names,
        "perfect": _names,
        "scale": _whole,
    },
}
"""The form of the facts; see `checks.fits`."""
