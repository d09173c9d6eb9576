r"""The rows as an interior-point method sees them: the best of a few lines each.

Every loss but the logistic one is, for a row of mass P,

.. math::
    P\,L = \max_{\alpha\ge0,\ \sum_k\alpha_k=P}\ \sum_k\alpha_k(c_k+a_kz+e_k\lambda) - T(\alpha),
    \qquad T = \frac{(\sum_{k\in G}a_k\alpha_k)^2}{2\sum_{k\in G}\alpha_k},

with T = 0 for piecewise-linear losses. A flipped label is one more line, outside of G. With u the
multiplier of the sum and :math:`s_k\alpha_k=\mu`, Newton's method leaves of a row three numbers
of curvature in (z, lambda): nothing of the length of the rows enters the linear system.

The logistic loss is the soft maximum of two lines:

.. math:: P\log(1+e^{-z}) = \max_{0\le\alpha\le P} -\alpha z + P\,\mathrm{ent}(\alpha/P)

Entropy is a barrier by itself: there are no slacks, and Newton's method is applied to
:math:`-z=\mathrm{logit}(\alpha/P)` with alpha as a variable of its own. After a full step the
multipliers balance exactly, as a lower bound needs it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.solvers.local.cones import off_centre, reach
from drfl.solvers.local.program import Program
from drfl.solvers.local.stack import Ints, RowStack

CENTRING = 4  # steps of Newton's method


class Pieces:
    """Rows that are the best of K lines.

    Parameters
    ----------
    a, c, e : arrays of shape (K, 1) or (K, M)
        The lines' slopes in z, their constants, their slopes in lambda.
    curved : int
        How many of the first lines form G; 0: T = 0.
    at : array, optional
        Which rows of a larger set these are, for who has the larger set.

    Attributes
    ----------
    alpha, s : (K, M)
        Multipliers and slacks of the lines.
    u : (M,)
        The value of the row.
    """

    def __init__(
        self, a: Array, c: Array, e: Array, curved: int = 0, at: NDArray[np.intp] | None = None
    ) -> None:
        self.a, self.c, self.e, self.curved, self.at = a, c, e, curved, at
        self.flips = bool(e.any())
        self.alpha = self.s = self.dalpha = self.ds = np.zeros((len(a), 0))
        self.u = self.du = np.zeros(0)
        self.second: Array | float = 0.0

    def start(self, z: Array, lam: Array | float, P: Array, room: Array | float) -> None:
        """A point in the interior, whose slacks are at least ``room``."""
        lines = self.lines(z, lam)
        K = len(self.a)
        self.u = lines.max(axis=0) + room
        weight = 1.0 / (self.u - lines)
        # Half evenly, half to the lines that are high.
        share = 0.5 / K + 0.5 * weight / weight.sum(axis=0)
        self.alpha = P * share
        self.s = np.maximum(self.u - lines + self._bend(), np.minimum(room, 1.0))
        self.dalpha, self.ds = np.zeros_like(self.s), np.zeros_like(self.s)
        self.du = np.zeros_like(self.u)

    def centre(self, z: Array, lam: Array | float, P: Array, mu: float) -> None:
        """The point at z whose products are all mu."""
        tau, lines = mu / P, self.lines(z, lam)
        if self.curved:
            bent = curved_value(self.a, lines, curved_share(self.a, lines, tau))
            weight = line_shares(np.vstack([bent, lines[self.curved :]]), tau)
            share = curved_share(self.a, lines, tau / weight[0])
            weight = np.vstack([weight[0] * share, weight[0] * (1.0 - share), weight[1:]])
        else:
            weight = line_shares(lines, tau)
        self.alpha = P * weight
        self.s = mu / self.alpha
        self.u = (weight * (lines - self._bend() + self.s)).sum(axis=0)
        self.dalpha, self.ds = np.zeros_like(self.s), np.zeros_like(self.s)
        self.du = np.zeros_like(self.u)

    def lines(self, z: Array, lam: Array | float) -> Array:
        """The lines' values, (K, M)."""
        lines = self.c + self.a * z
        return lines + self.e * lam if self.flips else lines

    @property
    def degree(self) -> int:
        """How many products make up the gap."""
        return self.s.size

    def gap(self, primal: float = 0.0, dual: float = 0.0) -> float:
        """The sum of products after steps of these lengths."""
        if primal == 0.0 and dual == 0.0:
            return float(np.vdot(self.s, self.alpha))
        return float(np.vdot(self.s + primal * self.ds, self.alpha + dual * self.dalpha))

    def values(self, z: Array) -> Array:
        """What a row of mass 1 is worth."""
        return self.u

    def _mean_slope(self) -> tuple[Array, Array]:
        """v and Psi of the group G."""
        G = slice(0, self.curved)
        total = self.alpha[G].sum(axis=0)
        return (self.a[G] * self.alpha[G]).sum(axis=0) / total, total

    def _bend(self) -> Array | float:
        """The gradient of T."""
        if not self.curved:
            return 0.0
        v, _ = self._mean_slope()
        bend = np.zeros_like(self.alpha)
        bend[: self.curved] = v * self.a[: self.curved] - 0.5 * v * v
        return bend

    # ------------------------------------------------------------------ Newton's method
    def prepare(self) -> None:
        """Curvature of the rows at the present point."""
        self.D = self.alpha / self.s
        if self.curved:
            v, total = self._mean_slope()
            self.d = np.zeros_like(self.alpha)
            self.d[: self.curved] = self.a[: self.curved] - v
            self.Dd = self.D * self.d
            self.bent = 1.0 / (total + (self.d * self.Dd).sum(axis=0))
        self.omega = self._inverse(1.0)
        self.per_mass = 1.0 / self.omega.sum(axis=0)
        Wa = self._inverse(self.a)
        self.jz = (self.omega * self.a).sum(axis=0) * self.per_mass
        # About the mean slope, a'Wa - (1'Wa)^2/1'W1 has no cancellation left.
        self.tilt = self.a - self.jz
        self.hzz = (self.tilt * Wa).sum(axis=0)
        if self.flips:
            self.jl = (self.omega * self.e).sum(axis=0) * self.per_mass
            self.lean = self.e - self.jl
            self.hzl = (self.lean * Wa).sum(axis=0)
            self.hll = (self.lean * self._inverse(self.e)).sum(axis=0)

    def _inverse(self, x: Array | float) -> Array:
        """(1/D + T'')^-1 x."""
        y = self.D * x
        if self.curved:
            y = y - self.Dd * (self.bent * (self.Dd * x).sum(axis=0))
        return y

    def correct(self, weight: float) -> None:
        """Take this part of what the last step would add to the products out of the next."""
        self.second = weight * self.ds * self.dalpha

    def recentre(self, primal: float, dual: float, target: float) -> None:
        """Lift products that steps of these lengths would leave too small, and lower large ones."""
        self.second = self.second - off_centre(
            (self.s + primal * self.ds) * (self.alpha + dual * self.dalpha), target
        )

    def measure(self, z: Array, lam: Array | float, P: Array) -> None:
        """How far the present point is from its lines and its mass."""
        self.miss = self.lines(z, lam) - self._bend() + self.s - self.u
        self.short = self.alpha.sum(axis=0) - P
        self.second = 0.0
        self._pulls()

    def _pulls(self) -> None:
        """What a row pulls at z and at lambda: the sums of alpha a and alpha e."""
        self.slope = (self.a * self.alpha).sum(axis=0)
        if self.flips:
            self.pull = (self.e * self.alpha).sum(axis=0)

    def aim(self, target: float) -> None:
        """Constant parts of the step: gz, gl beside the Hessian, gu beside the value."""
        self.rest = (target - self.second) / self.alpha - self.s
        self.g = self.rest + self.miss
        self.Wg = self._inverse(self.g)
        self.gu = (self.Wg.sum(axis=0) + self.short) * self.per_mass
        self.gz = (self.tilt * self.Wg).sum(axis=0) - self.jz * self.short
        if self.flips:
            self.gl = (self.lean * self.Wg).sum(axis=0) - self.jl * self.short

    def move(self, dz: Array, dlam: Array | float, dP: Array | float) -> None:
        """The steps that go with a step of z, lambda and P."""
        self.du = self.jz * dz + self.gu - self.per_mass * dP
        lines = self.a * dz
        if self.flips:
            self.du += self.jl * dlam
            lines = lines + self.e * dlam
        self.dalpha = self._inverse(lines + self.g - self.du)
        self.ds = self.rest - self.dalpha / self.D

    def reach(self) -> tuple[float, float]:
        """How far slacks and multipliers can go."""
        return reach(self.s, self.ds), reach(self.alpha, self.dalpha)

    def update(self, primal: float, dual: float) -> None:
        """Go so far."""
        self.s = self.s + primal * self.ds
        self.u = self.u + primal * self.du
        self.alpha = self.alpha + dual * self.dalpha


