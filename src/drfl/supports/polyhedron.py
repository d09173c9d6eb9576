"""Polyhedra: finitely many linear inequalities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drfl._sealed import sealed
from drfl.arrays import Array
from drfl.losses import Task
from drfl.supports.base import Support


@sealed
@dataclass(frozen=True, init=False, eq=False)
class Polyhedron(Support):
    r"""Rows with :math:`Cx\le d`; in regression :math:`C(x,y)\le d`, the target last.

    Parameters
    ----------
    C : array of shape (k, n) or, for regression, (k, n+1)
        One inequality per row.
    d : array of shape (k,)
        Their right-hand sides.

    Examples
    --------
    >>> Polyhedron([[1, 1], [-1, 0], [0, -1]], [1, 0, 0])
    Polyhedron(C=[[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], d=[1.0, 0.0, 0.0])
    """

    C: Array
    d: Array

    name = "polyhedron"

    def __init__(self, C: ArrayLike, d: ArrayLike) -> None:
        # Adding 0 copies, and turns -0 into 0: equal polyhedra then have equal bytes to hash.
        C, d = np.asarray(C, dtype=np.float64) + 0.0, np.asarray(d, dtype=np.float64) + 0.0
        if C.ndim != 2 or d.shape != C.shape[:1] or C.size == 0:
            raise ValueError(
                "a polyhedron needs C of shape (k, columns) and d of shape (k,), "
                f"got {C.shape} and {d.shape}"
            )
        if not (np.isfinite(C).all() and np.isfinite(d).all()):
            raise ValueError("C and d must be finite: leave out inequalities that always hold")
        for name, array in (("C", C), ("d", d)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        self._refuse_empty()

    def check(self, n_features: int, task: Task) -> None:
        columns = n_features + (task == "regression")
        if self.C.shape[1] != columns:
            last = ", y last" if task == "regression" else ""
            raise ValueError(
                f"C has {self.C.shape[1]} columns but {task} with {n_features} features needs "
                f"{columns}{last}"
            )

    def slack(self, x: Array, y: Array) -> Array:
        """Return :math:`d-Cx` for every row, (m, k)."""
        return np.asarray(self.d - self._left(x, y))

    def distance(self, x: Array, y: Array, tolerance: float) -> Array:
        beyond = -self.slack(x, y)
        points = np.column_stack([x, y])[:, : self.C.shape[1]]
        rounding = tolerance * np.maximum(np.abs(self.d), np.abs(points) @ np.abs(self.C).T)
        length = np.linalg.norm(self.C, axis=1)
        outside = np.where(beyond > rounding, beyond, 0.0) / np.where(length > 0.0, length, 1.0)
        return np.asarray(outside.max(axis=1))

    def is_bounded(self, *, targets: bool) -> bool:
        r"""Whether no direction u with :math:`Cu\le0` but 0 exists; y, if held, moves with x."""
        from scipy.optimize import linprog

        zero, columns = np.zeros(len(self.d)), self.C.shape[1]
        costs = (sign * row for row in np.eye(columns) for sign in (1.0, -1.0))
        found = (linprog(c, self.C, zero, bounds=(-1.0, 1.0), method="highs").x for c in costs)
        return all(u is not None and float(np.abs(u).max()) < 1e-9 for u in found)

    def widened(self, x: Array, y: Array) -> Polyhedron:
        return Polyhedron(self.C, np.maximum(self.d, self._left(x, y).max(axis=0)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polyhedron):
            return NotImplemented
        return np.array_equal(self.C, other.C) and np.array_equal(self.d, other.d)

    def __hash__(self) -> int:
        return hash((self.C.shape, self.C.tobytes(), self.d.tobytes()))

    def __repr__(self) -> str:
        return f"Polyhedron(C={self.C.tolist()}, d={self.d.tolist()})"

    def _left(self, x: Array, y: Array) -> Array:
        points = np.column_stack([x, y])[:, : self.C.shape[1]]  # without y in classification
        return np.asarray(points @ self.C.T)

    def _refuse_empty(self) -> None:
        from scipy.optimize import linprog  # slow to import; only polyhedra need it

        columns = self.C.shape[1]
        found = linprog(np.zeros(columns), self.C, self.d, bounds=(None, None), method="highs")
        if found.status == 2:
            raise ValueError("the polyhedron is empty: no x satisfies Cx <= d")
