r"""One point seen by one client: its rows linearised, ready to be summed into cuts.

On the whole space, with :math:`u(x,\lambda)=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`,

.. math:: F(x)=\min_{\lambda\ge\|w\|_*}\rho\lambda+u(x,\lambda),

and a tangent of u at :math:`(x,\lambda^*)` is a cut in x and :math:`\lambda`: the server keeps the
norm exact, so that cuts need not learn it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.losses import Array
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain


@dataclass(frozen=True)
class Linearisation:
    """Row by row; this never leaves the client.

    Attributes
    ----------
    value, multiplier : float
        F and lambda* at the point.
    arguments : (N,)
        Margins or residuals.
    slopes : (N,)
        Derivative of each row's part with respect to its argument, flips included.
    losses : (N,)
        Each row's part at lambda*.
    flipped : (N,) or None
        The share of each row that is flipped; None if no label moves.
    groups : int
        How many groups its cuts were made of.
    """

    value: float
    multiplier: float
    arguments: Array
    slopes: Array
    losses: Array
    flipped: Array | None
    groups: int

    @property
    def any_flip(self) -> bool:
        """Whether some label is flipped here."""
        return self.flipped is not None and bool(self.flipped.any())


def linearise(oracle: WholeSpaceOracle, w: Array, b: float, groups: int) -> Linearisation:
    """Evaluate all rows at (w, b): one pass over the data."""
    rows, loss, ball = oracle.rows, oracle.loss, oracle.ball
    m = oracle.arguments(rows.scores(w, b), rows.y)
    losses, slopes = loss.value_and_slope(m)
    norm = ball.norm.dual(w)
    if not oracle.labels_move:
        lam = oracle.fixed_multiplier(norm)[0]
        value = rows.mean(losses) + ball.radius * lam
        return Linearisation(value, lam, m, slopes, losses, None, groups)
    flips = oracle.flips(m, norm)
    lam, flipped = flips.multiplier, np.zeros(rows.n_rows)
    flipped[flips.rows] = flips.share
    mf = m[flips.rows]
    slopes[flips.rows] -= flips.share * (loss.slope(-mf) + slopes[flips.rows])
    losses[flips.rows] += np.maximum(flip_gain(loss, mf) - ball.label_cost * lam, 0.0)
    value = rows.mean(losses) + ball.radius * lam
    return Linearisation(value, lam, m, slopes, losses, flipped, groups)


def group_cuts(oracle: WholeSpaceOracle, at: Linearisation, x: Array) -> tuple[Array, Array]:
    r"""One cut per group: rows :math:`(c, \gamma_\lambda, g)`, and the shares of the groups.

    :math:`u_g(x',\lambda')\ge c+g^\top x'+\gamma_\lambda\lambda'`, a mean over the group's rows;
    :math:`\gamma_\lambda` is left out where no label moves.
    """
    rows, G = oracle.rows, at.groups
    p = np.broadcast_to(rows.mass(), (rows.n_rows,))
    share = _strided_sums(p, G)
    weight = p * at.slopes * (rows.y if oracle.is_margin else 1.0)
    g, gb = rows.group_sums(weight, G)
    g = np.column_stack([g, gb])[:, : len(x)]
    level = _strided_sums(p * at.losses, G)
    safe = np.where(share > 0.0, share, 1.0)  # a group of weightless rows says nothing
    g, level = g / safe[:, None], level / safe
    if at.flipped is None:
        return np.column_stack([level - g @ x, g]), share
    slope = -oracle.ball.label_cost * _strided_sums(p * at.flipped, G) / safe
    return np.column_stack([level - g @ x - slope * at.multiplier, slope, g]), share


def dual_cut(oracle: WholeSpaceOracle, slopes: Array, dimension: int) -> Array:
    r"""The cut :math:`\sum_ip_i\big(v_iz_i(x)-L^*(v_i)\big)` of any slopes v: (c, g) of shape (1 + d,).

    For regression :math:`z_i=\langle w,x_i\rangle+b-y_i`.
    """
    rows, loss = oracle.rows, oracle.loss
    v = np.clip(slopes, *loss.slope_range)
    value = -loss.conjugate(v)
    if not oracle.is_margin:
        value = value - v * rows.y
    p = np.broadcast_to(rows.mass(), (rows.n_rows,))
    g, gb = rows.combine(p * v * (rows.y if oracle.is_margin else 1.0))
    return np.concatenate([[rows.mean(value)], np.append(g, gb)[:dimension]])


def _strided_sums(values: Array, groups: int) -> Array:
    """Sums of values[k::groups]."""
    return np.array([values[k::groups].sum() for k in range(groups)])