# ---------------------------------------------------------------------------- the central path
def line_shares(lines: Array, tau: Array) -> Array:
    r"""Shares with equal products: :math:`\tau/(u-\mathrm{line}_k)`, which sum to 1."""
    if len(lines) == 1:
        return np.ones_like(lines)
    u = lines.max(axis=0) + tau
    for _ in range(CENTRING):  # convex and decreasing in u: Newton's method stays on the left
        inverse = 1.0 / (u - lines)
        u += (inverse.sum(axis=0) * tau - 1.0) / ((inverse**2).sum(axis=0) * tau)
    shares = tau / (u - lines)
    return np.asarray(shares / shares.sum(axis=0))


def curved_share(a: Array, lines: Array, tau: Array) -> Array:
    r"""The share x of the first of two lines with curvature between them.

    It solves :math:`Dx+k=\tau/x-\tau/(1-x)`, whose sides are monotone. The roots without the one
    or the other term on the right give a guess that is good everywhere.
    """
    jump = a[0] - a[1]
    D, k = jump * jump, jump * a[1] - (lines[0] - lines[1])
    low, high = (np.minimum(_root(D, b, tau), 1.0) for b in (k, -k - D))
    x = low / (low + high)
    for _ in range(CENTRING):
        rest = 1.0 - x
        value = D * x + k - tau / x + tau / rest
        step = -value / (D + tau / x**2 + tau / rest**2)
        x = np.clip(x + step, 0.1 * x, 1.0 - 0.1 * rest)
    return np.asarray(x)


