r"""The server's step: minimise a quadratic plus the price of the norm, and against weights.

.. math:: \min_z\ r^\top(z-x)+\tfrac12(z-x)^\top B(z-x)+\rho\,\|z_w\|_*

For the l2 norm :math:`\|z_w\|_2` is :math:`\min_\tau\tfrac12(\tau\|z_w\|^2+1/\tau)`: one unknown
number, found from a secular equation. For linf it is the l1 penalty, whose columns at 0 stay out of
the way: accelerated proximal gradients on the columns at work, each in units of its own curvature.

Where weights are uncertain, the step is

.. math:: \max_{q\in Q}\min_z\ \sum_sq_s\big(\ell_s+g_s^\top(z-x)+\rho_s\|z_w\|_*\big)
          +\tfrac12(z-x)^\top B(z-x).

The minimum is a concave function of q whose gradient is what the clients' models are worth at z:
projected ascent with the steps of Barzilai and Borwein. Known weights need one minimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.norms import L2, LInf, Norm
from drfl.solvers.certificate import ServerProblem
from drfl.solvers.first_order.curved_model import Curvature, CurvedModel, Quadratic
from drfl.solvers.first_order.questions import Heard

EXACT = 1e-10  # relative accuracy of the secular equation
SWEEPS = 600  # proximal gradient steps at most
POLISH = 30  # of these the signs may be known
SETTLED = 1e-8  # relative: no coordinate moves any more


class Penalty(ABC):
    """The price of the norm, and the minimiser of a quadratic with it."""

    def __init__(self, n: int, dimension: int) -> None:
        self.n, self.dimension = n, dimension

    @abstractmethod
    def at_work(self, x: Array, slope: Array, price: float) -> NDArray[np.int64]:
        """The coordinates that may change, in ascending order."""

    @abstractmethod
    def minimise(
        self, model: Curvature, x: Array, slope: Array, price: float, start: Array | None
    ) -> Array:
        """The minimiser z (d,); ``start``: a point near it, if one is known."""


class EuclideanPenalty(Penalty):
    """Of the l2 norm: all coordinates are at work."""

    def at_work(self, x: Array, slope: Array, price: float) -> NDArray[np.int64]:
        return np.arange(self.dimension)

    def minimise(
        self, model: Curvature, x: Array, slope: Array, price: float, start: Array | None
    ) -> Array:
        n, J = self.n, model.coordinates(np.arange(self.dimension))
        B = model.among(J)
        r = B.times(x[J]) - slope[J]
        penalized = (n > J).astype(np.float64)

        def at(tau: float) -> tuple[Array, float]:
            z = np.empty(self.dimension)
            z[J] = B.solve(r, tau * penalized)
            return z, float(np.linalg.norm(z[:n]))

        if price <= 0.0:
            return at(0.0)[0]
        guess = float(np.linalg.norm((x if start is None else start)[:n]))
        return _secular(at, price, n, price / guess if guess > 0.0 else float(B.diagonal.mean()))


def _secular(at: Callable[[float], tuple[Array, float]], price: float, n: int, tau: float) -> Array:
    r"""Find :math:`\tau\|z_w(\tau)\|=\rho`; :math:`1/\|z_w\|` is nearly linear in tau."""
    low, high = 0.0, np.inf
    last: tuple[float, float] | None = None
    z = np.zeros(0)
    for _ in range(60):
        z, size = at(tau)
        if size == 0.0 or tau > 1e18:
            z[:n] = 0.0
            return z
        if abs(tau * size - price) <= EXACT * price:
            return z
        error = 1.0 / size - tau / price
        low, high = (tau, high) if tau * size < price else (low, tau)
        guess = tau * price / (tau * size)
        if last is not None and last[1] != error:
            guess = tau - error * (tau - last[0]) / (error - last[1])
        last = (tau, error)
        if not low < guess < high:
            guess = 10.0 * tau if np.isinf(high) else 0.5 * (low + high)
        tau = guess
    return z


@dataclass(frozen=True)
class _Shrink:
    """Where the proximal gradient method works: coordinates in units of their curvature."""

    quadratic: Quadratic
    units: Array
    price: Array
    x: Array
    slope: Array

    def gradient(self, v: Array) -> Array:
        """Of the quadratic, at a step v in these units."""
        return np.asarray((self.slope + self.quadratic.times(v / self.units)) / self.units)

    def lipschitz(self) -> float:
        """The largest eigenvalue, by power iteration, with a little room."""
        v = np.random.default_rng(0).normal(size=len(self.units))
        size = 1.0
        for _ in range(30):
            v = self.quadratic.times(v / self.units) / self.units
            size = float(np.linalg.norm(v))
            if size == 0.0:
                return 1.0
            v /= size
        return 1.05 * size

    def run(self, start: Array) -> Array:
        """Accelerated steps with restarts (Beck and Teboulle; O'Donoghue and Candes)."""
        L, origin = self.lipschitz(), self.x * self.units
        threshold = self.price / self.units / L
        step, ahead, t = start, start, 1.0
        for k in range(1, SWEEPS + 1):
            at = origin + ahead - self.gradient(ahead) / L
            moved = np.sign(at) * np.maximum(np.abs(at) - threshold, 0.0)
            new = moved - origin
            change = new - step
            if np.abs(change).max() <= SETTLED * max(float(np.abs(moved).max()), 1e-300):
                return new
            if k % POLISH == 0:
                exact = self.polished(moved)
                if exact is not None:
                    return exact
            if float((ahead - new) @ change) > 0.0:
                t, ahead = 1.0, new
            else:
                after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
                ahead, t = new + (t - 1.0) / after * change, after
            step = new
        return step

    def polished(self, moved: Array) -> Array | None:
        """The step if the signs are those of ``moved``; None if they are not.

        With known signs the minimum is a linear system, and it is the minimum if the signs stay
        and no slope at 0 exceeds its price.
        """
        free = (moved != 0.0) | (self.price == 0.0)
        v, signs = np.where(free, 0.0, -self.x), np.sign(moved)
        pull = self.slope + self.quadratic.times(v)
        r = -(pull + self.price * signs)[free]
        try:
            v[free] = self.quadratic.of(free).solve(r)
        except np.linalg.LinAlgError:
            return None
        kept = np.sign(self.x + v)[free & (self.price > 0.0)] == signs[free & (self.price > 0.0)]
        left = np.abs(self.slope + self.quadratic.times(v))[~free]
        if not (kept.all() and (left <= self.price[~free] * (1.0 + 1e-9)).all()):
            return None
        return np.asarray(v * self.units)


NEAR = 0.9  # of the price: slopes beyond may leave 0
FEW = 2000  # columns that may begin to work in one step


class AbsolutePenalty(Penalty):
    """Of the linf norm, the l1 penalty: columns whose slope is well below its price stay at 0."""

    def at_work(self, x: Array, slope: Array, price: float) -> NDArray[np.int64]:
        w, g = x[: self.n], np.abs(slope[: self.n])
        working = w != 0.0
        near = np.flatnonzero((g > NEAR * price) & ~working)
        room = max(FEW, 2 * int(working.sum())) - int(working.sum())
        if len(near) > room:
            near = near[np.argsort(-g[near], kind="stable")[:room]]
        chosen = np.union1d(np.flatnonzero(working), near)
        return np.append(chosen, np.arange(self.n, self.dimension))

    def minimise(
        self, model: Curvature, x: Array, slope: Array, price: float, start: Array | None
    ) -> Array:
        J = model.coordinates(self.at_work(x, slope, price))
        B = model.among(J)
        pay = np.where(self.n > J, price, 0.0)
        units = np.sqrt(np.maximum(B.diagonal, 1e-9 * float(B.diagonal.max())))
        inner = _Shrink(B, units, pay, x[J], slope[J])
        begin = np.zeros(len(J)) if start is None else (start[J] - x[J]) * units
        v = inner.run(begin)
        # A coordinate that was shrunk to 0 is 0, whatever the units make of it.
        moved = x[J] * units + v
        z = x.copy()
        z[J] = np.where(moved == 0.0, 0.0, moved / units)
        return z


PENALTIES: dict[type[Norm], type[Penalty]] = {L2: EuclideanPenalty, LInf: AbsolutePenalty}

TRIES, CLOSE = 60, 1e-8  # weights that are tried, and what they may still gain, relatively


@dataclass
class Evaluated:
    """A point with what all clients say of it."""

    x: Array  # (d,), the point
    # losses, slopes: mean losses (S,), the norm's price aside, and their gradients (S, d)
    losses: Array
    slopes: Array

    def of(self, s: int) -> Heard:
        """What one client said."""
        return Heard(self.x, float(self.losses[s]), self.slopes[s])

    def values(self, server: ServerProblem) -> Array:
        """F_s."""
        return np.asarray(self.losses + server.rho * server.gauge.value(self.x))


def weighted_step(
    server: ServerProblem, penalty: Penalty, model: CurvedModel, at: Evaluated, q: Array
) -> tuple[Array, Array]:
    """The next point, and the weights that it answers."""
    now = model.now()
    if server.certain:
        return penalty.minimise(now, at.x, q @ at.slopes, float(q @ server.rho), None), q
    last: Array | None = None

    def best(weights: Array) -> tuple[float, Array, Array]:
        nonlocal last
        slope = weights @ at.slopes
        z = penalty.minimise(now, at.x, slope, float(weights @ server.rho), last)
        last, step = z, z - at.x
        worth = at.losses + at.slopes @ step + server.rho * server.gauge.value(z)
        J = now.coordinates(np.flatnonzero(step))
        bend = 0.5 * float(step[J] @ now.among(J).times(step[J]))
        return float(weights @ worth) + bend, worth, z

    value, worth, z = best(q)
    size = 0.02 / max(float(np.ptp(worth)), 1e-300)
    for _ in range(TRIES):
        if server.mixture.support(worth) - float(q @ worth) <= CLOSE * abs(value):
            break
        other = server.mixture.project(q + size * (worth - worth.mean()))
        change = other - q
        if np.abs(change).max() < 1e-12:
            break
        new, new_worth, new_z = best(other)
        if new < value - 1e-14 * abs(value):
            size *= 0.25
            continue
        along = -float(change @ (new_worth - worth))
        size = min(float(change @ change) / along, 100.0 * size) if along > 0.0 else 2.0 * size
        q, value, worth, z = other, new, new_worth, new_z
    return z, q
