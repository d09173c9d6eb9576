"""Seven methods on the same hospitals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.ball import Ball
from drfl.cli.console import Console
from drfl.client import Client
from drfl.mixture import Mixture
from drfl.problem import Problem
from drfl.result import Result
from drfl.run import solve
from drfl.tables.moments import added, moments_of
from drfl.training.problems import stated
from experiments.hospitals import NOISE, Hospital, hospitals

METHODS = ("local", "pooled", "erm", "afl", "drfa", "wafl", "drfl")
PROBLEM = Problem("hinge", Ball(radius=0.05), Mixture(radius=0.2))
TOL = 1e-4
"""Accuracies do not see more digits."""


@dataclass(frozen=True)
class Outcome:
    """How a method did, in the mean over the splits (the gap: at most).

    ``spread`` is the standard error of the mean accuracy without noise; NaN for one split.
    """

    method: str
    clean_mean: float
    clean_worst: float
    noisy_mean: float
    noisy_worst: float
    gap: float
    rounds: float
    kilobytes: float
    spread: float

    def facts(self) -> dict[str, Any]:
        """For the records."""
        return asdict(self)


def contest(splits: int, seed: int, console: Console) -> list[Outcome]:
    """Train every method on every split."""
    rows: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    for k in range(splits):
        found = hospitals(seed + k)
        for name in METHODS:
            console.note(f"split {k + 1} of {splits}: {name}")
            rows[name].append(_trial(name, found, np.random.default_rng([seed + k, 1])))
    console.clear()
    outcomes = []
    for name, values in rows.items():
        mean = np.mean(values, axis=0)
        mean[4] = np.max(values, axis=0)[4]
        clean = np.array(values)[:, 0]
        spread = float(clean.std(ddof=1) / np.sqrt(splits)) if splits > 1 else float("nan")
        outcomes.append(Outcome(name, *[*mean.tolist(), spread]))
    return outcomes


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The outcomes for a reader."""
    lines = [
        f"{'':8}  {'accuracy':>16}  {'under noise':>16}",
        f"{'method':8}  {'mean':>7}  {'worst':>7}  {'mean':>7}  {'worst':>7}  {'proved gap':>10}  "
        f"{'rounds':>6}  {'kB':>6}",
    ]
    return lines + [
        f"{o.method:8}  {o.clean_mean:>7.1%}  {o.clean_worst:>7.1%}  {o.noisy_mean:>7.1%}  "
        f"{o.noisy_worst:>7.1%}  {o.gap:>10.1e}  {o.rounds:>6.1f}  {o.kilobytes:>6.1f}"
        for o in outcomes
    ]


def _trial(name: str, found: Sequence[Hospital], rng: np.random.Generator) -> list[float]:
    """Accuracies clean and noisy, mean and worst; gap, rounds, kilobytes."""
    total = added([moments_of(h.train, None) for h in found])
    shift, scale = total.mean, total.deviation
    clients = [Client(h.name, h.train, h.train_y, shift=shift, scale=scale) for h in found]
    results = _results(name, found, clients)
    clean, noisy = [], []
    for k, hospital in enumerate(found):
        result = results[k % len(results)]
        x = (hospital.test - shift) / scale
        clean.append(_accuracy(result, x, hospital.test_y))
        noisy.append(_accuracy(result, x + NOISE * rng.normal(size=x.shape), hospital.test_y))
    sent = sum(sum(r.bytes_up.values()) + sum(r.bytes_down.values()) for r in results)
    apart = name in ("local", "pooled")
    return [
        float(np.mean(clean)),
        min(clean),
        float(np.mean(noisy)),
        min(noisy),
        max(result.gap for result in results),
        float(max(result.rounds for result in results)),
        0.0 if apart else sent / 1000,
    ]


def _results(name: str, found: Sequence[Hospital], clients: Sequence[Client]) -> list[Result]:
    rows = [len(h.train_y) for h in found]
    if name == "drfl":
        return [solve(PROBLEM, clients, tol=TOL)]
    if name not in ("local", "pooled"):
        problem, solver = stated(name, PROBLEM, rows, seed=0)
        return [solve(problem, clients, solver=solver, tol=TOL)]
    erm, solver = stated("erm", PROBLEM, rows, seed=0)
    groups = [[client] for client in clients]
    if name == "pooled":
        first = clients[0].rows
        X, y = (
            np.concatenate(parts)
            for parts in zip(*[(h.train, h.train_y) for h in found], strict=True)
        )
        groups = [[Client("all", X, y, shift=first.shift, scale=first.scale)]]
    return [solve(erm, group, solver=solver, tol=TOL) for group in groups]


def _accuracy(result: Result, x: Array, y: Array) -> float:
    return float(np.mean(np.where(x @ result.coef + result.intercept > 0.0, 1.0, -1.0) == y))
