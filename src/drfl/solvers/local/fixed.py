"""Rows that the interior-point method does not see one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array


@dataclass(frozen=True)
class Fixed:
    r"""Rows that are known to stay on a line: :math:`F_s` gains an affine function of (x, lambda).

    Attributes
    ----------
    constant, pull : (S,)
        The value at 0, and the slope in the client's multiplier.
    g : (S, d)
        The slope in x.
    """

    constant: Array
    g: Array
    pull: Array

    @classmethod
    def nothing(cls, S: int, d: int) -> Fixed:
        """No row is fixed."""
        return cls(np.zeros(S), np.zeros((S, d)), np.zeros(S))
