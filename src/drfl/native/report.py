"""What everyone reads of a method's run: the returned model, its objective, and why it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.mixture import Mixture
from drfl.problem import Problem
from drfl.solvers.base import Session, Status


class Report(Session):
    """The part of a session that is read; asking and answering is added below."""

    at_zero: float = math.inf

    def __init__(self, problem: Problem, names: Sequence[str], n_features: int) -> None:
        self.problem, self.names = problem, tuple(names)
        self.n, self.d = n_features, problem.dimension(n_features)
        if problem.network is not None:
            self.n = self.d  # the coefficients are the whole model
        self.mixture: Mixture | None = None  # resolved when all are known
        self.returned = np.zeros(self.d)
        self.losses = np.full(len(names), np.nan)
        self._objective = math.inf
        self._rejected: dict[str, str] = {}
        self._status: Status | None = None

    @property
    def mix(self) -> Mixture:
        """The mixture with the weights of these clients."""
        assert self.mixture is not None
        return self.mixture

    @property
    def center(self) -> Array:
        r""":math:`\hat q` (S,)."""
        return self.mix.weights

    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def coef(self) -> Array:
        return self.returned[: self.n]

    @property
    def intercept(self) -> float:
        return float(self.returned[self.n :].sum())

    @property
    def objective(self) -> float:
        return self._objective

    @property
    def lower_bound(self) -> float:
        return 0.0  # no loss is negative; these methods prove no more

    @property
    def weights(self) -> Array:
        known = self.mixture is not None
        return self.mix.worst_weights(self.losses) if known else np.full(len(self.names), np.nan)

    @property
    def client_losses(self) -> Array:
        return self.losses

    @property
    def client_multipliers(self) -> Array:
        return np.zeros(len(self.names))  # nothing is transported

    @property
    def rejected(self) -> Mapping[str, str]:
        return self._rejected

    @property
    def info(self) -> Mapping[str, Any]:
        known = self.mixture is not None
        return {"worst_loss": float(self.losses.max())} if known else {}
