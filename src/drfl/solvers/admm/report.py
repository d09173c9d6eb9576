"""What everyone reads of an ADMM's session, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.solvers.admm.certify import Certifier
from drfl.solvers.base import Session, Status

PATIENCE = 10  # rounds to wait for a first answer


class CertifiedSession(Session):
    """A session whose model, bounds and losses are those of its certifier."""

    def __init__(self, certifier: Certifier, tol: float, max_rounds: int) -> None:
        self.certifier, self.names, self.n = certifier, certifier.names, certifier.n
        self.tol, self.max_rounds, self.round = tol, max_rounds, 0
        self._rejected: dict[str, str] = {}
        self._status: Status | None = None
        self._info: dict[str, float] = {}

    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def coef(self) -> Array:
        return self.certifier.best.x[: self.n]

    @property
    def intercept(self) -> float:
        x = self.certifier.best.x
        return float(x[self.n]) if self.certifier.problem.fit_intercept else 0.0

    @property
    def objective(self) -> float:
        return self.certifier.upper

    @property
    def lower_bound(self) -> float:
        return self.certifier.lower

    @property
    def at_zero(self) -> float:
        return self.certifier.at_zero

    @property
    def weights(self) -> Array:
        if not self.certifier.best.complete:
            return np.full(len(self.names), np.nan)
        return self.certifier.terms.mixture.worst_weights(self.client_losses)

    @property
    def client_losses(self) -> Array:
        return self.certifier.best.values

    @property
    def client_multipliers(self) -> Array:
        return self.certifier.best.multipliers

    @property
    def rejected(self) -> Mapping[str, str]:
        return self._rejected

    @property
    def info(self) -> Mapping[str, Any]:
        return self._info

    # ------------------------------------------------------------------ the end
    def _asked(self) -> list[int]:
        """Everyone; at first, whoever has not introduced itself."""
        everyone = range(len(self.names))
        if self.certifier.begun:
            return list(everyone)
        return [s for s in everyone if s not in self.certifier.introductions]

    def _judge(self) -> None:
        """Stop on the proved gap, or with the rounds."""
        if not self.certifier.begun:
            if self.round >= min(PATIENCE, self.max_rounds):
                self._status = Status.failed(self._silence())
            return
        self._status = self._verdict()
        if self._status is None and self.round >= self.max_rounds:
            self._status = Status.max_rounds(self.gap, self.tol)

    def _verdict(self) -> Status | None:
        """What can be said once the gap is small enough."""
        if self.gap > self.tol:
            return None
        proof = self.certifier.proof
        return Status.certified(self.gap) if proof.everywhere else proof.local(self.gap)

    def _silence(self) -> str:
        reasons = [
            f"{self.names[s]}: {self._rejected.get(self.names[s], 'no answer')}"
            for s in self._asked()
        ]
        return f"no usable first answer from {'; '.join(reasons)}"

    def _objectives(self) -> dict[str, float]:
        """The objective at the last w that was evaluated, and at the average, once known."""
        found = self.certifier.objectives
        names = zip(self.certifier.opened, ("at_iterate", "at_average"), strict=False)
        return {name: found[i] for i, name in names if i in found}
