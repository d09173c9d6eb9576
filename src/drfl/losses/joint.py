r"""Losses of K scores at once: several classes in one problem.

With scores :math:`z=Wx+b` in R^K and the class y. Arrays of scores are (K, m), a column per row.
Both losses grow along d at the rate :math:`\max_j\langle W_j-W_y,d\rangle` in the end, so that the
dearest pair of classes prices the transport; and for both a label moves to the class with the
lowest score, if to any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses.base import Loss
from drfl.losses.known import Hinge, Logistic

Codes = NDArray[np.intp]


class JointLoss(ABC):
    r"""A convex, nonnegative loss :math:`\ell(z,y)` that does not change with :math:`z+c1`.

    Attributes
    ----------
    of : type of Loss
        The loss of two classes that it continues.
    kinks : bool
        Whether its slope jumps.
    linear_gain : bool
        Whether :math:`\ell(z,y')-\ell(z,y)` is linear in z.
    """

    of: ClassVar[type[Loss]]
    kinks: ClassVar[bool]
    linear_gain: ClassVar[bool]

    @abstractmethod
    def at_zero(self, classes: int) -> float:
        """The loss of a row whose scores are equal."""

    @abstractmethod
    def value(self, z: Array, y: Codes) -> Array:
        """The losses (m,)."""

    @abstractmethod
    def slope(self, z: Array, y: Codes) -> Array:
        """A subgradient in the scores, (K, m); every column adds up to 0."""

    @abstractmethod
    def shares(self, z: Array, y: Codes, width: float) -> tuple[Array, float]:
        r"""p (K, m) and :math:`\tau`: :math:`(\mathrm{diag}\,p-pp^\top)/\tau` is the curvature.

        ``width`` is how far from a kink rows count where there are kinks.
        """

    @abstractmethod
    def distances(self, z: Array, y: Codes) -> Array:
        """How far from a kink every row is (m,); infinity: there is none."""

    @property
    def end(self) -> float:
        r"""The largest e with :math:`\ell(z,y)\ge e+z_j-z_y` for all j; far out it is as much."""
        first, second = np.array([[1.0], [0.0]]), np.array([1])
        return float(self.level(first, second)[0]) + 0.0

    @abstractmethod
    def level(self, p: Array, y: Codes) -> Array:
        r"""The largest c (m,) with :math:`\ell(z,y)\ge c+\langle p-e_y,z\rangle` for all z.

        The columns of p (K, m) are in the simplex.
        """


class SoftmaxCrossEntropy(JointLoss):
    r""":math:`\ell(z,y)=\log\sum_je^{z_j}-z_y`; with two classes the logistic loss."""

    of = Logistic
    kinks = False
    linear_gain = True

    def at_zero(self, classes: int) -> float:
        return float(np.log(classes))

    def value(self, z: Array, y: Codes) -> Array:
        top = z.max(axis=0)
        sums = np.exp(z - top).sum(axis=0)
        return np.asarray(top - _own(z, y) + np.log(sums))

    def slope(self, z: Array, y: Codes) -> Array:
        return less_own(softmax(z), y)

    def shares(self, z: Array, y: Codes, width: float) -> tuple[Array, float]:
        return softmax(z), 1.0

    def distances(self, z: Array, y: Codes) -> Array:
        return np.full(len(y), np.inf)

    def level(self, p: Array, y: Codes) -> Array:
        return np.asarray(-(p * np.log(np.maximum(p, np.finfo(np.float64).tiny))).sum(axis=0))


class CrammerSinger(JointLoss):
    r""":math:`\ell(z,y)=\max_j(z_j+[j\ne y])-z_y`; with two classes the hinge loss of their
    difference."""

    of = Hinge
    kinks = True
    linear_gain = False

    def at_zero(self, classes: int) -> float:
        return 1.0

    def value(self, z: Array, y: Codes) -> Array:
        return np.asarray(raised_scores(z, y).max(axis=0) - _own(z, y))

    def slope(self, z: Array, y: Codes) -> Array:
        raised = raised_scores(z, y)
        best = (raised >= raised.max(axis=0)).astype(np.float64)
        return less_own(best / best.sum(axis=0), y)

    def shares(self, z: Array, y: Codes, width: float) -> tuple[Array, float]:
        tau = 0.5 * width
        return softmax(raised_scores(z, y) / tau), tau

    def level(self, p: Array, y: Codes) -> Array:
        return np.asarray(1.0 - _own(p, y))

    def distances(self, z: Array, y: Codes) -> Array:
        """By how much the best score beats the next."""
        raised = np.sort(raised_scores(z, y), axis=0)
        return np.asarray(raised[-1] - raised[-2])


JOINT: dict[str, JointLoss] = {
    loss.of.name: loss for loss in (SoftmaxCrossEntropy(), CrammerSinger())
}


def joint_of(loss: Loss) -> JointLoss | None:
    """The loss of several classes that continues this one; another one of its name has none."""
    joint = JOINT.get(loss.name)
    return joint if joint is not None and type(loss) is joint.of else None


def gain(loss: JointLoss, z: Array, y: Codes) -> tuple[Array, Codes]:
    r""":math:`\max_{y'\ne y}\ell(z,y')-\ell(z,y)` of every row, and the best y'."""
    others = z.copy()
    others[y, np.arange(z.shape[1])] = np.inf
    target = others.argmin(axis=0)
    if loss.linear_gain:
        return _own(z, y) - _own(z, target), target
    return loss.value(z, target) - loss.value(z, y), target


def turn(loss: JointLoss, z: Array, y: Codes, target: Codes) -> Array:
    """By how much the slope changes when the label does, (K, m)."""
    if not loss.linear_gain:
        return loss.slope(z, target) - loss.slope(z, y)
    change, rows = np.zeros(z.shape), np.arange(z.shape[1])
    change[y, rows] = 1.0
    change[target, rows] -= 1.0
    return change


def softmax(z: Array) -> Array:
    """Probabilities (K, m) of scores."""
    e = np.exp(z - z.max(axis=0))
    e /= e.sum(axis=0)
    return np.asarray(e)


def less_own(p: Array, y: Codes) -> Array:
    r""":math:`p-e_y`, in place."""
    p[y, np.arange(p.shape[1])] -= 1.0
    return p


def _own(z: Array, y: Codes) -> Array:
    return np.asarray(z[y, np.arange(z.shape[1])])


def raised_scores(z: Array, y: Codes) -> Array:
    r""":math:`z_j+[j\ne y]`, (K, m): the loss of Crammer and Singer is their largest, less z_y."""
    return less_own(z + 1.0, y)
