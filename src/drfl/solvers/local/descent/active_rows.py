r"""Losses with one sharp corner and few rows per column: which rows stand in the corner.

With slopes :math:`v_i` of the losses, signs :math:`e_i` (y for margins, 1 for residuals) and
:math:`\beta_i=-p_iv_ie_i`, the optimum of :math:`\sum_ip_iL(z_i)+\rho\|w\|_2` away from w = 0 has

.. math:: cw=\sum_i\beta_ix_i,\qquad\Big\|\sum_i\beta_ix_i\Big\|_2=\rho,\qquad\sum_i\beta_i=0,

the last with an intercept. A row on a line of its loss has the line's slope. A row in the corner
has the score :math:`t_i` of the corner instead. If it is known who is where, that is a linear
system in the free :math:`\beta`, in cb and in c, with the products :math:`K=XX^\top` of the rows:

.. math:: (K_{FF}+\tau D)\beta_F+cb=ct_F-K_{FU}\beta_U+\tau D\beta_F^{\mathrm{last}},
          \qquad D_{ii}=K_{ii},

and the norm of the sum gives c. A step solves it; :math:`\tau`, which keeps steps short, falls to
nothing. Who is where is then read from :math:`z_i+\mu_iv_i` with :math:`\mu_i=3p_iK_{ii}/c`, as a
proximal method would (primal-dual active sets; Hintermüller, Ito and Kunisch 2002). Nothing proves
that it comes to an end: after some steps others take over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.solvers.local.cones import diagonal
from drfl.solvers.local.program import AllRows, Program

MOST_ROWS = 4000  # the products of all rows are kept
STEPS = 30
SHORT, LONGER = 0.3, 0.6  # tau at first, and what a step leaves of it
LEAST = 1e-10  # of tau, where rows in the corner are not independent
APART = 3.0  # of mu
FAST = 10.0  # by at most this factor a step changes c
LADDER = 2.0 ** np.arange(-6.0, 7.0)  # how far to go at first; at 1 scores are as large as targets


def has_one_corner(loss: Loss) -> bool:
    """Whether a loss is made of two lines."""
    return len(loss.pieces) == 2


class ActiveRows:
    """The search; see above.

    Attributes
    ----------
    mass, sign, corner : (N,)
        p, e and t.
    low, high, kink : float
        The slopes of the two lines, and where they meet.
    """

    def __init__(self, program: Program, rows: AllRows) -> None:
        self.program, self.rows = program, rows
        self.has_intercept = program.d > program.n
        q = program.mixture.weights
        self.rho, self.mass = float(q @ program.rho), np.broadcast_to(rows.mass(q), (rows.size,))
        (self.low, above), (self.high, below) = sorted(program.loss.pieces)
        self.kink = (above - below) / (self.high - self.low)
        self.sign = rows.y if program.margin else np.ones(rows.size)
        self.corner = self.sign * self.kink if program.margin else rows.y + self.kink
        self.K = rows.products()

    def models(self) -> Iterator[tuple[Array, float, Array, Array]]:
        """Models (w, b), with the arguments z and slopes v of the losses of all rows."""
        found = self._start() if self.mass.min() > 0.0 else None
        tau = SHORT
        for _ in range(STEPS):
            if found is None:
                return
            z, v, c = found
            solution = self._solved(*self._places(z, v, c), -self.mass * self.sign * v, c, tau)
            if solution is None:
                return
            beta, b, c = solution
            w = self.rows.combine(beta)[0] / c
            v = np.clip(-beta * self.sign / self.mass, self.low, self.high)
            found = self.rows.margins(w, b), v, c
            tau *= LONGER
            yield w, b, found[0], v

    def _start(self) -> tuple[Array, Array, float] | None:
        """Arguments, slopes and c on the way along the slope at w = 0; None: there is no way."""
        z, loss = self.rows.at_zero(), self.program.loss
        v = loss.slope(z)
        beta = -self.mass * v * self.sign
        way = self.rows.combine(beta - beta.mean() if self.has_intercept else beta)[0]
        size, ahead = float(np.linalg.norm(way)), self.sign * self.rows.scores(way, 0.0)
        speed = float(np.abs(ahead).mean())
        if not (size > self.rho and speed > 0.0):
            return None
        unit = 1.0 if self.program.margin else float(np.abs(z).mean())
        ways = (unit / speed * LADDER).tolist()
        values = [float(self.mass @ loss.value(z + t * ahead)) + self.rho * t * size for t in ways]
        t = ways[int(np.argmin(values))]
        return z + t * ahead, v, self.rho / (t * size)

    def _places(self, z: Array, v: Array, c: float) -> tuple[NDArray[np.intp], Array]:
        """Who is in the corner, and the slopes of the others."""
        mu = APART * self.mass * diagonal(self.K) / c
        away = z + mu * v - self.kink
        above = away > mu * self.high
        free = np.flatnonzero((away > mu * self.low) & ~above)
        return free, np.where(above, self.high, self.low)

    def _solved(
        self, free: NDArray[np.intp], slopes: Array, last: Array, c: float, tau: float
    ) -> tuple[Array, float, float] | None:
        """Beta, b and c of the system; None: it has no solution."""
        alone = -self.mass * self.sign * slopes
        alone[free] = 0.0
        by_c, lean = np.zeros_like(alone), np.zeros(2)  # beta = c by_c + alone; c b likewise
        if len(free):
            B = self.K[np.ix_(free, free)]
            short = (tau + LEAST) * diagonal(B)
            right = short * last[free] - (self.K @ alone)[free]
            diagonal(B)[:] += short + 1e-300
            factor, failed = dpotrf(B.T, overwrite_a=1)
            if failed:
                return None
            right = np.stack([self.corner[free], right, np.ones(len(free))], axis=1)
            own = np.asarray(dpotrs(factor, right)[0])
            if self.has_intercept:  # the sum of all beta is 0
                rest = np.array([0.0, float(alone.sum())])
                lean = (own[:, :2].sum(axis=0) + rest) / float(own[:, 2].sum())
            by_c[free] = own[:, 0] - lean[0] * own[:, 2]
            alone[free] = own[:, 1] - lean[1] * own[:, 2]
        along = self.rows.combine_many(np.array([by_c, alone]))[:, : self.program.n]
        c = self._price(along[0], along[1], c)
        return c * by_c + alone, float(lean[0] + lean[1] / c), c

    def _price(self, g: Array, h: Array, c: float) -> float:
        """The c for which ``|c g + h|`` is rho, or nearest to it, not far from the last one."""
        gg, gh, excess = float(g @ g), float(g @ h), float(h @ h) - self.rho**2
        if gg == 0.0:
            return c
        found = (-gh + math.sqrt(max(gh * gh - gg * excess, 0.0))) / gg
        return min(max(found, c / FAST), c * FAST)
