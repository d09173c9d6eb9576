"""The ledger of a privacy budget: every noisy answer that has left a client, and what it cost.

It belongs to the site, not to a training: what jobs spend adds up, whatever they ask. A question
that has been asked before gets the stored answer and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.privacy.journal import Journal, SpentError
from drfl.wire import Message

HEAD, RELEASE, REFUSED = "budget", "release", "refused"
VERSION = 1
ROUNDING = 1e-12
"""Relative: parts of a budget that add up to it must not fail for the sum's last bit."""


class Spending:
    """What a client's data have cost so far, in zCDP.

    Parameters
    ----------
    path : Path or None
        Where it is kept; None: in memory, which is for simulations only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.journal = Journal(path)
        self.entries: list[Message] = []
        with self.journal.locked():
            if self.journal.exists:
                self._open(path)
            else:
                self.journal.append(Message(HEAD, 0, {"version": np.array(VERSION)}))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Another process opens the file itself; a ledger in memory is copied."""
        if self.journal.path is None:
            return super().__reduce_ex__(protocol)
        return Spending, (self.journal.path,)

    @property
    def spent(self) -> float:
        """The sum of the costs of everything that has left."""
        return float(sum(e.arrays["rho"] for e in self.entries if e.kind == RELEASE))

    @property
    def refused(self) -> int:
        """How many questions were not answered."""
        return sum(entry.kind == REFUSED for entry in self.entries)

    def left(self, budget: float) -> float:
        """What others' trainings have left of a budget."""
        with self.journal.locked():
            self._refresh()
        return max(0.0, budget - self.spent)

    def release(
        self, question: bytes, rho: float, budget: float, compute: Callable[[], Mapping[str, Array]]
    ) -> dict[str, Array]:
        """The stored answer to a question, or a new one, written down before it leaves.

        Parameters
        ----------
        question : bytes
            A digest of everything that the answer depends on, the data among it.
        rho : float
            What the answer costs.
        budget : float
            What everything together may cost; beyond it nothing is computed.
        compute : callable
            Makes the answer.
        """
        with self.journal.locked():
            self._refresh()
            entry = next((e for e in self.entries if _answers(e, question)), None)
            if entry is None:
                if not 0.0 < rho <= budget * (1.0 + ROUNDING) - self.spent:
                    self._write(REFUSED, question, {})
                    raise SpentError(f"the answer costs {rho:.3g}, which the budget does not hold")
                entry = self._write(RELEASE, question, {"rho": np.array(rho), **compute()})
        return {k: v for k, v in entry.arrays.items() if k not in ("question", "rho")}

    def _open(self, path: Path | None) -> None:
        entries = self.journal.unread()
        head = next(entries, None)
        if head is None or head.kind != HEAD or int(head.arrays["version"]) != VERSION:
            raise ValueError(
                f"{path} is not the ledger of a privacy budget of this version: give the path of "
                "one, or of a new file"
            )
        self.entries.extend(entries)

    def _refresh(self) -> None:
        """Take in what another training has written; under the journal's lock."""
        self.entries.extend(self.journal.unread())

    def _write(self, kind: str, question: bytes, arrays: Mapping[str, NDArray[Any]]) -> Message:
        asked = {"question": np.frombuffer(question, np.uint8)}
        entry = Message(kind, len(self.entries), {**asked, **arrays})
        self.journal.append(entry)
        self.entries.append(entry)
        return entry


def _answers(entry: Message, question: bytes) -> bool:
    return entry.kind == RELEASE and entry.arrays["question"].tobytes() == question
