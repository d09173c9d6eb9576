r"""The six losses that have a name, and how a new one gets its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drfl import checks
from drfl._registry import lookup
from drfl.arrays import Array
from drfl.losses.base import Line, Loss
from drfl.losses.check import check


@dataclass(frozen=True)
class Hinge(Loss):
    r""":math:`L(z) = \max(0, 1-z)`."""

    name = "hinge"
    task = "classification"
    pieces = (Line(-1.0, 1.0), Line(0.0, 0.0))
    kinks = (1.0,)
    flipped = Line(1.0, 1.0)

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
    rounded = (Line(0.0, 0.0), Line(-1.0, 1.0))
    flipped = Line(1.0, 0.5)

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
    soft = (Line(0.0, 0.0), Line(-1.0, 0.0))
    linear_gain = True

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
        object.__setattr__(self, "rounded", (Line(self.epsilon, 0.0), Line(-self.epsilon, 0.0)))

    def value(self, z: Array) -> Array:
        return self.value_and_slope(z)[0]

    def slope(self, z: Array) -> Array:
        return np.maximum(np.minimum(z, self.epsilon), -self.epsilon)

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        slope = self.slope(z)
        value = -0.5 * slope
        value += z
        value *= slope
        return value, slope

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
        object.__setattr__(self, "pieces", (Line(1.0, -eps), Line(-1.0, -eps), Line(0.0, 0.0)))
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
        object.__setattr__(self, "pieces", (Line(1.0 - tau, 0.0), Line(-tau, 0.0)))
        object.__setattr__(self, "kinks", (0.0,))

    def value(self, z: Array) -> Array:
        return np.maximum(-self.quantile * z, (1.0 - self.quantile) * z)

    def slope(self, z: Array) -> Array:
        return (z > 0.0).astype(z.dtype) - self.quantile

    def conjugate(self, v: Array) -> Array:
        return np.zeros_like(v)


OWN = (Hinge, SmoothHinge, Logistic, Huber, EpsilonInsensitive, Pinball)
LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in OWN}
_CHECKED: set[Loss] = set()


def make_loss(loss: str | Loss, **params: Any) -> Loss:
    """Turn a name and its parameters into a loss; a Loss passes through.

    A loss that is not one of drfl's own is checked once: whether it is what it states.

    Examples
    --------
    >>> make_loss("huber", epsilon=1.0)
    Huber(epsilon=1.0)
    """
    if isinstance(loss, Loss):
        if params:
            raise TypeError(f"a Loss object carries its own parameters; drop {', '.join(params)}")
        return _checked(loss)
    kind = lookup("loss", loss, LOSSES)
    fields = kind.__dataclass_fields__  # type: ignore[attr-defined]
    if not params.keys() <= fields.keys():
        takes = ", ".join(fields) or "no parameter"
        raise TypeError(f"loss {loss!r} takes {takes}, got {', '.join(params)}")
    return _checked(kind(**params))


def _checked(loss: Loss) -> Loss:
    """The loss, if it is what it states; those of this file have their tests."""
    if type(loss).__hash__ is None:
        raise TypeError(f"{type(loss).__name__} can be changed: make a loss a frozen dataclass")
    if not (type(loss) in OWN or loss in _CHECKED):
        check(loss)
        _CHECKED.add(loss)
    return loss


def _xlogx(a: Array) -> Array:
    # 0 log 0 = 0, and rounding may leave a slightly below 0.
    a = np.maximum(a, 0.0)
    return a * np.log(np.maximum(a, np.finfo(np.float64).tiny))
