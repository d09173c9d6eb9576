"""Small heterogeneous clients, their mean losses written out, and an engine that listens."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

import drfl
from drfl.engines import SerialEngine
from drfl.losses import LOSSES, make_loss
from drfl.native import METHODS

SMOOTH = [name for name, loss in LOSSES.items() if not loss().kinks]
KINKED = [name for name, loss in LOSSES.items() if loss().kinks]
SIMPLEX = drfl.Mixture(radius=math.inf)
SIZES = (31, 47, 38, 59)


def make_data(task, sizes=SIZES, n=3, seed=0):
    """Clients with a mean, a spread and a model of their own."""
    rng = np.random.default_rng(seed)
    common, data = rng.normal(size=n), []
    for N in sizes:
        X = rng.normal(size=(N, n)) * np.exp(0.3 * rng.normal(size=n)) + 0.4 * rng.normal(size=n)
        target = X @ (common + 0.8 * rng.normal(size=n)) + 0.7 * rng.normal(size=N) + 0.3
        data.append((X, np.sign(target) if task == "classification" else target))
    return data


def clients(loss, **options):
    task = make_loss(loss).task
    return [drfl.Client(f"c{s}", X, y, **options) for s, (X, y) in enumerate(make_data(task))]


def problem(loss, mixture=None, **options):
    return drfl.Problem(loss, mixture=mixture or drfl.Mixture(), **options)


def run(method, loss="smooth_hinge", mixture=None, max_rounds=60, engine=None, **options):
    """Solve on the clients above."""
    mixture = mixture or (SIMPLEX if METHODS[method.name].robust else drfl.Mixture())
    return drfl.solve(
        problem(loss, mixture),
        clients(loss),
        solver=method,
        engine=engine or "serial",
        max_rounds=max_rounds,
        **options,
    )


@cache
def exact(loss, mixture=None):
    """The optimum, proved."""
    result = drfl.solve(problem(loss, mixture), clients(loss), tol=1e-9, max_rounds=300)
    assert result.gap <= 1e-8
    return result.objective


class Plain:
    """F_s and its gradient at x = (w, b), from the formula."""

    def __init__(self, loss, data=None):
        self.loss = make_loss(loss)
        data = data or make_data(self.loss.task)
        self.A = [np.column_stack([X, np.ones(len(X))]) for X, _ in data]
        self.y = [y for _, y in data]
        self.S, self.d = len(data), self.A[0].shape[1]

    def z(self, s, x):
        score = self.A[s] @ x
        return self.y[s] * score if self.loss.task == "classification" else score - self.y[s]

    def value(self, s, x):
        return self.loss.value(self.z(s, x)).mean()

    def values(self, x):
        return np.array([self.value(s, x) for s in range(self.S)])

    def gradient(self, s, x):
        slope = self.loss.slope(self.z(s, x))
        if self.loss.task == "classification":
            slope = slope * self.y[s]
        return self.A[s].T @ slope / len(slope)

    def gradients(self, x):
        return np.array([self.gradient(s, x) for s in range(self.S)])

    def walk(self, s, x, steps, eta, extra=lambda v: 0.0):
        models = [x]
        for _ in range(steps):
            v = models[-1]
            models.append(v - eta * (self.gradient(s, v) + extra(v)))
        return models[1:]


class Listening(SerialEngine):
    """Keeps all that crosses, and may lose some of it."""

    def __init__(self, lose=lambda name, round: False):
        super().__init__(debug=True)
        self.rounds, self.lose = [], lose

    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        for name, message in messages.items():
            if self.lose(name, message.round):
                del answers.replies[name]
                answers.failures[name] = "deadline"
        self.rounds.append((dict(messages), dict(answers.replies)))
        return answers


def model_of(result):
    return np.append(result.coef, result.intercept)
