r"""The client's half for several classes at once: cuts, curvature and dual cuts of K scores.

With :math:`u(x,\lambda)=\sum_ip_i\max_{y'}\{\ell(z_i,y')-\kappa\lambda[y'\ne y_i]\}` it is as for
one score. Where what a new label adds is linear in the scores, as for the cross-entropy, it has
cuts of its own. The curvature :math:`\sum_ip_i(\mathrm{diag}\,p_i-p_ip_i^\top)\otimes a_ia_i^\top`,
:math:`a_i=(x_i,1)`, is a sum over pairs of classes

.. math:: \sum_{j<k}(e_j-e_k)(e_j-e_k)^\top\otimes A_{jk},\qquad
          A_{jk}=\sum_ip_i\,p_{ij}p_{ik}\,a_ia_i^\top,

and the matrices :math:`A_{jk}` are what travels: half as many numbers as the whole has, and
semidefinite whatever the rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses.joint import gain, less_own, softmax, turn
from drfl.solvers.bundle.client_half.curvature import (
    LEAST_SHARE,
    WINDOW,
    sampled,
)
from drfl.solvers.bundle.client_half.evaluation import Evaluation, Evaluator
from drfl.solvers.bundle.client_half.level_cuts import reduced
from drfl.wire.schema import pack_triangle, unpack_triangle
from drfl.worst_case.joint import JointOracle
from drfl.worst_case.joint_intercepts import balanced, joint_balance
from drfl.worst_case.whole_space import Flips

if TYPE_CHECKING:
    from drfl.solvers.bundle.client_cache import Cached
    from drfl.solvers.bundle.messages import Dual


NOTHING = 1e-10  # relative: a curvature in intercepts that is smaller is rounding


class JointEvaluator(Evaluator):
    """Cuts in (W, b), and in lambda where labels move."""

    oracle: JointOracle

    def __init__(self, oracle: JointOracle, *, split: bool) -> None:
        super().__init__(oracle)
        self.splits = split and oracle.labels_move and oracle.loss.linear_gain

    def values(self, at: Evaluation) -> list[float]:
        return super().values(at) if self.oracle.labels_move else [at.value]

    def model(self, x: Array) -> tuple[Array, Array]:
        """W (K, n) and b (K,) of x."""
        K, n = self.oracle.classes, self.rows.n_features
        b = x[K * n :]
        return x[: K * n].reshape(K, n), b if len(b) else np.zeros(K)

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        oracle, loss, y = self.oracle, self.oracle.loss, self.oracle.y
        W, b = self.model(x)
        z = self.rows.scores_many(W, b)
        losses, v = loss.value(z, y), loss.slope(z, y)
        lam, radius = oracle.gauge.value(x), oracle.ball.radius
        share = self.shares(groups)[0]
        if not oracle.labels_move:
            cuts = self._cuts(losses, v, x, groups)
            value = self.rows.mean(losses) + radius * lam
            return Evaluation(value, lam, cuts, share, z.T)
        gains, target = gain(loss, z, y)
        flips = oracle.flips(gains, lam)
        lam = flips.multiplier
        more, dv, turned = self._turned(z, gains, target, flips)
        value = self.rows.mean(losses) + self.rows.mean(more) + radius * lam
        if self.splits:
            none = np.zeros(len(losses))
            both = [(losses, v, none), (more, dv, turned)]
        else:
            both = [(losses + more, v + dv, turned)]
        cuts = np.vstack([self._cuts(a, s, x, groups, lam, t) for a, s, t in both])
        return Evaluation(value, lam, cuts, share, z.T, float(turned.sum()), split=self.splits)

    def _turned(
        self, z: Array, gains: Array, target: NDArray[np.intp], flips: Flips
    ) -> tuple[Array, Array, Array]:
        """What moved labels add to losses (N,) and slopes (K, N), and who moves (N,)."""
        at = flips.rows
        more, dv, turned = np.zeros(z.shape[1]), np.zeros(z.shape), np.zeros(z.shape[1])
        turned[at] = flips.share
        dv[:, at] = flips.share * turn(self.oracle.loss, z[:, at], self.oracle.y[at], target[at])
        price = self.oracle.ball.label_cost * flips.multiplier
        more[at] = np.maximum(gains[at] - price, 0.0)
        return more, dv, turned

    def _cuts(
        self,
        losses: Array,
        v: Array,
        x: Array,
        groups: int,
        lam: float = 0.0,
        turned: Array | None = None,
    ) -> Array:
        """One cut per group (G, c): of levels (N,) and slopes in the scores (K, N) at x."""
        safe = self.shares(groups)[1]
        g, gb = self.rows.combine_many(v * self.rows.mass(), groups)
        flat = np.moveaxis(g, 0, 1).reshape(groups, -1)
        g = np.column_stack([flat, gb.T])[:, : len(x)] / safe[:, None]
        level = self.sums(losses, groups) / safe - g @ x
        if turned is None:
            return np.column_stack([level, g])
        slope = -self.oracle.ball.label_cost * self.sums(turned, groups) / safe
        return np.column_stack([level - slope * lam, slope, g])

    def curvature(
        self, at: Evaluation, before: Array | None, dimension: int
    ) -> NDArray[np.float32]:
        """The matrices of all pairs, packed: E triangles one after the other."""
        size = dimension // self.oracle.classes
        pairs = self._pairs(at, before)
        return np.concatenate([pack_triangle(A[:size, :size]) for A in pairs])

    def _pairs(self, at: Evaluation, before: Array | None) -> Iterator[Array]:
        """The matrices of all pairs, (n + 1, n + 1) each."""
        oracle, z = self.oracle, np.ascontiguousarray(at.arguments.T)
        p, tau = oracle.loss.shares(z, oracle.y, self._width(at.arguments, before))
        weight = np.asarray(self.rows.mass()) / tau
        j, k = np.triu_indices(oracle.classes, 1)
        return (self.rows.gram(weight * p[a] * p[b]) for a, b in zip(j, k, strict=True))

    def _width(self, scores: Array, before: Array | None) -> float:
        """How far from a kink rows count: half the move of the scores since the last round."""
        loss = self.oracle.loss
        if not loss.kinks:
            return 1.0
        some = sampled(scores)
        apart = loss.distances(some.T, sampled(self.rows.y).astype(np.intp))
        k = min(len(apart), max(2, int(LEAST_SHARE * len(apart)))) - 1
        least, most = float(np.partition(apart, k)[k]), max(float(apart.max()), 1.0)
        if before is None:
            return most
        moved = WINDOW * float(np.sqrt(2.0 * np.mean((some - before) ** 2)))
        return max(min(max(moved, least), most), 1e-9)

    def mixed_cut(self, dual: Dual, curved: Cached, old: Sequence[Cached]) -> Array:
        r"""The cut of the master's dual point, moved along the curvature: (c, g), (1 + d,).

        :math:`p_i=\sum_ka_kp_{ik}+(\mathrm{diag}\,p-pp^\top)\,\partial z_i[\mathrm{shift}]`,
        brought back into the simplex.
        """
        rows, loss, y, K = self.rows, self.oracle.loss, self.oracle.y, self.oracle.classes
        W, b = self._all_models(dual, curved, old)
        constant = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal constant
            p = _mixed_shares(z.reshape(-1, K, z.shape[1]), dual, old, block)
            constant += rows.mean(loss.level(p, y[block]), block)
            z[:] = 0.0
            z[:K] = less_own(p, y[block]) * rows.mass(block)
            return z

        g, gb = rows.sweep_many(W, b, visit)
        return np.append(constant, np.append(g[:K].ravel(), gb[:K])[: len(curved.x)])

    def _all_models(self, dual: Dual, curved: Cached, old: Sequence[Cached]) -> tuple[Array, Array]:
        """The models at which shares are needed, one below the other."""
        models = [self.model(x) for x in (curved.x + dual.shift, curved.x, *(at.x for at in old))]
        return np.concatenate([m[0] for m in models]), np.concatenate([m[1] for m in models])


class OwnJointEvaluator(JointEvaluator):
    """Evaluates W at the client's own intercepts, where every client has some; labels stay.

    Its rows are one group, since slopes in b cancel over all rows only.
    """

    def __init__(self, oracle: JointOracle) -> None:
        super().__init__(oracle, split=False)

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        oracle, loss, y = self.oracle, self.oracle.loss, self.oracle.y
        z = self.rows.scores_many(*self.model(x))
        own = joint_balance(oracle, z)
        z += own.b[:, None]
        lam = oracle.gauge.value(x)
        value = self.rows.mean(loss.value(z, y)) + oracle.ball.radius * lam
        cut = self._level_cut(own.shares)[None]
        return Evaluation(value, lam, cut, np.ones(1), z.T, intercept=own.b)

    def _level_cut(self, shares: Array) -> Array:
        """The cut (1 + d,) of shares (K, N) that have the means of the classes."""
        constant = self.rows.mean(self.oracle.loss.level(shares, self.oracle.y))
        v = less_own(shares, self.oracle.y) * self.rows.mass()
        return np.append(constant, self.rows.combine_many(v)[0][:, 0].ravel())

    def curvature(
        self, at: Evaluation, before: Array | None, dimension: int
    ) -> NDArray[np.float32]:
        """That of W with the intercepts following it, packed: one triangle."""
        H = of_pairs(list(self._pairs(at, before)), self.oracle.classes, dimension)
        cross, own = H[:dimension, dimension:], H[dimension:, dimension:]
        # The common constant, and classes of which nothing is left here, move nothing.
        inverse = np.linalg.pinv(own, rcond=NOTHING, hermitian=True)
        return pack_triangle(reduced(H[:dimension, :dimension], cross @ inverse @ cross.T))

    def mixed_cut(self, dual: Dual, curved: Cached, old: Sequence[Cached]) -> Array:
        """The same, tilted until the shares have the means of the classes."""
        rows, K = self.rows, self.oracle.classes
        W, b = self._all_models(dual, curved, old)
        b += np.concatenate([at.intercept for at in (curved, curved, *old)])
        z = rows.scores_many(W, b).reshape(-1, K, rows.n_rows)
        p = _mixed_shares(z, dual, old, slice(0, None))
        masses = np.broadcast_to(np.asarray(rows.mass()), (rows.n_rows,))
        logs = np.log(np.maximum(p, np.finfo(np.float64).tiny))
        return self._level_cut(balanced(logs, masses, self.oracle.class_masses)[1])


def _mixed_shares(z: Array, dual: Dual, old: Sequence[Cached], block: slice) -> Array:
    """The shares (K, m) of the master's dual point; z (P, K, m) at the points they come from."""
    here, move = softmax(z[1]), z[0] - z[1]
    p = here * (move - (here * move).sum(axis=0))
    for at, weight, own in zip(old, dual.weights, z[2:], strict=True):
        q = softmax(own)
        for k in range(at.groups):
            q[:, (k - block.start) % at.groups :: at.groups] *= weight[k]
        p += q
    p = np.maximum(p, 0.0)
    return np.asarray(p / np.maximum(p.sum(axis=0), 1e-300))


