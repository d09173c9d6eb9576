r"""The objective on some rows, :math:`f(w,b)=\sum_ip_iL(z_i)+\rho\|w\|_*`, and its derivatives.

Scores are linear: along a step they are known from its ends, so that a line search reads no row.
Newton's method can follow smooth losses as they are, and sharp corners made soft:

.. math:: L_\mu(z)=\mu\log\sum_ke^{(a_kz+c_k)/\mu},\qquad L\le L_\mu\le L+\mu\log K.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.solvers.local.program import AllRows, Program

FAINT = 1e-7  # of the largest second derivative of a row: it is left out
SLIGHT = 1e-4  # the same for a step that is not computed to the end
TRIES, ARMIJO, WOLFE = 25, 1e-4, 0.9  # of a line search
# Steps to the best intercept without any column, and the farthest
CENTRING, FAR = 60, 50.0


@dataclass(frozen=True)
class Softened:
    """A loss with a width of its corners; 0: the loss itself, which is smooth.

    Its slopes are slopes of the loss, and prove what they prove of it.
    """

    loss: Loss
    width: float = 0.0

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        """L_mu(z) and its slope."""
        if self.width == 0.0:
            return self.loss.value_and_slope(z)
        top, shares, total = self._shares(z)
        value = top + self.width * np.log(total)
        slope = np.zeros_like(z)
        for (a, _), share in zip(self.loss.pieces, shares, strict=True):
            slope += a * share
        return value, slope / total

    def curvature(self, z: Array, slope: Array) -> Array:
        r"""The second derivative, where the slope is this.

        With two lines it is :math:`(v-a_1)(a_2-v)/\mu`.
        """
        lines = self.loss.pieces if self.width > 0.0 else self.loss.soft
        if len(lines) == 2:
            low, high = sorted((lines[0].slope, lines[1].slope))
            return np.asarray((slope - low) * (high - slope) / (self.width or 1.0))
        if self.width == 0.0:
            return self.loss.curvature(z)
        _, shares, total = self._shares(z)
        square = sum(a * a * share for (a, _), share in zip(lines, shares, strict=True))
        return np.asarray(np.maximum(square / total - slope * slope, 0.0) / self.width)

    def steepness(self, z: Array, slope: Array) -> Array:
        r"""The second derivative of a parabola that touches the loss and is lowest where it is.

        For a loss with one round corner, lowest at :math:`z_0`, that is :math:`L'(z)/(z-z_0)`. It
        does not vanish on the lines beside the corner, where the second derivative does. For others
        it is the second derivative.
        """
        if not self.loss.rounded:
            return self.curvature(z, slope)
        (a, c), (b, e) = self.loss.rounded
        away = z + (e - c) / (b - a)
        safe = np.where(away == 0.0, 1.0, away)
        return np.asarray(np.where(away == 0.0, 1.0, slope / safe))

    def _shares(self, z: Array) -> tuple[Array, list[Array], Array]:
        lines = [a * z + c for a, c in self.loss.pieces]
        top = lines[0]
        for line in lines[1:]:
            top = np.maximum(top, line)
        shares = [np.exp((line - top) / self.width) for line in lines]
        return top, shares, np.asarray(sum(shares))


@dataclass
class ModelPoint:
    """A model with what is known of it.

    Attributes
    ----------
    x, scores : (d,), (N,)
        The model (w, b), and the scores of the rows.
    value, slopes : float, (N,)
        The mean loss, and the slope of the loss of every row.
    gradient : (d,)
        Of the mean loss.
    """

    x: Array
    scores: Array
    value: float
    slopes: Array
    gradient: Array


class Objective:
    """f on some rows, and its derivatives.

    Attributes
    ----------
    loss : Softened
        What is minimised.
    rows : AllRows
        Of whom.
    """

    def __init__(self, program: Program, rows: AllRows, loss: Softened) -> None:
        self.program, self.rows, self.loss = program, rows, loss
        self.n, self.d = program.n, program.d
        q = program.mixture.weights
        self.rho, self.mass = float(q @ program.rho), rows.mass(q)

    def arguments(self, scores: Array) -> Array:
        """Margins or residuals."""
        y = self.rows.y
        return scores * y if self.program.margin else scores - y

    def weighted(self, values: Array) -> Array:
        """Derivatives by the scores of what has these derivatives by margins or residuals."""
        return np.asarray(values * self.rows.y if self.program.margin else values) * self.mass

    def mean(self, values: Array) -> float:
        """Of values of the rows."""
        return float(
            values.sum() * self.mass if isinstance(self.mass, float) else self.mass @ values
        )

    def scores(self, x: Array, rows: AllRows | None = None) -> Array:
        """Of all rows, or of these."""
        rows = rows or self.rows
        return rows.scores(x[: self.n], float(x[self.n]) if self.d > self.n else 0.0)

    def combined(self, values: Array, rows: AllRows | None = None) -> Array:
        """Sums of all rows, or of these, and of 1 with these factors, (d,)."""
        g, gb = (rows or self.rows).combine(values)
        return np.append(g, gb)[: self.d]

    def combined_many(self, values: Array) -> Array:
        """The same for several factors of every row (K, N), in one pass."""
        return self.rows.combine_many(values)[:, : self.d]

    def at(self, x: Array, scores: Array) -> ModelPoint:
        """Everything at a model."""
        values, slopes = self.loss.value_and_slope(self.arguments(scores))
        gradient = self.combined(self.weighted(slopes))
        return ModelPoint(x, scores, self.mean(values), slopes, gradient)

    def centred(self, b: float, scale: float) -> ModelPoint:
        """The best model with w = 0, from the intercept b on, for which no row is read.

        ``scale`` is what the loss is about.
        """
        high = FAR * float(np.abs(self.rows.y).max())
        low = -high
        for _ in range(CENTRING if self.d > self.n else 0):
            z = self.arguments(np.full(len(self.rows.y), b))
            _, slopes = self.loss.value_and_slope(z)
            lean = float(self.weighted(slopes).sum())
            bent = float((self.loss.steepness(z, slopes) * self.mass).sum())
            if lean * lean <= 1e-9 * bent * scale:
                break
            low, high = (low, b) if lean > 0.0 else (b, high)
            b = b - lean / bent if bent > 0.0 else high
            b = b if low < b < high else 0.5 * (low + high)
        there = np.append(np.zeros(self.n), b)[: self.d]
        return self.at(there, np.full(len(self.rows.y), b))

    def norm(self, x: Array) -> float:
        """The dual norm of w."""
        return self.program.server.gauge.value(x)

    def slope(self, at: ModelPoint) -> Array:
        """The gradient of f with the l2 norm, away from w = 0."""
        r, norm = at.gradient.copy(), self.norm(at.x)
        if norm > 0.0:
            r[: self.n] += (self.rho / norm) * at.x[: self.n]
        return r

    def curvature(self, at: ModelPoint, careful: bool = False) -> Array:
        """The second derivatives of the rows, with their masses, or those of parabolas above."""
        bent = self.loss.steepness if careful else self.loss.curvature
        return np.asarray(bent(self.arguments(at.scores), at.slopes) * self.mass)

    def hessian(self, at: ModelPoint, careful: bool) -> Array:
        """Of the mean loss, (d, d); rows that hardly bend are left out."""
        bent = self.curvature(at, careful)
        bent[bent < FAINT * float(bent.max())] = 0.0
        return np.ascontiguousarray(self.rows.gram(bent)[: self.d, : self.d])

    def hessian_of(self, at: ModelPoint, columns: NDArray[np.intp], careful: bool) -> Array:
        """Of these columns and the intercept."""
        size = len(columns) + self.d - self.n
        return self.rows.gram_of(columns, self.curvature(at, careful))[:size, :size]

    def products(self, at: ModelPoint, careful: bool) -> Callable[[Array], Array]:
        """Of it with vectors (d,); rows that hardly bend are left out, if they are many."""
        bent = self.curvature(at, careful)
        chosen, rows = np.flatnonzero(bent > SLIGHT * float(bent.max())), self.rows
        if 0 < 2 * len(chosen) < rows.size:
            rows, bent = rows.some(chosen), bent[chosen]
        return lambda v: self.combined(bent * self.scores(v, rows), rows)

    def sizes(self, at: ModelPoint, careful: bool = True) -> Array:
        """The diagonal of it, as if all rows bent alike."""
        mean = max(float(self.curvature(at, careful).sum()), 1e-300)
        return np.append(mean * self.rows.mean_squares, mean)[: self.d]

    def along(self, at: ModelPoint, step: Array, ahead: Array) -> tuple[ModelPoint, float] | None:
        """A lower point on the way of a step, and how far that is; None: there is none.

        With the l2 norm.

        Parameters
        ----------
        at, step : ModelPoint, (d,)
            From where, and where to.
        ahead : (N,)
            By how much the whole step changes the scores.
        """
        way = Way(self, at, step, ahead)
        before, first = at.value + self.rho * self.norm(at.x), way.first()
        if not first < 0.0:
            return None
        t, low, high = 1.0, (0.0, first), (math.inf, math.inf)
        for _ in range(TRIES):
            mean, f, slope, slopes = way.look(t)
            lower = f <= before + ARMIJO * t * first
            if lower and abs(slope) <= -WOLFE * first:
                gradient = self.combined(self.weighted(slopes))
                return ModelPoint(at.x + t * step, at.scores + t * ahead, mean, slopes, gradient), t
            low, high = (low, (t, slope)) if slope > 0.0 or not lower else ((t, slope), high)
            t = _between(*low, *high)
        return None


class Way:
    """f with the l2 norm along a step, as a function of how far."""

    def __init__(self, f: Objective, at: ModelPoint, step: Array, ahead: Array) -> None:
        self.f, self.at, self.ahead = f, at, ahead
        w, s = at.x[: f.n], step[: f.n]
        self.ww, self.ws, self.ss = float(w @ w), float(w @ s), float(s @ s)
        self.weighted = f.weighted(ahead)
        self.fall = float(at.gradient @ step)

    def first(self) -> float:
        """The slope at the beginning."""
        if self.ww > 0.0:
            return self.fall + self.f.rho * self.ws / math.sqrt(self.ww)
        return self.fall + self.f.rho * math.sqrt(self.ss)

    def look(self, t: float) -> tuple[float, float, float, Array]:
        """The mean loss, f and its slope so far ahead, and the slopes of the rows."""
        f = self.f
        with np.errstate(over="ignore", invalid="ignore"):  # too far
            values, slopes = f.loss.value_and_slope(f.arguments(self.at.scores + t * self.ahead))
        norm = math.sqrt(max(self.ww + t * (2.0 * self.ws + t * self.ss), 0.0))
        bend = f.rho * (self.ws + t * self.ss) / norm if norm > 0.0 else 0.0
        mean = f.mean(values)
        return mean, mean + f.rho * norm, float(slopes @ self.weighted) + bend, slopes


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """Where a slope that rises from ``low`` to ``high`` may be 0."""
    if high == math.inf:
        return 4.0 * low
    width = high - low
    if not (low_slope < 0.0 < high_slope < math.inf):
        return low + 0.5 * width
    share = low_slope / (low_slope - high_slope)
    return low + width * min(max(share, 0.1), 0.9)
