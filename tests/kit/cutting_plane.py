"""A small solver for the tests of the run loop: Kelley's cutting planes in a cube."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from drfl.client import Checked
from drfl.solvers import (
    Assignment,
    Session,
    Solver,
    Standing,
    Status,
    StatusKind,
    relative_gap,
)
from drfl.wire import Field, Message, WireError, reply_kind, validate

REQUEST = {"x": Field("float64", ("d",))}
REPLY = {
    "value": Field("float64"),
    "slope": Field("float64", ("d",)),
    "multiplier": Field("float64"),
}


def evaluate(site, message):
    """Value, subgradient and multiplier at x = (w, b)."""
    x = message.arrays["x"]
    b = float(x[-1]) if site.shared_intercept else 0.0
    worst = site.oracle.evaluate(x[: site.n_features], b)
    slope = worst.gradient
    if site.shared_intercept:
        slope = np.append(slope, worst.intercept_gradient)
    return {
        "value": np.array(worst.value),
        "slope": slope,
        "multiplier": np.array(worst.multiplier),
    }


@dataclass(frozen=True)
class CuttingPlane(Solver):
    """Minimise the cuts of the whole objective over the cube of half-width ``region``."""

    region: float = 10.0
    patience: int = 3
    name = "cutting_plane"
    handlers = {"evaluate": Checked(evaluate, REQUEST, REPLY)}  # noqa: RUF012

    def start(self, task):
        return Cube(self, task)


class Cube(Session):
    at_zero = math.nan

    def __init__(self, settings, task: Assignment) -> None:
        self.settings, self.problem = settings, task.problem
        self.names, self.tol = task.names, task.tol
        self.n, self.round, self.misses = task.n, 0, 0
        self.x = self.best_x = np.zeros(task.dimension)
        self.cuts: list[np.ndarray] = []
        self.upper, self.lower = math.inf, -math.inf
        self.losses = self.prices = np.full(len(task.names), math.nan)
        self._rejected: dict[str, str] = {}

    def propose(self):
        return dict.fromkeys(self.names, Message("evaluate", self.round, {"x": self.x}))

    def absorb(self, replies, failures: Mapping[str, str]) -> None:
        self._rejected = {}
        for name, reply in replies.items():
            try:
                validate(reply, reply_kind("evaluate"), self.round, REPLY, {"d": len(self.x)})
            except WireError as error:
                self._rejected[name] = str(error)
        self.round += 1
        if failures or self._rejected:
            self.misses += 1
            return
        self.misses = 0
        self._learn([replies[name].arrays for name in self.names])

    def _learn(self, answers) -> None:
        x, d = self.x, len(self.x)
        values = np.array([float(a["value"]) for a in answers])
        q = self.problem.mixture.worst_weights(values)
        f, g = float(q @ values), q @ np.array([a["slope"] for a in answers])
        if not self.cuts:
            self.at_zero = f
        if f < self.upper:
            self.upper, self.best_x, self.losses = f, x, values
            self.prices = np.array([float(a["multiplier"]) for a in answers])
        self.cuts.append(np.append(g, f - g @ x))
        rows = np.array(self.cuts)
        A = np.column_stack([rows[:, :-1], -np.ones(len(rows))])
        cube = [(-self.settings.region, self.settings.region)] * d + [(0.0, None)]
        found = linprog(np.eye(d + 1)[d], A, -rows[:, -1], bounds=cube, method="highs")
        self.x, self.lower = found.x[:d], found.fun

    @property
    def standing(self) -> Standing:
        return Standing(
            self._status(),
            self.best_x[: self.n],
            float(self.best_x[-1]) if self.problem.shared_intercept else 0.0,
            self.upper,
            self.lower,
            self.at_zero,
            self.problem.mixture.worst_weights(np.nan_to_num(self.losses)),
            self.losses,
            self.prices,
            self._rejected,
            {"cuts": len(self.cuts)},
        )

    def _status(self) -> Status | None:
        if self.misses >= self.settings.patience:
            return Status(StatusKind.FAILED, "a client was missing too often")
        if relative_gap(self.upper, self.lower, self.at_zero) <= self.tol:
            where = f"no entry beyond {self.settings.region:g}"
            return Status(StatusKind.LOCAL, f"optimal among the models with {where}")
        return None
