r"""A client's own rough optimum, by L-BFGS on a smooth function near its worst-case loss.

The mean of the clients' optima is only one of the first points that are tried, so that a hundredth
is accurate enough, and corners may be rounded:

- a kink at k with jump J of the slope: :math:`L(z)+J(h-|z-k|)_+^2/(4h)`,
- the norm: its Moreau envelope, whose gradient at w is the projection of :math:`w/\nu` onto the
  unit ball of the ground norm.

Labels stay where they are.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from drfl.arrays import Array
from drfl.client import Site
from drfl.losses import Loss
from drfl.solvers.bundle.client_half.evaluation import Evaluator

STEPS, PAIRS = 40, 20
WIDTH = 0.5  # h, in units of a margin, or of the targets' spread
ENVELOPE = 1e-3  # nu, in units of the largest coefficient that is likely
# The mean of optima on few rows each has learned the noise of all of them: a larger radius
# stands for it. Kinks hold the optimum in place.
INFLATED = 3.0


def rough_optimum(site: Site, evaluator: Evaluator) -> Array:
    """The point (d,)."""
    oracle, rows, n = site.oracle, site.oracle.rows, site.n_features
    loss, norm = oracle.loss, oracle.ball.norm
    radius = oracle.ball.radius * loss.lipschitz * (1.0 if loss.kinks else INFLATED)
    size = np.sqrt(max(float(rows.moments()[1].mean()), 1e-300)) if n else 1.0
    width = WIDTH * (1.0 if oracle.is_margin else max(float(np.std(rows.y)), 1e-300))
    most = norm.project_ball(np.full(n, 1e6))  # of these the envelope is too low by nu/2 |.|^2
    nu = ENVELOPE / max(float(most @ most), 1.0)
    units = np.ones(site.dimension + site.problem.own_intercepts)
    units[:n] = size

    def smooth(z: Array) -> tuple[float, Array]:
        w, b = evaluator.split(z / units)
        total = 0.0

        def visit(block: slice, scores: Array) -> Array:
            nonlocal total
            value, slope = rounded(loss, evaluator.as_arguments(scores, block), width)
            total += rows.mean(value, block)
            return evaluator.weighted(slope, block)

        g, gb = rows.sweep(w, b, visit)
        along = norm.project_ball(z[:n] / nu)
        total += radius / size * float(along @ z[:n] - 0.5 * nu * (along @ along))
        gradient = np.append(g / size + radius / size * along, gb)
        return total, gradient[: len(z)]

    found = minimize(
        smooth,
        np.zeros(len(units)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS, "maxcor": PAIRS},
    )
    return np.asarray(found.x / units)[: site.dimension]


def rounded(loss: Loss, z: Array, width: float) -> tuple[Array, Array]:
    """The loss with its kinks rounded over so much on both sides, and its slope."""
    value, slope = loss.value_and_slope(z)
    for kink in loss.kinks:
        ends = kink + 1e-6 * max(1.0, abs(kink)) * np.array([-1.0, 1.0])
        before, after = loss.slope(ends)
        jump = after - before
        away = z - kink
        rest = np.maximum(width - np.abs(away), 0.0)
        value = value + jump * rest * rest / (4.0 * width)
        slope = slope - jump * np.sign(away) * rest / (2.0 * width)
        slope[away == 0.0] = 0.5 * (before + after)
    return value, slope