def unpack_pairs(packed: NDArray[np.float32], classes: int, dimension: int) -> list[Array]:
    """The matrices of all pairs; the last axis is that of one client and point."""
    parts = np.split(packed, pairs(classes), axis=-1)
    return [unpack_triangle(part, dimension // classes) for part in parts]


def pairs(classes: int) -> int:
    """How many pairs of classes there are."""
    return classes * (classes - 1) // 2


def packed_length(classes: int, dimension: int) -> int:
    """How many numbers the curvature of K classes takes."""
    size = dimension // classes
    return pairs(classes) * size * (size + 1) // 2


def of_pairs(matrices: Sequence[Array], classes: int, n: int) -> Array:
    """The whole curvature (d, d), in the order of x: W row by row (n numbers), then b."""
    K, size = classes, len(matrices[0])
    H = np.zeros((K, size, K, size))
    for A, j, k in zip(matrices, *np.triu_indices(K, 1), strict=True):
        H[j, :, j] += A
        H[k, :, k] += A
        H[j, :, k] -= A
        H[k, :, j] -= A
    columns = n // K
    place = np.arange(K * size).reshape(K, size)
    order = np.concatenate([place[:, :columns].ravel(), place[:, columns:].ravel()])
    return np.asarray(H.reshape(K * size, K * size)[np.ix_(order, order)])
