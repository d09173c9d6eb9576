"""What noisy answers cost: how they add up (zero-concentrated), and the ledger of a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.privacy.journal import Journal, SpentError
from drfl.wire import Message

STEPS = 64  # of a bisection: more than the bits of a number


def delta_of(rho: float, epsilon: float) -> float:
    r"""The smallest :math:`\delta` that is known for :math:`\rho`-zCDP at this :math:`\epsilon`.

    .. math::
        \delta = \min_{\alpha>1}\ \frac{e^{(\alpha-1)(\alpha\rho-\epsilon)}}{\alpha-1}
        \Big(1-\frac1\alpha\Big)^{\alpha}

    (Canonne, Kamath and Steinke, 2020, proposition 12.) The logarithm is convex in
    :math:`\alpha`, and every :math:`\alpha` is a valid bound.

    Examples
    --------
    >>> print(f"{delta_of(0.02, 1.0):.2g}")
    8.8e-08
    """
    if rho == 0.0:
        return 0.0
    low = (epsilon + rho) / (2.0 * rho)
    low, high = max(low, 1.0), max(low, 1.0) + 1.0 / math.sqrt(2.0 * rho) + 1.0
    for _ in range(STEPS):
        alpha = 0.5 * (low + high)
        slope = (2.0 * alpha - 1.0) * rho - epsilon + math.log1p(-1.0 / alpha)
        low, high = (alpha, high) if slope < 0.0 else (low, alpha)
    exponent = (high - 1.0) * (high * rho - epsilon) - math.log(high - 1.0)
    return min(1.0, math.exp(min(0.0, exponent + high * math.log1p(-1.0 / high))))


def rho_of(epsilon: float, delta: float) -> float:
    r"""The largest :math:`\rho` that keeps the promise :math:`(\epsilon,\delta)`.

    Examples
    --------
    >>> round(rho_of(1.0, 1e-6), 4), round(rho_of(3.0, 1e-6), 4)
    (0.0244, 0.1851)
    """
    low, high = 0.0, epsilon + 1.0  # rho = epsilon already has a delta of order 1
    while delta_of(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    for _ in range(STEPS):
        rho = 0.5 * (low + high)
        low, high = (rho, high) if delta_of(rho, epsilon) <= delta else (low, rho)
    return low


def epsilon_of(rho: float, delta: float) -> float:
    r"""The smallest :math:`\epsilon` that :math:`\rho` keeps at this :math:`\delta`.

    Examples
    --------
    >>> round(epsilon_of(rho_of(1.0, 1e-6), 1e-6), 6)
    1.0
    """
    if delta_of(rho, 0.0) <= delta:
        return 0.0
    # The classical bound of Bun and Steinke is an epsilon that suffices.
    low, high = 0.0, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
    for _ in range(STEPS):
        epsilon = 0.5 * (low + high)
        low, high = (low, epsilon) if delta_of(rho, epsilon) <= delta else (epsilon, high)
    return high


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
