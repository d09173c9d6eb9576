r"""The best constant of a minorant with a given slope.

.. math:: C(g) = \max\Big\{\frac1N\sum_i-L^*(v_i):\ \frac1N\sum_iv_iz_i=g\Big\}
              = \min_x\ \frac1N\sum_iL(z_i(x))-\langle g,x\rangle,

so that the mean loss is at least :math:`C(g)+\langle g,x\rangle` everywhere. One number that a
server who knows the slope it needs can make a certificate of.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from drfl.arrays import Array
from drfl.worst_case.oracle import Oracle

MOST_ROWS = 50_000  # more rows need no such help, and their programs take long
NEWTON, HALVINGS = 60, 40
REFINEMENTS = 6
EXACT = 1e-13  # relative: how well the slope has to be met


def best_constant(oracle: Oracle, g: Array) -> float | None:
    """C(g) or a little less, g in w or in (w, b); None if no minorant has this slope."""
    rows = oracle.rows
    if rows.n_rows > MOST_ROWS:
        return None
    A = rows.take(slice(None))
    if len(g) > rows.n_features:
        A = np.column_stack([A, np.ones(len(A))])
    if oracle.is_margin:
        A *= rows.y[:, None]
    A /= rows.n_rows
    v = _linear(oracle, A, g) if oracle.loss.pieces else _smooth(oracle, A, g)
    v = None if v is None else _meet(oracle, A, g, v)
    if v is None:
        return None
    value = -oracle.loss.conjugate(v)
    return rows.mean(value if oracle.is_margin else value - v * rows.y)


def _linear(oracle: Oracle, A: Array, g: Array) -> Array | None:
    """Slopes of piecewise-linear losses: a linear program, the slopes in two nonnegative parts."""
    loss, N = oracle.loss, len(A)
    low, high = loss.slope_range
    ends = np.array([loss.conjugate(np.array([sign])).item() for sign in (1.0, -1.0)])
    shift = np.zeros(N) if oracle.is_margin else oracle.rows.y
    # The conjugate is linear on either side of 0.
    cost = np.concatenate([ends[0] + shift, ends[1] - shift]) / N
    bounds = [(0.0, max(high, 0.0))] * N + [(0.0, max(-low, 0.0))] * N
    scale = 1.0 / np.maximum(np.abs(A).sum(axis=0), 1e-300)
    found = linprog(
        cost,
        A_eq=np.hstack([A.T, -A.T]) * scale[:, None],
        b_eq=g * scale,
        bounds=bounds,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return None if found.x is None else np.asarray(found.x[:N] - found.x[N:])


def _smooth(oracle: Oracle, A: Array, g: Array) -> Array | None:
    """Slopes of smooth losses, from Newton's method on the other side of the duality."""
    loss, N = oracle.loss, len(A)
    offset = np.zeros(N) if oracle.is_margin else oracle.rows.y
    x = np.zeros(len(g))
    ridge = 1e-12 * float((A * A).sum()) * N

    def at(x: Array) -> tuple[float, Array]:
        z = N * (A @ x) - offset
        return float(loss.value(z).mean() - g @ x), z

    value, z = at(x)
    for _ in range(NEWTON):
        gradient = A.T @ loss.slope(z) - g
        if np.abs(gradient).max() <= 1e-11 * np.abs(A).sum(axis=0).max():
            return loss.slope(z)
        H = N * (A.T * loss.curvature(z)) @ A + ridge * np.eye(len(g))
        step = -np.linalg.solve(H, gradient)
        size = 1.0
        for _ in range(HALVINGS):
            tried, z_tried = at(x + size * step)
            if tried <= value + 0.25 * size * float(gradient @ step):
                break
            size *= 0.5
        x, value, z = x + size * step, tried, z_tried
    return loss.slope(z) if np.abs(gradient).max() <= 1e-6 else None


def _meet(oracle: Oracle, A: Array, g: Array, v: Array) -> Array | None:
    """Slopes near v that have the slope g to the last digits, within their domain."""
    low, high = oracle.loss.slope_range
    v = np.clip(v, low, high)
    scale = np.maximum(np.abs(A).sum(axis=0), 1e-300)
    for _ in range(REFINEMENTS):
        miss = (g - A.T @ v) / scale
        if np.abs(miss).max() <= EXACT:
            return v
        inside = np.flatnonzero((v > low + 1e-9) & (v < high - 1e-9))
        if not len(inside):
            return None
        change = np.linalg.lstsq(A[inside].T / scale[:, None], miss, rcond=None)[0]
        v[inside] = np.clip(v[inside] + change, low, high)
    return None
