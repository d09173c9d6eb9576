"""Runs under differential privacy whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import drfl
from drfl.privacy.dp import DifferentialPrivacy
from drfl.worst_case import make_oracle


@dataclass(frozen=True)
class Truth:
    """Rows, a problem and its optimum without noise."""

    problem: drfl.Problem
    data: list[tuple[np.ndarray, np.ndarray]]
    norm: float
    best: drfl.Result

    def clients(self, epsilon: float, seed: int) -> list[drfl.Client]:
        made = [
            DifferentialPrivacy(
                epsilon, norm=self.norm, draw=np.random.default_rng((seed, s)).standard_normal
            )
            for s in range(len(self.data))
        ]
        return [drfl.Client(f"s{s}", X, y, privacy=made[s]) for s, (X, y) in enumerate(self.data)]

    def run(self, epsilon: float, seed: int) -> drfl.Result:
        return drfl.solve(self.problem, self.clients(epsilon, seed), solver="private")

    def objective(self, result: drfl.Result) -> float:
        """The true value of a model."""
        values = [
            make_oracle(drfl.rows.Rows(X, y), self.problem.loss, self.problem.ball)
            .evaluate(result.coef, result.intercept)
            .value
            for X, y in self.data
        ]
        return float(np.mean(values))

    def holds(self, result: drfl.Result) -> bool:
        """Whether all that a run says of itself is true."""
        value, least = self.objective(result), self.best.lower_bound
        if value > result.objective:
            return False
        excess = result.history[-1].info["excess"]
        ours, theirs = (np.append(r.coef, r.intercept) for r in (result, self.best))
        if result.status.kind == "local" and np.linalg.norm(ours - theirs) > _radius(result):
            return True  # nothing is said of a model so far away
        tiny = 1e-9 * value
        return bool(value - least <= excess + tiny and result.lower_bound <= least + tiny)


def _radius(result: drfl.Result) -> float:
    return float(result.status.message.split("differ by at most ")[1].split(" ")[0])


def truth(
    n_rows: int,
    n: int,
    *,
    clients: int = 2,
    seed: int = 0,
    loss: str = "logistic",
    norm: str = "l2",
) -> Truth:
    """Normal rows, clipped beforehand so that the clipped problem is the problem."""
    rng = np.random.default_rng(0)
    w, data, limit = rng.normal(size=n), [], float(np.sqrt(n))
    w *= 1.5 / np.linalg.norm(w)
    problem = drfl.Problem(loss, drfl.Ball(0.005, "l2"))
    for _ in range(clients):
        X = rng.normal(size=(n_rows, n))
        X *= (limit / np.maximum(np.linalg.norm(X, axis=1), limit))[:, None]
        score = X @ (w + 0.1 * rng.normal(size=n)) + 0.3
        if problem.loss.task == "classification":
            y = np.where(rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0)
        else:
            y = np.clip(0.2 * score + 0.1 * rng.normal(size=n_rows), -1.0, 1.0)
        data.append((X, y))
    plain = [drfl.Client(f"s{s}", X, y) for s, (X, y) in enumerate(data)]
    return Truth(problem, data, limit, drfl.solve(problem, plain, tol=1e-8))
