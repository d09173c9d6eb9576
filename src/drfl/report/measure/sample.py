"""A client's rows, its metrics, and models fitted to rows of several clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Client
from drfl.metrics import class_metrics, number_metrics
from drfl.models import Model
from drfl.problem import Problem
from drfl.result import Result
from drfl.run import solve
from drfl.supports import WholeSpace

TOL = 1e-4
"""Of refits: metrics and percentiles do not see more digits."""


@dataclass(frozen=True, eq=False)
class ClientSample:
    """Rows of one client.

    Attributes
    ----------
    X : array or CSR array of shape (N, n)
        Features in the units of the file.
    y : array of shape (N,)
        Positions of classes, or targets scaled as in the training.
    weight : array of shape (N,), optional
        Weights of the rows.
    lines : array of shape (N,), optional
        Where the rows are in the file; else they are counted from 1.
    """

    X: Any
    y: Array
    weight: Array | None = None
    lines: Sequence[int] | None = None

    def take(self, rows: NDArray[np.intp]) -> ClientSample:
        """Some of the rows."""
        return ClientSample(
            self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows]
        )


def clients_of(model: Model, k: int, data: Mapping[str, ClientSample]) -> list[Client]:
    """The clients of the k-th linear model, scaled as in the training."""
    clients = []
    for name, sample in data.items():
        shift, scale = model.scaling(sample.X)
        y = model.target_of(k, sample.y)
        clients.append(
            Client(name, sample.X, y, sample_weight=sample.weight, shift=shift, scale=scale)
        )
    return clients


@dataclass(frozen=True, eq=False)
class Refit:
    """Linear models (K, n) and (K,) of scaled features, and the results they come from."""

    coef: Array
    intercept: Array
    results: list[Result]

    def at(self, name: str) -> Array:
        """The intercepts at a client (K,): its own, where every client has one."""
        own = [result.intercepts for result in self.results]
        return np.array([b[name] for b in own]) if all(own) else self.intercept


def refit(
    model: Model, problem: Problem, data: Mapping[str, ClientSample], tol: float = TOL
) -> Refit:
    """Solve a problem on these rows, for every linear model."""
    # The rows are at hand, so the solver that needs them in one process may have them.
    plain = not problem.shared_ball and not problem.mixture.is_capped
    plain &= not problem.own_intercepts
    fast = problem.support_kind is WholeSpace and plain
    solver = "local" if fast else "bundle"
    results = [
        solve(problem, clients_of(model, k, data), solver=solver, tol=tol, max_rounds=1000)
        for k in range(len(model.coef))
    ]
    coef = np.array([result.coef for result in results])
    return Refit(coef, np.array([result.intercept for result in results]), results)


def metrics(model: Model, coef: Array, intercept: Array, sample: ClientSample) -> dict[str, float]:
    """How well linear models of scaled features predict, by the names that `drfl` uses."""
    z = model.raw_scores(sample.X, coef, intercept, model.scaling(sample.X))
    if model.target.classes is None:
        return number_metrics(model.target.scale * (z[:, 0] - sample.y))
    found = class_metrics(z, sample.y)
    return {name: value for name, value in found.items() if not math.isnan(value)}