def _root(D: Array, k: Array, tau: Array) -> Array:
    """The positive root of D x^2 + k x = tau."""
    root = np.sqrt(k * k + 4.0 * D * tau)
    return np.where(k > 0.0, 2.0 * tau / (k + root), (root - k) / (2.0 * D))


def curved_value(a: Array, lines: Array, share: Array) -> Array:
    """What two lines with curvature between them are worth at this share."""
    v = a[0] * share + a[1] * (1.0 - share)
    return np.asarray(share * lines[0] + (1.0 - share) * lines[1] - 0.5 * v * v)


class Entropy:
    """Rows of the logistic loss; the interface is that of `Pieces`."""

    degree, flips, at = 0, False, None
    second = 0.0

    def __init__(self) -> None:
        self.share = self.full = self.P = self.alpha = self.dalpha = self.dP = np.zeros(0)

    def start(self, z: Array, lam: Array | float, P: Array, room: Array | float) -> None:
        """The slopes at z, a little inside."""
        self.P = P
        self.alpha = P * np.clip(_sigmoid(z), 1e-8, 1.0 - 1e-8)
        self.share = self.full = self.alpha / self.P

    def centre(self, z: Array, lam: Array | float, P: Array, mu: float) -> None:
        """The slopes at z."""
        self.start(z, lam, P, 0.0)

    def gap(self, primal: float = 0.0, dual: float = 0.0) -> float:
        """No products here."""
        return 0.0

    @property
    def slope(self) -> Array:
        """What a row pulls at z."""
        return -self.alpha

    def values(self, z: Array) -> Array:
        """What a row of mass 1 is worth at these slopes."""
        return entropy(self.share) - self.share * z

    def prepare(self) -> None:
        """Curvature of the rows at the present point."""
        self.share = self.alpha / self.P
        self.hzz = self.alpha * (1.0 - self.share)
        self.jz = -self.share
        self.per_mass = np.zeros_like(self.share)

    def correct(self, weight: float) -> None:
        """No products here."""

    def recentre(self, primal: float, dual: float, target: float) -> None:
        """No products here."""

    def measure(self, z: Array, lam: Array | float, P: Array) -> None:
        """How far the slopes are from those at z."""
        self.gz = self.hzz * (z + np.log(self.share / (1.0 - self.share)))

    def aim(self, target: float) -> None:
        """Constant parts of the step: gz is known."""

    def move(self, dz: Array, dlam: Array | float, dP: Array | float) -> None:
        """The steps that go with a step of z and P."""
        self.dP = np.broadcast_to(dP, self.P.shape)
        self.dalpha = self.share * self.dP - self.hzz * dz - self.gz

    def reach(self) -> tuple[float, float]:
        """How far the multipliers can go."""
        room = reach(self.P - self.alpha, self.dP - self.dalpha)
        return math.inf, min(reach(self.alpha, self.dalpha), room)

    def update(self, primal: float, dual: float) -> None:
        """Go so far; where a whole step would lead is kept, every row for itself."""
        self.full = np.clip((self.alpha + self.dalpha) / (self.P + self.dP), 1e-300, 1.0)
        self.alpha = self.alpha + dual * self.dalpha
        self.P = self.P + dual * self.dP
        self.share = self.alpha / self.P


