r"""Labels that move, without telling whose.

Any shares :math:`\phi\in[0,1]^N` of flipped labels make a valid cut in (x, :math:`\lambda`), with
the slope :math:`-\kappa\,\mathrm{mean}\,\phi` in :math:`\lambda`. The exact ones would tell one
row's margin in :math:`\lambda^*`, and a count in the slope. Here the shares are a ramp over many
rows, their mean is :math:`\rho/\kappa` times a power of a public number, and the multiplier is that
of the ramp, rounded up: the value at any multiplier is an upper bound of F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.losses import Array
from drfl.privacy.rounding import grid_above
from drfl.privacy.weights import WINDOW, Slopes, power_above
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

STEPS = 16  # of the multiplier, per factor of 2
MASSES = 4  # of the flipped mass, per factor of 2
LEAST = 8  # factors of 2 below the whole budget: fewer flips are none
BISECTIONS = 60


@dataclass(frozen=True)
class Flipped:
    """Shares of flipped labels at a point, and what may be said of them.

    Attributes
    ----------
    multiplier : float
        At which the value is taken; public once it is sent.
    mass : float
        The mean of the shares: a public number times a power of another.
    share : (N,)
        The shares, which never leave the client.
    """

    multiplier: float
    mass: float
    share: Array

    def slopes(self, oracle: WholeSpaceOracle, m: Array, sign: Array) -> Slopes:
        """What the rest of every row may weigh, beside its flipped share."""
        turned = oracle.loss.slope(-m)
        return Slopes(oracle.loss, m, sign, -self.share * turned, 1.0 - self.share)

    def touch(self, oracle: WholeSpaceOracle, m: Array) -> float:
        """What the flipped shares add to the cut at m and the multiplier."""
        if self.mass == 0.0:
            return 0.0
        loss = oracle.loss
        turned = loss.slope(-m)
        worth = -turned * m - loss.conjugate(turned) - oracle.ball.label_cost * self.multiplier
        return float((self.share * worth).mean())


def flip(oracle: WholeSpaceOracle, m: Array, norm: float, k: int, shift: float) -> Flipped:
    """Shares near the optimal ones at margins m; ``shift`` dithers the multiplier."""
    kappa, budget = oracle.ball.label_cost, oracle.ball.radius / oracle.ball.label_cost
    gain = flip_gain(oracle.loss, m)
    window = _width(gain, kappa * norm, k)
    # Fewer rows than 2k would be told of by the multiplier.
    price = _threshold(gain, window, max(budget, 2.0 * k / len(m)))
    multiplier = norm
    if price > kappa * norm:
        above = price / kappa
        unit = max(norm, 1e-3 * oracle.loss.lipschitz)
        multiplier = unit * 2.0 ** (
            grid_above(STEPS * float(np.log2(above / unit)), 1.0, shift) / STEPS
        )
    mass = budget
    if multiplier == norm:
        mass = _mass_below(float(_ramp(gain, kappa * norm, window).mean()), budget)
    mass = min(mass, 1.0)
    if mass == 0.0 or not (gain > 0.0).any():
        return Flipped(multiplier, 0.0, np.zeros_like(m))
    share = _ramp(gain, _threshold(gain, window, mass), window)
    # The bisection leaves a little: the mean must be the public number, to the last digits.
    share *= min(mass / max(float(share.mean()), 1e-300), 1.0)
    return Flipped(multiplier, mass, share)


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


def _mass_below(mass: float, budget: float) -> float:
    """The next part of the budget below a mass that may be told; 0 if there is none."""
    if mass >= budget:
        return budget
    step = np.floor(MASSES * np.log2(max(mass, 1e-300) / budget))
    return 0.0 if step < -MASSES * LEAST else float(budget * 2.0 ** (step / MASSES))
