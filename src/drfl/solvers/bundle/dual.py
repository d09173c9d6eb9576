r"""Dual cuts: for a smooth loss, what slopes between those of the points so far prove.

With the conjugate :math:`L^*` every slope v of the loss of a row gives :math:`L(z)\ge vz-L^*(v)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.exchange import Dual
from drfl.solvers.bundle.memory import Seen
from drfl.solvers.bundle.sight import View

Slopes = Callable[[slice, Sequence[Array]], Array]


def mixed_cut(
    view: View, dual: Dual, now: Array, centre: Seen, metric: Seen, old: Sequence[Seen]
) -> Array:
    r"""The cut of the master's dual point, moved along the curvature to the new point.

    :math:`v_i=\sum_k a_{k,\mathrm{group}(i)}v_{ik}+\sigma d_i(m_i-\hat m_i)`. Nothing of it was
    kept since the rounds before: arguments at all points are computed anew, in one pass.
    """
    loss = view.loss

    def slopes(block: slice, m: Sequence[Array]) -> Array:
        v = m[0] - m[1]
        v *= loss.curvature(m[2])
        v *= dual.sigma
        for at, weights, own in zip(old, dual.weights, m[3:], strict=True):
            slope = loss.slope(own)
            for k in range(at.groups):
                slope[(k - block.start) % at.groups :: at.groups] *= weights[k]
            v += slope
        return v

    points = np.array([now, centre.x, metric.x, *(at.x for at in old)])
    return dual_cut(view, points, slopes)


def dual_cut(view: View, points: Array, slopes: Slopes) -> Array:
    r"""The cut :math:`\sum_ip_i\big(v_iz_i(x)-L^*(v_i)\big)` of any slopes v: (c, g), (1 + d,).

    For regression :math:`z_i=\langle w,x_i\rangle+b-y_i`.

    Parameters
    ----------
    view : View
        How the client sees points.
    points : (K, d)
        Points at which arguments are needed.
    slopes : callable
        Makes slopes of a block and of its rows' arguments at the points.
    """
    rows, loss, d = view.rows, view.loss, points.shape[1]
    distinct, place = np.unique(points, axis=0, return_inverse=True)
    models = [view.split(x[: d - view.shared]) for x in distinct]
    W, b = np.array([w for w, _ in models]), np.array([b for _, b in models])
    constant = 0.0

    def visit(block: slice, z: Array) -> Array:
        nonlocal constant
        m = view.as_arguments(z, block)
        v = np.clip(slopes(block, [m[k] for k in place]), *loss.slope_range)
        value = -loss.conjugate(v)
        if not view.oracle.is_margin:
            value -= v * rows.y[block]
        constant += rows.mean(value, block)
        z[:] = 0.0
        z[0] = view.weighted(v, block)
        return z

    g, gb = rows.sweep_many(W, b, visit)
    size = d - view.shared
    cut = np.append(constant, np.append(g[0], gb[0])[:size])
    return np.pad(cut, (0, d - size))  # flips can only add: slope 0 in a shared lambda
