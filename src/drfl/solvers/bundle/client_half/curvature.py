r"""Curvature at a client: how the mean slope changes around a point, and how it is packed.

Smooth losses have an exact Hessian. For a loss with kinks the density of rows around a kink stands
in for it: rows within h of a kink count with weight 1/(2h), h being half the root mean square move
of the margins since the last round (at least what holds 2 % of the rows). It is only a metric:
whatever it is, cuts and certificate stay exact. Of a smooth loss it can be told how far it is
certain (`reaches`), and then it proves something: `drfl.solvers.certificate.curved`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.base import MOST_CURVED
from drfl.solvers.bundle.client_half.evaluation import Evaluation
from drfl.wire.schema import as_lower, triangle_of
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

WINDOW = 0.5
LEAST_SHARE = 0.02
RANK = 32
GRAM_ROWS = 1_000_000  # rows that are enough for the curvature of a loss with kinks
REACHES, SHRINK = 7, 0.25  # how many, and each as a share of the one before
WORTHWHILE = 0.3  # a factor with which curvature proves enough
FLAT = 1e-6  # rows with less than this share of the largest curvature do not count
NULL = 1e-11  # eigenvalues below this share of the largest are those of columns that are not there
ROUNDING = 1e-9  # what rows may have of such directions
SURE = 1e-3  # a part of every factor and radius is left to rounding
SAMPLE = 65_536  # rows that tell how wide a window is; a hundredth of them would do for a metric


def may_curve(site: Site) -> bool:
    """Whether curvature may leave the client, and is worth it."""
    return site.policy.curvature and site.n_features * (site.problem.classes or 1) <= MOST_CURVED


def may_reach(site: Site, at: Evaluation) -> bool:
    """Whether it can be told how far curvature is certain: of one smooth sum of losses.

    And not from rows in single precision, of whose slopes seven digits are known.
    """
    oracle, problem = site.oracle, site.problem
    if problem.classes is not None or problem.own_intercepts or problem.shared_ball:
        return False
    whole = isinstance(oracle, WholeSpaceOracle) and oracle.rows.X.dtype == np.float64
    return whole and oracle.loss.curvature_bound > 0.0 and bool(at.split or not at.flipped)


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


def reaches(oracle: Oracle, m: Array, H: Array, wanted: float) -> Array | None:
    r"""Pairs (R, c) (J, 2): within :math:`|d|_H\le R` the curvature is at least cH.

    Scores move by at most :math:`\ell R`, :math:`\ell^2=\max_ix_i^\top H^+x_i` over the rows that
    count. Where they move by at most :math:`\tau`, a row keeps the curvature
    :math:`k_i=\min L''(m_i\pm\tau)`: L'' rises to one peak and falls. And
    :math:`\sum p_ik_ix_ix_i^\top\ge cH` with the larger of :math:`\min_ik_i/L''(m_i)` and
    :math:`1-\sum p_i(L''(m_i)-k_i)\,x_i^\top H^+x_i`. None if no R is as
    large as wanted, or if H is too nearly singular to tell.
    """
    loss, rows = oracle.loss, oracle.rows
    lever = _Lever.of(H, rows.n_features)
    width = (loss.slope_range[1] - loss.slope_range[0]) / loss.curvature_bound
    moves = width * SHRINK ** np.arange(1.0, REACHES + 1.0)
    longest, flat, lost, least = 0.0, 0.0, np.zeros(REACHES), np.ones(REACHES)
    for block, A in rows.dense_blocks():
        p, z = np.broadcast_to(rows.mass(block), len(A)), m[block]
        curved = np.where(p > 0.0, loss.curvature(z), 0.0)
        counts, leverage = curved >= FLAT * loss.curvature_bound, lever.leverages(A)
        if np.isnan(leverage[curved > 0.0]).any():
            return None
        leverage = np.where(curved > 0.0, leverage, 0.0)
        longest = max(longest, float(leverage[counts].max(initial=0.0)))
        flat += float((p * curved * leverage)[~counts].sum())
        for j, tau in enumerate(moves):
            kept = np.minimum(loss.curvature(z - tau), loss.curvature(z + tau))
            kept = np.where(counts, np.minimum(kept, curved), 0.0)
            lost[j] += float((p * (curved - kept)) @ leverage)
            least[j] = min(least[j], (kept[counts] / curved[counts]).min(initial=1.0))
    factors = (1.0 - SURE) * np.clip(np.maximum(least - flat, 1.0 - lost), 0.0, 1.0)
    radii = (1.0 - SURE) * moves / math.sqrt(max(longest, 1e-300))
    enough = longest > 0.0 and (radii[factors >= WORTHWHILE] >= wanted).any()
    return np.column_stack([radii, factors]) if enough else None


@dataclass(frozen=True)
class _Lever:
    """The eigenvectors of H in units of its diagonal, those of H apart from those of rounding."""

    units: Array
    weights: Array
    n: int

    @classmethod
    def of(cls, H: Array, n: int) -> _Lever:
        diagonal = np.diag(H)
        scale = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        w, V = np.linalg.eigh(H / np.outer(scale, scale))
        kept = w > NULL * w[-1]
        return cls(V / scale[:, None], np.where(kept, 1.0 / np.where(kept, w, 1.0), 0.0), n)

    def leverages(self, A: Array) -> Array:
        r""":math:`x^\top H^+x` of rows (m, n); NaN for rows with more than rounding beyond H."""
        Z = A @ self.units[: self.n]
        if len(self.units) > self.n:
            Z += self.units[self.n]
        Z *= Z
        beyond = Z[:, self.weights == 0.0].sum(axis=1) > ROUNDING**2 * Z.sum(axis=1)
        return np.where(beyond, np.nan, Z @ self.weights)


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
    return triangle_of(R).astype(np.float16), scale.astype(np.float32)


def unpack_factor(factor: NDArray[np.float16], scale: NDArray[np.float32]) -> Array:
    """H from its factor; of several the last axis is that of one."""
    d = scale.shape[-1]
    R = as_lower(factor, d)
    R *= scale.astype(np.float64)[..., None]
    return np.asarray(R @ np.swapaxes(R, -1, -2))


def _rms(oracle: Oracle, move: Array) -> float:
    """The root mean square of what is known of a sample, by the masses of its rows."""
    step = _stride(oracle.rows.n_rows)
    return float(np.sqrt(step * oracle.rows.mean(move * move, slice(None, None, step))))
