r"""Labels that move, without telling whose.

Any shares :math:`\phi\in[0,1]^N` of flipped labels make a valid cut in (x, :math:`\lambda`), with
the slope :math:`-\kappa\,\mathrm{mean}\,\phi` in :math:`\lambda`. The exact ones would tell one
row's margin in :math:`\lambda^*`. Here the shares are a ramp over many rows, and the multiplier is
that of the ramp, rounded up: the value at any multiplier is an upper bound of F.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.privacy.release.rounding import grid_above
from drfl.privacy.release.weights import WINDOW, power_above
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

STEPS = 16  # of the multiplier, per factor of 2
BISECTIONS = 60


def flip(
    oracle: WholeSpaceOracle, m: Array, norm: float, k: int, shift: float
) -> tuple[Array, float]:
    """Shares (N,) near the optimal ones at margins m, and the multiplier that goes with them.

    Parameters
    ----------
    oracle : WholeSpaceOracle
        With a finite label cost.
    m : (N,)
        The margins.
    norm : float
        The dual norm of w, below which no multiplier is feasible.
    k : int
        Of the guard: the multiplier is that of at least 2k rows.
    shift : float
        Dithers the multiplier.
    """
    kappa, budget = oracle.ball.label_cost, oracle.ball.radius / oracle.ball.label_cost
    gain = flip_gain(oracle.loss, m)
    window = _width(gain, kappa * norm, k)
    # No comparison without a dither: a server could bisect for the place where it turns.
    least = _threshold(gain, window, max(budget, 2.0 * k / len(m))) / kappa
    unit = max(norm, 1e-3 * oracle.loss.lipschitz)
    steps = grid_above(STEPS * float(np.log2(max(least / unit, 1e-9))), 1.0, shift)
    price = max(_threshold(gain, window, min(budget, 1.0)), kappa * norm)
    share = np.where(gain > 0.0, _ramp(gain, price, window), 0.0)
    if share.mean() < shift * k / len(m):
        share[:] = 0.0  # so few are not worth telling whether there are any
    return share, max(norm, unit * 2.0 ** (steps / STEPS))


def _ramp(gain: Array, threshold: float, width: float) -> Array:
    return np.clip(0.5 + (gain - threshold) / (2.0 * width), 0.0, 1.0)


def _width(gain: Array, price: float, k: int) -> float:
    """Half the width of a ramp that holds enough rows around the price."""
    distance = np.abs(gain - min(price, float(gain.max())))
    rows = min(WINDOW * k, len(gain) // 2)
    return power_above(float(np.partition(distance, rows - 1)[rows - 1]))


def _threshold(gain: Array, width: float, mass: float) -> float:
    """Where the ramp has a mean of at most this mass."""
    low, high = float(gain.min()) - width, float(gain.max()) + width
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if float(_ramp(gain, middle, width).mean()) > mass:
            low = middle
        else:
            high = middle
    return high
