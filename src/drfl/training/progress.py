"""What a training tells while it works, and to whom."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from drfl.run import Record


class Listener(Protocol):
    """A terminal, a script, or a coordinator far away; ``live``: somebody watches."""

    live: bool

    def say(self, *lines: str) -> None:
        """Lines for a reader."""

    def warn(self, sentence: str) -> None:
        """A sentence of warning."""

    def record(self, record: dict[str, Any]) -> None:
        """An object for a script."""

    def progress(self, record: Record, prefix: str = "") -> None:
        """A round is over."""

    def clear(self) -> None:
        """The rounds of a model are over."""


@contextmanager
def warnings_as_sentences(listener: Listener) -> Iterator[None]:
    """Tell Python's warnings in a listener, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for sentence in dict.fromkeys(str(warning.message) for warning in caught):
        listener.warn(sentence)
