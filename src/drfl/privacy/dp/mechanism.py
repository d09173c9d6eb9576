"""Differential privacy at a client: bounded rows, noisy means, and what each costs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from drfl import checks
from drfl.arrays import Array
from drfl.losses import Loss
from drfl.privacy.dp.spending import Spending, epsilon_of, rho_of
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.supports import WholeSpace

Draw = Callable[[int], Array]
"""Gives so many independent standard normal numbers."""

GRID = 2.0**-20
"""Of the standard deviation: what leaves is rounded to about this, so that the last bits of a
floating-point sum, which no noise of floating-point numbers covers, stay at home."""


def os_normal(size: int) -> Array:
    """Standard normal numbers from the entropy of the operating system, 53 bits for each."""
    bits = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(11)
    sign = np.where(bits & np.uint64(1), 1.0, -1.0)
    # The lower half only: near 1 a number could round to 1, and its quantile is infinite.
    below = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(sign * ndtri(below), dtype=np.float64)


def deviation(sensitivity: float, rho: float) -> float:
    r"""The standard deviation :math:`\Delta/\sqrt{2\rho}` that makes a release rho-zCDP."""
    return sensitivity / math.sqrt(2.0 * rho)


def noisy(values: Array, sensitivity: float, rho: float, draw: Draw) -> Array:
    """The values of a vector with Gaussian noise, rounded to a power of two."""
    sigma = deviation(sensitivity, rho)
    step = 2.0 ** math.floor(math.log2(GRID * sigma))
    told = values + sigma * draw(values.size).reshape(values.shape)
    return np.asarray(np.round(told / step) * step)


def packed(matrix: Array) -> Array:
    r"""A symmetric matrix as a vector of the same Frobenius norm: off the diagonal times root 2."""
    d = len(matrix)
    i, j = np.triu_indices(d)
    return np.asarray(matrix[i, j] * np.where(i == j, 1.0, math.sqrt(2.0)))


def unpacked(vector: Array, d: int) -> Array:
    """The symmetric matrix again."""
    i, j = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[i, j] = vector / np.where(i == j, 1.0, math.sqrt(2.0))
    matrix[j, i] = matrix[i, j]
    return matrix


ROUNDING = 1.0 + 1e-9
"""Sums of floating-point numbers differ a little more than those of real numbers."""
ENOUGH = 10_000
"""Rows of a client from which on the noise leaves much of a model."""


@dataclass(frozen=True)
class DifferentialPrivacy:
    r"""A client's promise of :math:`(\epsilon,\delta)`-differential privacy, for all jobs together.

    Whatever the server asks, in as many trainings as it likes, the probability of any outcome
    changes by at most a factor :math:`e^\epsilon` and an addend :math:`\delta` if one row of the
    client is replaced by another. The number of rows is public.

    Parameters
    ----------
    epsilon, delta : float
        The promise; delta should be far below one over the number of rows.
    norm : float
        A public bound B of the length of a row: features must be in units that do not come from
        the rows. Longer rows are shortened to it.
    target : float
        A public bound of numeric targets, which are clipped to it; labels -1/+1 are within 1.
    ledger : path, optional
        The file that remembers what has been spent. Without one it is in memory and ends with the
        process: for simulations.
    draw : callable, optional
        Source of standard normal numbers, for repeatable simulations; by default the entropy of
        the operating system.

    Examples
    --------
    >>> DifferentialPrivacy(1.0, norm=4.0).line
    'guard: differential privacy, epsilon = 1, delta = 1e-06, ledger in memory'
    """

    epsilon: float
    delta: float = 1e-6
    norm: float = 1.0
    target: float = 1.0
    ledger: str | os.PathLike[str] | None = None
    draw: Draw | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, below in (("epsilon", 1e6), ("delta", 1.0), ("norm", 1e9), ("target", 1e9)):
            said = f"{name} of differential privacy"
            found = checks.number(said, getattr(self, name), above=0.0, below=below)
            object.__setattr__(self, name, found)  # a whole number becomes a number
        if not isinstance(self.ledger, str | os.PathLike | None):
            raise TypeError(f"ledger of differential privacy must be a path, got {self.ledger!r}")
        if not (self.draw is None or callable(self.draw)):
            raise TypeError("draw of differential privacy must be callable or None")

    @cached_property
    def budget(self) -> float:
        """What everything together may cost, in zCDP."""
        return rho_of(self.epsilon, self.delta)

    def noise(self) -> Draw:
        """Where noise comes from."""
        return os_normal if self.draw is None else self.draw

    def open(self) -> Spending:
        """The ledger."""
        return Spending(None if self.ledger is None else Path(self.ledger))

    def clip(self, rows: Rows) -> Rows:
        """The rows within the public bounds: a copy, dense and scaled."""
        if rows.p is not None and np.ptp(rows.p) > 0.0:
            raise ValueError("differential privacy knows rows of equal weight: drop sample_weight")
        X = np.empty((rows.n_rows, rows.n_features))
        for block, part in rows.dense_blocks():
            length = np.linalg.norm(part, axis=1)
            X[block] = part * (self.norm / np.maximum(length, self.norm))[:, None]
        clipped = Rows(X, np.clip(rows.y, -self.target, self.target))
        clipped.names = rows.names
        return clipped

    @property
    def line(self) -> str:
        """One line for a report."""
        where = "in memory" if self.ledger is None else f"at {os.fspath(self.ledger)}"
        return (
            f"guard: differential privacy, epsilon = {self.epsilon:g}, delta = {self.delta:g}, "
            f"ledger {where}"
        )

    def statement(self, spending: Spending) -> str:
        """What has been spent of the budget, for the person who answers for the site."""
        spent = spending.spent
        return (
            f"spent: epsilon {epsilon_of(spent, self.delta):.3g} of {self.epsilon:g} "
            f"at delta {self.delta:g} (zCDP {spent:.3g} of {self.budget:.3g})"
        )


NO_CURVES = (
    "differential privacy shortens rows, and their ramps, of which curves are made, may be longer "
    "than its noise is for: leave out the curves, or differential privacy"
)


def require_known(problem: Problem, name: str) -> None:
    """Refuse by name what there is no noisy method for."""
    if problem.network is not None:
        raise ValueError("differential privacy knows linear models: take a loss of a score")
    if problem.curves is not None:
        raise ValueError(NO_CURVES)
    if problem.classes is not None or problem.own_intercepts:
        raise ValueError(
            "differential privacy has noise for one slope and one intercept of all clients: leave "
            "out several classes at once and intercepts per client"
        )
    ball, loss = problem.ball_of(name), problem.loss
    if problem.shared_ball or not isinstance(ball.support, WholeSpace):
        raise ValueError(
            "differential privacy knows balls of clients in the whole space: drop the support "
            "or shared_ball"
        )
    if loss.curvature_bound == 0.0:
        raise ValueError(
            f"differential privacy needs a loss with bounded curvature, and {loss.name} states "
            "none: take logistic, smooth_hinge or huber"
        )
    if ball.radius > 0.0 and math.isfinite(ball.label_cost):
        raise ValueError("differential privacy knows targets that stay: drop label_cost")
    if problem.mixture.radius > 0.0:
        raise ValueError("differential privacy knows certain weights: take mixture radius 0")


@dataclass(frozen=True)
class Sensitivity:
    """How much means over N rows can differ between neighbours.

    Parameters
    ----------
    n_rows : int
        N.
    length : float
        C, of a row with its 1 for the intercept.
    target : float
        Of targets; 0 for labels.
    loss : Loss
        L.
    """

    n_rows: int
    length: float
    target: float
    loss: Loss

    @property
    def moments(self) -> float:
        """Of the mean of zeta zeta', in the Frobenius norm."""
        return ROUNDING * math.sqrt(2.0) * self.length**2 / self.n_rows

    @property
    def slope(self) -> float:
        """Of the mean gradient, in the l2 norm."""
        return ROUNDING * 2.0 * self.loss.lipschitz * self.length / self.n_rows

    @property
    def curvature(self) -> float:
        """Of the mean of k zeta zeta', in the Frobenius norm."""
        return self.moments * self.loss.curvature_bound

    def values(self, x: Array) -> tuple[float, float]:
        """The least and the largest loss that a row can have at the model x."""
        reach = self.length * float(np.linalg.norm(x)) + self.target
        ends = self.loss.value(np.array([-reach, reach]))
        # A margin loss falls; a loss of residuals is at least 0.
        least = float(ends[1]) if self.loss.task == "classification" else 0.0
        return least, float(ends.max())

    def value(self, x: Array) -> float:
        """Of the mean loss at the model x."""
        least, most = self.values(x)
        # At x = 0 every margin has the same loss; noise needs a scale nevertheless.
        return ROUNDING * max(most - least, 1e-9) / self.n_rows


def row_length(norm: float, *, intercept: bool) -> float:
    """C: how long a row with its 1 for the intercept can be."""
    return math.hypot(norm, 1.0) if intercept else norm
