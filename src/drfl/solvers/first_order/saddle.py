r"""The step against uncertain weights.

.. math:: \max_{q\in Q}\min_z\ \sum_sq_s\big(\ell_s+g_s^\top(z-x)+\rho_s\|z_w\|_*\big)
          +\tfrac12(z-x)^\top B(z-x)

The minimum is a concave function of q whose gradient is what the clients' models are worth at z:
projected ascent with the steps of Barzilai and Borwein. Known weights need one minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate import ServerProblem
from drfl.solvers.first_order.curved_model import CurvedModel
from drfl.solvers.first_order.penalized import Penalty
from drfl.solvers.first_order.questions import Heard

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
    if server.certain:
        return penalty.minimise(model, at.x, q @ at.slopes, float(q @ server.rho), None), q
    last: Array | None = None

    def best(weights: Array) -> tuple[float, Array, Array]:
        nonlocal last
        slope = weights @ at.slopes
        z = penalty.minimise(model, at.x, slope, float(weights @ server.rho), last)
        last, step = z, z - at.x
        worth = at.losses + at.slopes @ step + server.rho * server.gauge.value(z)
        J = model.coordinates(np.flatnonzero(step))
        bend = 0.5 * float(step[J] @ model.among(J).times(step[J]))
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
