"""Checkers that raise AssertionError with the numbers: gradients, convexity, optimality."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], float]


def assert_subgradient(
    f: Function,
    x: Array,
    g: Array,
    rng: np.random.Generator,
    *,
    distances: tuple[float, ...] = (1e-3, 1e-1, 1.0, 10.0),
    trials: int = 10,
    tol: float = 1e-9,
) -> None:
    r"""Check :math:`f(x') \ge f(x) + \langle g, x'-x\rangle` at random points x'.

    A wrong slope shows near x, a wrong value far away: hence several distances. Half of the
    directions are along axes, where a single wrong entry shows best. ``tol`` is relative to the
    numbers that are compared.
    """
    x, g = np.asarray(x, dtype=float), np.asarray(g, dtype=float)
    assert x.shape == g.shape, f"the point has shape {x.shape}, the subgradient {g.shape}"
    here = f(x)
    for distance in distances:
        for trial in range(trials):
            step = rng.normal(size=x.shape)
            if trial % 2:
                axis = rng.integers(x.size)
                step = np.where(np.arange(x.size) == axis, rng.choice([-1.0, 1.0]), 0.0)
            step *= distance / np.linalg.norm(step)
            there, line = f(x + step), here + float(g @ step)
            allowed = tol * max(1.0, abs(here), abs(there), abs(line))
            assert there >= line - allowed, (
                f"not a subgradient: f = {there:.12g} lies {line - there:.3g} below the tangent "
                f"at distance {distance}"
            )


def numeric_gradient(f: Function, x: Array, step: float = 1e-3) -> Array:
    """Return the gradient by central differences of order four."""
    x = np.asarray(x, dtype=float)
    gradient = np.empty_like(x)
    for j in range(x.size):
        e = np.zeros_like(x)
        e[j] = step
        near, far = f(x + e) - f(x - e), f(x + 2 * e) - f(x - 2 * e)
        gradient[j] = (8.0 * near - far) / (12.0 * step)
    return gradient


def assert_gradient(
    f: Function, x: Array, g: Array, *, step: float = 1e-3, tol: float = 1e-7
) -> None:
    """Check g against differences of order four; f must be smooth within two steps of x."""
    numeric = numeric_gradient(f, x, step)
    error = np.abs(numeric - g).max()
    assert error <= tol * max(1.0, np.abs(numeric).max()), (
        f"the gradient is off by {error:.3g}: given {np.asarray(g)}, by differences {numeric}"
    )


def assert_convex_on_segment(
    f: Function, a: Array, b: Array, *, points: int = 9, tol: float = 1e-9
) -> None:
    """Check that f lies below each of its chords between neighbours on the segment from a to b."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    values = np.array([f(a + t * (b - a)) for t in np.linspace(0.0, 1.0, points)])
    excess = values[1:-1] - (values[:-2] + values[2:]) / 2.0
    assert (excess <= tol * max(1.0, np.abs(values).max())).all(), (
        f"not convex: f exceeds a chord by {excess.max():.3g}"
    )


def assert_kkt(
    gradient: Array,
    x: Array,
    *,
    G: Array,
    h: Array,
    dual: Array,
    A: Array | None = None,
    b: Array | None = None,
    dual_eq: Array | None = None,
    tol: float = 1e-7,
) -> None:
    r"""Check that x minimises a convex f subject to :math:`Gx\le h,\ Ax=b`.

    ``gradient`` is that of f at x. The four conditions are checked by name: feasibility, sign of
    the multipliers, complementarity and stationarity
    :math:`\nabla f(x) + G^\top\mu + A^\top\nu = 0`.
    """
    slack = h - G @ x
    stationarity = gradient + G.T @ dual
    scale = max(1.0, np.abs(gradient).max(initial=0.0), np.abs(x).max(initial=0.0))
    residuals = {
        "feasibility": np.maximum(-slack, 0.0).max(initial=0.0),
        "sign of the multipliers": np.maximum(-dual, 0.0).max(initial=0.0),
        "complementarity": np.abs(dual * slack).max(initial=0.0),
    }
    if A is not None and b is not None and dual_eq is not None:
        residuals["equality"] = np.abs(A @ x - b).max(initial=0.0)
        stationarity = stationarity + A.T @ dual_eq
    residuals["stationarity"] = np.abs(stationarity).max(initial=0.0)
    for name, residual in residuals.items():
        assert residual <= tol * scale, f"{name} is violated by {residual:.3g}"
