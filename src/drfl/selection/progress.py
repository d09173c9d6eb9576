"""What is seen while a selection runs: one line on the standard error stream."""

from __future__ import annotations

import sys
from time import perf_counter
from types import TracebackType
from typing import Self


class Progress:
    """Counts fits, rounds and seconds; on a terminal the line is rewritten in place.

    Parameters
    ----------
    verbose : int
        0: nothing is shown.
    splits : int
        How many parts the work has.
    word : str
        What a part is called: "fold" or "client left out".
    """

    def __init__(self, verbose: int, splits: int, word: str) -> None:
        self.verbose, self.splits, self.word = verbose, splits, word
        self.fits = self.rounds = 0
        self._start, self._rewrites = perf_counter(), sys.stderr.isatty()

    def solved(self, split: int, rounds: int) -> None:
        """A fit of a split is done."""
        self.fits, self.rounds = self.fits + 1, self.rounds + rounds
        if self._rewrites:
            self._write(split, "\r")

    def scored(self, split: int) -> None:
        """All models of a split have their scores."""
        if not self._rewrites:
            self._write(split, "\n")

    def _write(self, split: int, end: str) -> None:
        if self.verbose:
            line = (
                f"select: {self.word} {split + 1} of {self.splits}, {self.fits} fits in "
                f"{self.rounds} rounds, {perf_counter() - self._start:.1f} s"
            )
            print(line, end=end, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.verbose and self._rewrites:
            print(file=sys.stderr, flush=True)
