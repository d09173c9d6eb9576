r"""Gaussian noise that nobody can predict, on numbers that are rounded afterwards."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from drfl.arrays import Array

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
