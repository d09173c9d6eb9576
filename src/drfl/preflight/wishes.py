"""What the clients are asked before training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import lookup
from drfl.wire import WireError

TASKS = ("auto", "classification", "regression")
MISSING = ("error", "drop", "mean")
SCALES = ("federated", "per-client", "none")


@dataclass(frozen=True)
class Wishes:
    """What is to be learned from which columns.

    Attributes
    ----------
    target : str
        The column that is predicted.
    task : {"auto", "classification", "regression"}
        "auto": text, or numbers of two kinds, are classes; other numbers are a numeric target.
    missing : {"error", "drop", "mean"}
        What is done about missing values.
    scale : {"federated", "per-client", "none"}
        How columns of numbers are scaled.
    categorical, exclude : tuple of str
        Columns that are categories even if they look like numbers; columns that are left out.
    support : mapping of str to (float, float)
        Between which bounds columns can be, in the units of the files.
    """

    target: str
    task: str = "auto"
    missing: str = "error"
    scale: str = "federated"
    categorical: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    support: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, known in (("task", TASKS), ("missing", MISSING), ("scale", SCALES)):
            lookup(name, getattr(self, name), dict.fromkeys(known))
        if self.target in self.exclude:
            raise ValueError(f"{self.target!r} is the target and cannot be left out")
        if self.support and self.scale == "per-client":
            raise ValueError(
                "a support needs one scaling for all clients: take scale = 'federated' or 'none'"
            )

    def to_bytes(self) -> NDArray[np.uint8]:
        """As text for a message."""
        return text_array(asdict(self))

    @classmethod
    def from_bytes(cls, array: NDArray[np.uint8]) -> Wishes:
        """Read what `to_bytes` wrote; it may come from anywhere."""
        try:
            data = array_text(array)
            texts = [data["target"], *data["categorical"], *data["exclude"], *data["support"]]
            bounds = {
                name: (float(low), float(high)) for name, (low, high) in data["support"].items()
            }
            if not all(isinstance(text, str) for text in texts):
                raise TypeError
            for name in ("categorical", "exclude"):
                data[name] = tuple(data[name])
            return cls(**{**data, "support": bounds})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise WireError("the wishes of a preflight cannot be read") from None


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
