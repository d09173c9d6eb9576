"""What everyone reads of an ADMM's session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drfl.losses import Array
from drfl.solvers.admm.certify import Certifier
from drfl.solvers.base import Session, Status


class CertifiedSession(Session):
    """A session whose model, bounds and losses are those of its certifier."""

    def __init__(self, certifier: Certifier) -> None:
        self.certifier, self.names, self.n = certifier, certifier.names, certifier.n
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
    def gap(self) -> float:
        return self.certifier.gap

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
