"""What everyone reads of a run of the bundle method while it goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.solvers.base import Session, Status
from drfl.solvers.bundle.clients import Clients
from drfl.solvers.bundle.points import Point, Points
from drfl.solvers.certificate.server import ServerProblem


class Standing(Session):
    """The best model so far, its bounds, and what the clients said of it.

    Attributes
    ----------
    every_name, roster
        The clients of the run, and those who are still part of it.
    best : int
        The point with the lowest objective that everyone has evaluated; -1: none yet.
    upper, lower, at_zero : float
        The objective there, the lower bound, and the objective at w = 0.
    """

    problem: Problem
    terms: ServerProblem
    roster: Clients
    evaluated: Points
    every_name: tuple[str, ...]
    n: int
    dimension: int
    best: int
    upper: float
    lower: float
    at_zero: float = math.nan
    _status: Status | None

    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def coef(self) -> Array:
        return self._best.x[: self.n]

    @property
    def intercept(self) -> float:
        return float(self._best.x[self.n]) if self.problem.fit_intercept else 0.0

    @property
    def objective(self) -> float:
        return self.upper

    @property
    def lower_bound(self) -> float:
        return self.lower

    @property
    def weights(self) -> Array:
        values = self._best.values
        if np.isnan(values).any():
            return self._of_everyone(np.full(len(values), np.nan))
        return self._of_everyone(self.terms.mixture.worst_weights(values))

    @property
    def client_losses(self) -> Array:
        return self._of_everyone(self._best.values)

    @property
    def client_multipliers(self) -> Array:
        whole_space = self.evaluated.terms.kind in ("norm", "flips")
        unit = self.problem.loss.lipschitz if whole_space else 1.0
        return self._of_everyone(unit * self._best.multipliers)

    @property
    def _best(self) -> Point:
        if self.best < 0:  # nobody has introduced itself yet
            return Point.fresh(np.zeros(self.dimension), len(self.roster.names))
        return self.evaluated.points[self.best]

    def _of_everyone(self, values: Array) -> Array:
        """By client in the order of the run, NaN for those who were let go."""
        known = dict(zip(self.roster.names, values, strict=True))
        return np.array([known.get(name, np.nan) for name in self.every_name])

    @property
    def rejected(self) -> Mapping[str, str]:
        return self.roster.rejected
