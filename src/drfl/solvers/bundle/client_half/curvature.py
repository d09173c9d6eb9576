r"""Curvature at a client: how the mean slope changes around a point, and how it is packed.

Smooth losses have an exact Hessian. For a loss with kinks the density of rows around a kink stands
in for it: rows within h of a kink count with weight 1/(2h), h being half the root mean square move
of the margins since the last round (at least what holds 2 % of the rows). It is only a metric:
whatever it is, cuts and certificate stay exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.bundle.client_half.evaluation import Evaluation
from drfl.wire.schema import lower_triangle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import flip_gain

WINDOW = 0.5
LEAST_SHARE = 0.02
RANK = 32
GRAM_ROWS = 1_000_000  # rows that are enough for the curvature of a loss with kinks
NONE_ABOVE = 2000  # coefficients: no curvature
SAMPLE = 65_536  # rows that tell how wide a window is; a hundredth of them would do for a metric


def may_curve(site: Site) -> bool:
    """Whether curvature may leave the client, and is worth it."""
    return site.policy.curvature and site.n_features * (site.problem.classes or 1) <= NONE_ABOVE


def sampled(m: Array) -> Array:
    """The arguments of all rows or, of many, of some that are evenly spread: a evaluator."""
    return m[:: _stride(len(m))]


def _stride(n_rows: int) -> int:
    return 1 + (n_rows - 1) // SAMPLE


def density(oracle: Oracle, m: Array, previous: Array | None) -> Array:
    """The second derivative of each row's loss with respect to its argument, or its stand-in.

    ``previous`` are the arguments of the last round, `sampled`.
    """
    loss, d = oracle.loss, np.empty(len(m))
    h = _window(oracle, sampled(m), previous) if loss.kinks else 0.0
    for block in oracle.rows.blocks():
        if not loss.kinks:
            d[block] = loss.curvature(m[block])
            continue
        d[block] = 0.0
        for kink in loss.kinks:
            d[block] += (np.abs(m[block] - kink) <= h) / (2.0 * h)
    return d


def _window(oracle: Oracle, some: Array, previous: Array | None) -> float:
    """Up to which distance from a kink rows count."""
    distances = [np.abs(some - kink) for kink in oracle.loss.kinks]
    nearest = np.minimum.reduce(distances)
    k = min(len(some), max(2, int(LEAST_SHARE * len(some)))) - 1
    least, most = float(np.partition(nearest, k)[k]), max(float(d.max()) for d in distances)
    h = most if previous is None else WINDOW * _rms(oracle, some - previous)
    return max(min(max(h, least), most), 1e-9)


def hessian(
    oracle: Oracle, at: Evaluation, d: Array, previous: Array | None, dimension: int
) -> Array:
    r""":math:`\sum_ip_id_i(x_i,1)(x_i,1)^T`, plus what flipping rows contributes.

    Split flips contribute nothing: their own cuts say where labels turn, and with more curvature
    than the loss has the steps would not be Newton's any more.
    """
    rows = oracle.rows
    # Without kinks steps are Newton's, and every digit counts; a window of rows is rough anyway.
    every = max(1, rows.n_rows // GRAM_ROWS) if oracle.loss.kinks else 1
    H = rows.gram(d * rows.mass(), every=every)
    if at.flipped > 0.0 and not at.split and previous is not None:
        H += _flip_curvature(oracle, at, previous)
    return H[:dimension, :dimension]


def _flip_curvature(oracle: Oracle, at: Evaluation, previous: Array) -> Array:
    """The rows that are next to flip or to flip back, around their mean.

    A fixed budget of flips only changes hands, hence the mean is taken out.
    """
    rows, loss, m = oracle.rows, oracle.loss, at.arguments
    k = max(2, int(at.flipped))
    away, price = np.empty(len(m)), oracle.ball.label_cost * at.multiplier
    for block in rows.blocks():
        away[block] = np.abs(flip_gain(loss, m[block]) - price)
    near = np.argpartition(away, min(k, len(away)) - 1)[:k]
    h = max(float(away[near].max()), 0.05 * _rms(oracle, sampled(m) - previous), 1e-6)
    turn = -rows.y[near] * (loss.slope(-m[near]) + loss.slope(m[near]))
    A = np.column_stack([rows.take(near), np.ones(len(near))]) * turn[:, None]
    A -= A.mean(axis=0)
    curvature: Array = A.T @ A / (2.0 * h * rows.n_rows)
    return curvature


def sketch(oracle: Oracle, d: Array, dimension: int) -> Array:
    r"""Columns (dimension, RANK + 1): a factor F and a diagonal D, :math:`H\approx FF^\top+D`.

    F is the Nystrom factor of rank RANK, two passes per column; D is what it misses on the
    diagonal, without which all other directions would look flat. The test
    vectors are the same for all clients and rounds, so that sketches add up.
    """
    rows = oracle.rows
    tests = np.random.default_rng(0).standard_normal((dimension, RANK))
    weighted = d * rows.mass()
    Y = np.empty_like(tests)
    for k, v in enumerate(tests.T):
        w, b = v[: rows.n_features], float(v[rows.n_features :].sum())
        g, gb = rows.combine(weighted * rows.scores(w, b))
        Y[:, k] = np.append(g, gb)[:dimension]
    core = tests.T @ Y
    shift = 1e-8 * max(float(np.trace(core)), 1e-300)
    L = np.linalg.cholesky(0.5 * (core + core.T) + shift * np.eye(RANK))
    F = np.linalg.solve(L, Y.T).T
    missed = rows.gram_diagonal(weighted)[:dimension] - (F * F).sum(axis=1)
    return np.column_stack([F, np.maximum(missed, 0.0)])


def unpack_sketch(factor: NDArray[np.float32]) -> Array:
    """H from its sketch."""
    F, diagonal = np.split(factor.astype(np.float64), [-1], axis=1)
    return F @ F.T + np.diag(diagonal[:, 0])


def pack_factor(H: Array) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """A Cholesky factor of the scaled H in float16, and the scales: positive whatever the rounding.

    (float16 of H itself would be indefinite.)
    """
    top = max(float(np.diag(H).max(initial=0.0)), 1e-300)
    scale = np.sqrt(np.maximum(np.diag(H), 1e-12 * top))
    R = np.linalg.cholesky(H / np.outer(scale, scale) + 1e-6 * np.eye(len(H)))
    return R[lower_triangle(len(H))].astype(np.float16), scale.astype(np.float32)


def unpack_factor(factor: NDArray[np.float16], scale: NDArray[np.float32]) -> Array:
    """H from its factor; of several the last axis is that of one."""
    d = scale.shape[-1]
    R = np.zeros((*scale.shape, d))
    R[..., *lower_triangle(d)] = factor
    R *= scale.astype(np.float64)[..., None]
    if R.ndim == 2:
        return R @ R.T
    return np.array([unpacked @ unpacked.T for unpacked in R.reshape(-1, d, d)]).reshape(R.shape)


def _rms(oracle: Oracle, move: Array) -> float:
    """The root mean square of what is known of a sample, by the masses of its rows."""
    step = _stride(oracle.rows.n_rows)
    return float(np.sqrt(step * oracle.rows.mean(move * move, slice(None, None, step))))
