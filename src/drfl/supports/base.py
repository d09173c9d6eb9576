"""What a support is, and the trivial one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl._sealed import sealed
from drfl.arrays import Array
from drfl.losses import Task


class Support(ABC):
    """A closed convex set: where rows, and in regression their targets, may live."""

    name: ClassVar[str]

    @abstractmethod
    def check(self, n_features: int, task: Task) -> None:
        """Raise a ValueError if the support does not fit such data."""

    @abstractmethod
    def distance(self, x: Array, y: Array, tolerance: float) -> Array:
        """How far rows are outside: by how much each passes the side it passes most.

        Parameters
        ----------
        x : array of shape (m, n)
            Rows.
        y : array of shape (m,)
            Their targets; the labels of classification are never outside.
        tolerance : float
            Relative to the numbers that are compared; rows this close count as inside.

        Returns
        -------
        array of shape (m,)
            0 for the rows inside.
        """

    @abstractmethod
    def is_bounded(self, *, targets: bool) -> bool:
        """Whether rows, and with ``targets`` their targets too, cannot go to infinity."""

    @abstractmethod
    def widened(self, x: Array, y: Array) -> Support:
        """The support with its sides moved out just far enough to hold these rows."""


@sealed
@dataclass(frozen=True)
class WholeSpace(Support):
    """R^n (and R for targets): nothing is impossible."""

    name = "whole space"

    def check(self, n_features: int, task: Task) -> None:
        return None

    def distance(self, x: Array, y: Array, tolerance: float) -> Array:
        return np.zeros(len(x))

    def is_bounded(self, *, targets: bool) -> bool:
        return False

    def widened(self, x: Array, y: Array) -> WholeSpace:
        return self