def entropy(share: Array) -> Array:
    """-x log x - (1-x) log (1-x)."""
    rest = 1.0 - share
    tiny = np.finfo(np.float64).tiny
    return -share * np.log(np.maximum(share, tiny)) - rest * np.log(np.maximum(rest, tiny))


def _sigmoid(z: Array) -> Array:
    """Minus the slope of the loss."""
    e = np.exp(-np.abs(z))
    return np.where(z > 0.0, e, 1.0) / (1.0 + e)


Kernel = Pieces | Entropy
LOGISTIC = ((0.0, 0.0), (-1.0, 0.0))  # the lines whose soft maximum `Entropy` is


def has_kernel(loss: Loss, *, flips: bool) -> bool:
    """Whether the loss states the lines that this method works with, and those of its flips."""
    if loss.soft:
        return loss.soft == LOGISTIC
    return bool(loss.pieces or loss.rounded) and (loss.flipped is not None or not flips)


def make_kernels(program: Program, stack: RowStack, flipping: Ints | None) -> tuple[Kernel, ...]:
    """The rows' losses.

    Parameters
    ----------
    program, stack
        The problem and its rows.
    flipping : array, optional
        The rows that may flip, where that is not all of them.
    """
    smooth = not program.loss.pieces
    if not (smooth and program.flips):
        return (Entropy(),) if program.loss.soft else (_pieces(program, stack),)
    flips = np.arange(len(stack.mass)) if flipping is None else flipping
    if program.loss.soft:
        return (Entropy(), _pieces(program, stack, flips))
    others = np.setdiff1d(np.arange(len(stack.mass)), flips, assume_unique=True)
    return (_pieces(program, stack, flips), _pieces(program, stack, others, lines=2))


def curved(program: Program) -> int:
    """How many of the lines have the curvature of a smooth loss between them."""
    return len(program.loss.rounded)


def line_table(program: Program, s: int) -> Array:
    r"""The lines of a client's rows, (K, 3): slope in z, constant, slope in lambda.

    Flips are the last line: :math:`L(-z)-\kappa\lambda` may be replaced by the line it is on for
    z > 0, since no row with z < 0 gains from a flip. The logistic loss gains z by a flip, so that
    :math:`\max(0, z-\kappa\lambda)` is added to it. For a client whose labels do not move it is
    the line 0, which is below every loss.
    """
    loss = program.loss
    lines = LOGISTIC[:1] if loss.soft else loss.pieces or loss.rounded
    table = [(a, c, 0.0) for a, c in lines]
    if program.flips:
        kappa, flip = float(program.kappa[s]), loss.flipped or (1.0, 0.0)
        table.append((*flip, -kappa) if math.isfinite(kappa) else (0.0, 0.0, 0.0))
    return np.array(table)


def _pieces(
    program: Program, stack: RowStack, at: Ints | None = None, lines: int | None = None
) -> Pieces:
    """The lines of these rows, or the first so many of them."""
    tables = [line_table(program, s)[:lines] for s in range(len(program.rho))]
    if len(tables) == 1 or not program.flips or lines is not None:
        a, c, e = (tables[0][:, k : k + 1].copy() for k in range(3))
    else:
        client = stack.client if at is None else stack.client[at]
        whole = np.array(tables)[client]
        a, c, e = (np.ascontiguousarray(whole[:, :, k].T) for k in range(3))
    return Pieces(a, c, e, curved(program), at)
