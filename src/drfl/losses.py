r"""The six convex losses, each a function of one scalar z.

Classification: :math:`z = y(\langle w,x\rangle+b)`, the margin. Regression:
:math:`z = \langle w,x\rangle+b-y`, the residual. A loss knows nothing of data, norms or solvers.
All stand in one file, so that a new one is written beside its like.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drfl import checks
from drfl._registry import lookup
from drfl.arrays import Array

Task = Literal["classification", "regression"]


class Piece(NamedTuple):
    """One linear piece ``slope * z + constant`` of a piecewise-linear loss."""

    slope: float
    constant: float


class Loss(ABC):
    r"""A convex, nonnegative, Lipschitz loss :math:`L(z)`.

    Attributes
    ----------
    name : str
        The registered name.
    task : {"classification", "regression"}
        Whether z is a margin (then L is nonincreasing) or a residual.
    lipschitz : float
        The smallest Lipschitz constant; it is attained as z goes to -inf or +inf.
    pieces : tuple of Piece
        Linear pieces with :math:`L(z) = \max_k a_k z + c_k`; empty if the loss is curved.
    kinks : tuple of float
        Where the slope jumps (every jump is 1); empty for smooth losses.
    slope_range : tuple of float
        The domain of the conjugate: every slope lies in it.
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    slope_range: tuple[float, float] = (-1.0, 0.0)
    pieces: tuple[Piece, ...] = ()
    kinks: tuple[float, ...] = ()

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant of L."""
        return max(abs(end) for end in self.slope_range)

    @abstractmethod
    def value(self, z: Array) -> Array:
        """L(z)."""

    @abstractmethod
    def slope(self, z: Array) -> Array:
        """One subgradient of L at z; the derivative where there is one."""

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        """L(z) and a subgradient, sharing work where that pays."""
        return self.value(z), self.slope(z)

    def curvature(self, z: Array) -> Array:
        """The second derivative where it exists; 0 for piecewise-linear losses."""
        return np.zeros_like(z)

    @abstractmethod
    def conjugate(self, v: Array) -> Array:
        r""":math:`L^*(v) = \sup_z vz - L(z)` for v in ``slope_range`` (not checked)."""


@dataclass(frozen=True)
class Hinge(Loss):
    r""":math:`L(z) = \max(0, 1-z)`."""

    name = "hinge"
    task = "classification"
    pieces = (Piece(-1.0, 1.0), Piece(0.0, 0.0))
    kinks = (1.0,)

    def value(self, z: Array) -> Array:
        return np.maximum(1.0 - z, 0.0)

    def slope(self, z: Array) -> Array:
        return -(z < 1.0).astype(z.dtype)

    def conjugate(self, v: Array) -> Array:
        return v


@dataclass(frozen=True)
class SmoothHinge(Loss):
    r""":math:`L(z) = \tfrac12 - z` for z <= 0, :math:`\tfrac12(1-z)_+^2` for z > 0."""

    name = "smooth_hinge"
    task = "classification"

    def value(self, z: Array) -> Array:
        # With s = clip(1 - z, 0, 1): s^2/2 + (1 - z - s) for z <= 0, where s = 1.
        u = np.maximum(1.0 - z, 0.0)
        s = np.minimum(u, 1.0)
        return s * (u - 0.5 * s)

    def slope(self, z: Array) -> Array:
        return -np.clip(1.0 - z, 0.0, 1.0)

    def curvature(self, z: Array) -> Array:
        return ((z >= 0.0) & (z <= 1.0)).astype(z.dtype)

    def conjugate(self, v: Array) -> Array:
        return v + 0.5 * v * v


@dataclass(frozen=True)
class Logistic(Loss):
    r""":math:`L(z) = \log(1+e^{-z})`."""

    name = "logistic"
    task = "classification"

    def value(self, z: Array) -> Array:
        return self.value_and_slope(z)[0]

    def slope(self, z: Array) -> Array:
        return self.value_and_slope(z)[1]

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        # exp of -|z| only: no overflow, and one exponential serves value and slope.
        e = np.exp(-np.abs(z))
        value = np.log1p(e)
        value -= np.minimum(z, 0.0)
        slope = np.where(z > 0.0, -e, -1.0)
        e += 1.0
        slope /= e
        return value, slope

    def curvature(self, z: Array) -> Array:
        e = np.exp(-np.abs(z))
        return e / (1.0 + e) ** 2

    def conjugate(self, v: Array) -> Array:
        return _xlogx(-v) + _xlogx(1.0 + v)


@dataclass(frozen=True)
class Huber(Loss):
    r""":math:`L(z) = \tfrac12 z^2` for :math:`|z|\le\epsilon`, else
    :math:`\epsilon|z|-\tfrac12\epsilon^2`."""

    epsilon: float = 1.35
    name = "huber"
    task = "regression"

    def __post_init__(self) -> None:
        checks.number("epsilon of huber", self.epsilon, above=0.0)
        object.__setattr__(self, "slope_range", (-self.epsilon, self.epsilon))

    def value(self, z: Array) -> Array:
        return self.value_and_slope(z)[0]

    def slope(self, z: Array) -> Array:
        return np.clip(z, -self.epsilon, self.epsilon)

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        slope = self.slope(z)
        return slope * (z - 0.5 * slope), slope

    def curvature(self, z: Array) -> Array:
        return (np.abs(z) <= self.epsilon).astype(z.dtype)

    def conjugate(self, v: Array) -> Array:
        return 0.5 * v * v


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    r""":math:`L(z) = \max(0, |z|-\epsilon)`."""

    epsilon: float = 0.1
    name = "epsilon_insensitive"
    task = "regression"

    def __post_init__(self) -> None:
        checks.number("epsilon of epsilon_insensitive", self.epsilon, least=0.0)
        eps = self.epsilon
        object.__setattr__(self, "slope_range", (-1.0, 1.0))
        object.__setattr__(self, "pieces", (Piece(1.0, -eps), Piece(-1.0, -eps), Piece(0.0, 0.0)))
        object.__setattr__(self, "kinks", (-eps, eps))

    def value(self, z: Array) -> Array:
        return np.maximum(np.abs(z) - self.epsilon, 0.0)

    def slope(self, z: Array) -> Array:
        return (z > self.epsilon).astype(z.dtype) - (z < -self.epsilon)

    def conjugate(self, v: Array) -> Array:
        return self.epsilon * np.abs(v)


@dataclass(frozen=True)
class Pinball(Loss):
    r""":math:`L(z) = \max(-\tau z, (1-\tau) z)`; the best constant is the quantile of y."""

    quantile: float = 0.5
    name = "pinball"
    task = "regression"

    def __post_init__(self) -> None:
        tau = self.quantile
        checks.number("quantile of pinball", tau, above=0.0, below=1.0)
        object.__setattr__(self, "slope_range", (-tau, 1.0 - tau))
        object.__setattr__(self, "pieces", (Piece(1.0 - tau, 0.0), Piece(-tau, 0.0)))
        object.__setattr__(self, "kinks", (0.0,))

    def value(self, z: Array) -> Array:
        return np.maximum(-self.quantile * z, (1.0 - self.quantile) * z)

    def slope(self, z: Array) -> Array:
        return (z > 0.0).astype(z.dtype) - self.quantile

    def conjugate(self, v: Array) -> Array:
        return np.zeros_like(v)


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Hinge, SmoothHinge, Logistic, Huber, EpsilonInsensitive, Pinball)
}


def make_loss(loss: str | Loss, **params: Any) -> Loss:
    """Turn a name and its parameters into a loss; a Loss passes through.

    Examples
    --------
    >>> make_loss("huber", epsilon=1.0)
    Huber(epsilon=1.0)
    """
    if isinstance(loss, Loss):
        if params:
            raise TypeError(f"a Loss object carries its own parameters; drop {', '.join(params)}")
        return loss
    kind = lookup("loss", loss, LOSSES)
    fields = kind.__dataclass_fields__  # type: ignore[attr-defined]
    if not params.keys() <= fields.keys():
        takes = ", ".join(fields) or "no parameter"
        raise TypeError(f"loss {loss!r} takes {takes}, got {', '.join(params)}")
    return kind(**params)


def _xlogx(a: Array) -> Array:
    # 0 log 0 = 0, and rounding may leave a slightly below 0.
    a = np.maximum(a, 0.0)
    return a * np.log(np.maximum(a, np.finfo(np.float64).tiny))
