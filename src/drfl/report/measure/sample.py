"""A client's rows, its metrics, and models fitted to rows of several clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Client
from drfl.metrics import class_metrics, number_metrics
from drfl.models import Model
from drfl.models.judgement import calibration
from drfl.problem import Problem
from drfl.run import solve
from drfl.run.result import Result, intercepts_at, stacked
from drfl.selection.client_half.alone import solve_present
from drfl.supports import WholeSpace

TOL = 1e-4
"""Of refits: metrics and percentiles do not see more digits."""
ROUNDS = 100
"""Of refits of several classes: without a radius, those that rows tell apart would never end."""


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
        """The intercepts at a client (K,): its own, where every client has one.

        Rows of one class among several have a model without a result.
        """
        own = bool(self.results) and all(result.intercepts for result in self.results)
        return intercepts_at(self.results, name) if own else self.intercept


def refit(model: Model, problem: Problem, data: Mapping[str, ClientSample]) -> Refit:
    """Solve a problem on these rows, for every linear model."""
    if model.joint:
        clients = clients_of(model, 0, data)
        coef, intercept, result = solve_present(problem, clients, tol=TOL, max_rounds=ROUNDS)
        return Refit(coef, intercept, [] if result is None else [result])
    # The rows are at hand, so the solver that needs them in one process may have them.
    plain = not problem.shared_ball and not problem.mixture.is_capped
    plain &= not problem.own_intercepts
    fast = problem.support_kind is WholeSpace and plain
    solver = "local" if fast else "bundle"
    results = [
        solve(problem, clients_of(model, k, data), solver=solver, tol=TOL, max_rounds=1000)
        for k in range(model.n_problems)
    ]
    return Refit(*stacked(results), results)


def class_tables(model: Model, data: Mapping[str, ClientSample]) -> Iterator[dict[str, Any]]:
    """Records "confusion" and "class_curve" of a model of more than two classes, all rows together.

    Which class is taken for which, and by class how often it is right by the probability that it
    is given.
    """
    classes = model.target.classes
    if classes is None or len(classes) < 3 or not data:
        return
    scores = [
        model.raw_scores(s.X, model.coef, model.intercept, model.scaling(s.X))
        for s in data.values()
    ]
    z, y = np.vstack(scores), np.concatenate([s.y for s in data.values()]).astype(np.intp)
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(counts, (y, model.positions(z)), 1)
    yield {"kind": "confusion", "counts": counts.tolist()}
    if not model.probabilistic:
        return
    p = np.clip(model.probabilities(z), 1e-12, 1.0 - 1e-12)
    for k in range(len(classes)):
        told = calibration(np.log(p[:, k] / (1.0 - p[:, k])), y == k)
        yield {"kind": "class_curve", "class": k, "bins": told}


def metrics(model: Model, coef: Array, intercept: Array, sample: ClientSample) -> dict[str, float]:
    """How well linear models of scaled features predict, by the names that `drfl` uses."""
    z = model.raw_scores(sample.X, coef, intercept, model.scaling(sample.X))
    if model.target.classes is None:
        return number_metrics(model.target.scale * (z[:, 0] - sample.y))
    found = class_metrics(z, sample.y)
    return {name: value for name, value in found.items() if not math.isnan(value)}
