"""One federated problem with its data: to solve, to evaluate exactly, to hand to the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import drfl
from drfl import reference
from drfl.losses import Loss, make_loss
from drfl.rows import Rows
from drfl.worst_case import make_oracle
from drfl.worst_case.oracle import Oracle, WorstCase

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Data, balls (one per client) and the set Q; ``weights`` are those of the rows."""

    loss: Loss
    data: tuple[tuple[Array, Array], ...]
    balls: tuple[drfl.Ball, ...]
    mixture: drfl.Mixture = drfl.Mixture()  # noqa: RUF009  (frozen)
    intercept: str = "shared"
    weights: tuple[Array | None, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"c{s}" for s in range(len(self.data)))

    @property
    def n(self) -> int:
        return self.data[0][0].shape[1]

    @property
    def dimension(self) -> int:
        return self.n + (self.intercept == "shared")

    @property
    def _row_weights(self) -> tuple[Array | None, ...]:
        return self.weights or (None,) * len(self.data)

    @property
    def problem(self) -> drfl.Problem:
        balls = dict(zip(self.names, self.balls, strict=True))
        return drfl.Problem(self.loss, balls, self.mixture, intercept=self.intercept)

    def clients(self, policy: drfl.Policy | None = None) -> list[drfl.Client]:
        return [
            drfl.Client(name, X, y, sample_weight=p, policy=policy or drfl.Policy())
            for name, (X, y), p in zip(self.names, self.data, self._row_weights, strict=True)
        ]

    def solve(self, *, policy: drfl.Policy | None = None, **settings: Any) -> drfl.Result:
        return drfl.solve(self.problem, self.clients(policy), **settings)

    # ------------------------------------------------------------------ the exact objective
    @cached_property
    def oracles(self) -> list[Oracle]:
        return [
            make_oracle(Rows(X, y, weights=p), self.loss, ball)
            for (X, y), p, ball in zip(self.data, self._row_weights, self.balls, strict=True)
        ]

    @cached_property
    def resolved(self) -> drfl.Mixture:
        """The mixture with its weights in numbers."""
        return self.mixture.resolve([oracle.rows.total for oracle in self.oracles])

    def parts(self, x: Array) -> list[WorstCase]:
        """Every client's worst case at x = (w, b)."""
        b = float(x[self.n]) if self.intercept == "shared" else 0.0
        return [oracle.evaluate(x[: self.n], b) for oracle in self.oracles]

    def exact(self, x: Array) -> float:
        """h(F(x)) by the oracles, without any solver."""
        return self.resolved.support([part.value for part in self.parts(x)])

    def at(self, result: Any) -> Array:
        """A result's model as x = (w, b)."""
        return np.append(result.coef, result.intercept)[: self.dimension]

    # ------------------------------------------------------------------ the reference
    def reference(self) -> reference.Reference:
        """Cvxpy and Clarabel on the pooled data."""
        return reference.solve(
            self.loss,
            self.data,
            radius=[ball.radius for ball in self.balls],
            label_cost=[ball.label_cost for ball in self.balls],
            norm=self.balls[0].norm,
            support=[ball.support for ball in self.balls],
            sample_weight=list(self._row_weights),
            center=self.resolved.weights,
            mixture_radius=self.mixture.radius,
            p=self.mixture.p,
            intercept=self.intercept,
        )


def in_units(case: Case, unit: float) -> Case:
    """The same problem with features measured in other units: f(w / unit, b) is as before."""
    balls = tuple(
        drfl.Ball(
            unit * ball.radius,
            ball.norm,
            unit * ball.label_cost,
            _scaled(ball.support, unit, case.n),
        )
        for ball in case.balls
    )
    return replace(case, data=tuple((unit * X, y) for X, y in case.data), balls=balls)


def _scaled(support: Any, unit: float, n: int) -> Any:
    if isinstance(support, drfl.Box):
        low, high = (unit * np.asarray(side) for side in (support.low, support.high))
        return drfl.Box(low, high, support.y_low, support.y_high)
    if isinstance(support, drfl.Polyhedron):
        C = support.C.copy()
        C[:, :n] /= unit  # the target, if it is there, keeps its unit
        return drfl.Polyhedron(C, support.d)
    return support


def uniform_case(
    loss: str | Loss,
    data: Sequence[tuple[Array, Array]],
    ball: drfl.Ball,
    mixture: drfl.Mixture = drfl.Mixture(),  # noqa: B008  (frozen)
    **changes: Any,
) -> Case:
    """The same ball for every client."""
    return Case(make_loss(loss), tuple(data), (ball,) * len(data), mixture, **changes)
