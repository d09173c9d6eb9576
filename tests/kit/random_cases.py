"""Random federated problems, the nasty ones included; a seed is a problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import drfl
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Loss, Pinball, SmoothHinge
from kit.cases import Case
from kit.problems import NASTY, box_around, polyhedron_around

Array = NDArray[np.float64]
Generator = np.random.Generator

LOSSES: tuple[Loss, ...] = (
    Hinge(),
    SmoothHinge(),
    Logistic(),
    Huber(0.02),
    Huber(1.35),
    Huber(5.0),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(0.1),
    Pinball(0.02),
    Pinball(0.5),
    Pinball(0.9),
)
# Each mixes units of its own into a column, which a box or a common scale would hide.
SCALED = ("tiny", "huge")


def random_case(seed: int) -> Case:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[rng.integers(len(LOSSES))]
    S, n = int(rng.choice([1, 2, 3, 5])), int(rng.integers(1, 5))
    scale = float(rng.choice([1.0, 1.0, 1.0, 1.0, 1.0, 1e-6, 1e6]))
    place = str(rng.choice(["whole", "whole", "whole", "box", "box", "open box", "polyhedron"]))
    norm = str(rng.choice(["l1", "l1", "l2", "linf"]))
    if place != "whole" and not loss.pieces:
        norm, place = "l1", "open box" if place == "open box" else "box"
    if place == "polyhedron":
        S, n, scale = min(S, 2), min(n, 3), 1.0  # oracles there are told apart by unit elsewhere
    data = _data(rng, loss.task, S, n, few=place == "polyhedron", bounded=place != "whole")
    data = tuple((scale * X, y) for X, y in data)
    support = _support(rng, place, loss.task, data, scale)
    return Case(
        loss,
        data,
        _balls(rng, S, norm, support, scale),
        _mixture(rng, S),
        intercept="shared" if rng.random() < 0.7 else "none",
        weights=_weights(rng, data) if rng.random() < 0.2 else None,
    )


def _data(
    rng: Generator, task: str, S: int, n: int, *, few: bool, bounded: bool
) -> tuple[tuple[Array, Array], ...]:
    """Clients that share a model, and some that do not."""
    model, made = rng.normal(size=n), []
    kinds = [kind for kind in NASTY if not (bounded and kind in SCALED)]
    nasty = rng.random() < 0.5
    for _ in range(S):
        if nasty and rng.random() < 0.6:
            made.append(NASTY[str(rng.choice(kinds))](task, rng, n))
            continue
        N = int(rng.integers(2, 7 if few else 25))
        X = rng.normal(size=(N, n)) + 0.3 * rng.normal(size=n)
        target = X @ model + rng.choice([0.1, 0.7]) * rng.normal(size=N)
        made.append((X, target if task == "regression" else np.where(target > 0.0, 1.0, -1.0)))
    if task == "classification" and rng.random() < 0.06:
        label = float(rng.choice([-1.0, 1.0]))
        made = [(X, np.full_like(y, label)) for X, y in made]
    return tuple(made)


def _support(
    rng: Generator, place: str, task: Any, data: tuple[tuple[Array, Array], ...], scale: float
) -> Any:
    X, y = np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])
    if place == "whole":
        return None
    if place == "polyhedron":
        made = polyhedron_around(rng, task, X / scale, y)
        C = made.C.copy()
        C[:, : X.shape[1]] /= scale
        return drfl.Polyhedron(C, made.d)
    infinite = 0.4 if place == "open box" else 0.0
    box = box_around(rng, task, X / scale, y, infinite=infinite)
    low, high = (scale * side for side in box.bounds(X.shape[1]))
    if task == "classification" or rng.random() < 0.5:
        return drfl.Box(low, high)
    return drfl.Box(low, high, box.y_low, box.y_high)


def _balls(rng: Generator, S: int, norm: str, support: Any, scale: float) -> tuple[drfl.Ball, ...]:
    """One radius and label cost for all, or one for each; some radii are 0, or all of them."""
    radii = rng.choice([0.001, 0.01, 0.1, 0.5, 1.0], S)
    costs = rng.choice([0.1, 0.5, 1.0, 10.0, math.inf], S)
    if rng.random() < 0.6:
        radii[:], costs[:] = radii[0], costs[0]
    if rng.random() < 0.2:
        radii[rng.random(S) < 0.5] = 0.0
    if rng.random() < 0.1:
        radii[:] = 0.0
    return tuple(
        drfl.Ball(scale * rho, norm, scale * kappa, support)
        for rho, kappa in zip(radii.tolist(), costs.tolist(), strict=True)
    )


def _mixture(rng: Generator, S: int) -> drfl.Mixture:
    center: Any = str(rng.choice(["uniform", "uniform", "proportional", "given"]))
    if center == "given":
        center = rng.dirichlet(np.ones(S))
        if S > 1 and rng.random() < 0.3:
            center[0] = 0.0
            center /= center.sum()
    radius = float(rng.choice([0.0, 0.05, 0.3, 1.0, math.inf]))
    return drfl.Mixture(center, radius, [1, 2, math.inf][rng.integers(3)])


def _weights(rng: Generator, data: tuple[tuple[Array, Array], ...]) -> tuple[Array | None, ...]:
    """Uneven weights of the rows, one of them 0 where there are several."""
    made: list[Array | None] = []
    for X, _ in data:
        weight = rng.exponential(size=len(X)) + 0.01
        if len(X) > 2:
            weight[0] = 0.0
        made.append(weight)
    return tuple(made)
