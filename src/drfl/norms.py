r"""The ground norms of the transport cost, with their duals.

The robust loss of a linear model needs the *dual* norm of w:
:math:`\|w\|_* = \max_{\|d\|\le1}\langle w,d\rangle`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drfl._registry import lookup
from drfl._sealed import sealed
from drfl.arrays import Array


class Entries(NamedTuple):
    """The nonzero entries of a matrix."""

    row: NDArray[np.intp]
    column: NDArray[np.intp]
    value: Array


@dataclass(frozen=True)
class EpigraphRows:
    r"""An epigraph by linear rows: all (w, t) with :math:`Ww+Ee+Tt\le0` for some e.

    T has one column.
    """

    n_rows: int
    n_extra: int
    w: Entries
    e: Entries
    t: Entries


@dataclass(frozen=True)
class LengthProgram:
    r"""A norm as a linear program in the absolute values of the entries.

    .. math:: \|d\| = \min_{e\ge0}\ c^\top|d|+r^\top e\quad\text{s.t.}\quad A|d|\le Be,

    with c, r and A nonnegative.

    Attributes
    ----------
    c : (n,)
    r : (m,)
    A : (k, n)
    B : (k, m)
    """

    c: Array
    r: Array
    A: Array
    B: Array


class Norm(ABC):
    """A norm on R^n and what its dual needs.

    Two of the same class with the same parameters are the same norm.
    """

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, d: Array) -> Array:
        """The norm along the last axis."""

    @abstractmethod
    def dual(self, w: Array) -> float:
        r"""The dual norm :math:`\|w\|_*`; 0 for an empty vector."""

    @abstractmethod
    def steepest(self, w: Array) -> Array:
        r"""A vector u with :math:`\|u\|\le1` and :math:`\langle w,u\rangle=\|w\|_*`.

        It is the direction in which a row moves at the least cost, and a subgradient of
        :math:`\|\cdot\|_*` at w. At w = 0 it is 0.
        """

    @abstractmethod
    def project_ball(self, v: Array) -> Array:
        r"""The Euclidean projection of v onto :math:`\{\|v\|\le1\}`."""

    def dual_rows(self, n: int) -> EpigraphRows | None:
        r"""The constraint :math:`\|w\|_*\le t` on R^n; None if it is not made of linear rows."""
        return None

    def dual_extra(self, w: Array) -> Array:
        """The further variables of these rows at w, so that they hold with t the dual norm."""
        return w[:0]

    def dual_curvature(self, w: Array, price: float = 1.0) -> Array | None:
        r"""``price`` times the second derivative of :math:`\|w\|_*`; None: there is none."""
        return None

    def box_lengths(self, room: Array, g: Array, price: float) -> Array:
        r"""How far rows go in a box: maximisers of :math:`\langle g,d\rangle-\lambda\|d\|`.

        For norms of the absolute values :math:`|d_j|` that do not fall as one of them grows.
        Without it a norm is refused on boxes.

        Parameters
        ----------
        room : array of shape (m, n)
            How far each entry of each row can go, :math:`0\le d\le` room; inf: without end.
        g : array of shape (n,)
            Nonnegative.
        price : float
            :math:`\lambda`, at least the dual norm of the entries of g without end.

        Returns
        -------
        array of shape (m, n)
            d; finite.
        """
        raise NotImplementedError

    def length_program(self, n: int) -> LengthProgram:
        """The norm on R^n as a linear program; without it a norm is refused on polyhedra."""
        raise NotImplementedError

    def states(self, what: Literal["box_lengths", "length_program"]) -> bool:
        """Whether the norm says this of itself."""
        return getattr(type(self), what) is not getattr(Norm, what)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Norm) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> bytes:
        """All that sets the norm apart from others: its class and its parameters."""
        kind = type(self)
        return _written([kind.__module__, kind.__qualname__, self.__getstate__()])

    def __repr__(self) -> str:
        return f"<norm {self.name}>"


@sealed
@dataclass(frozen=True, repr=False)
class L1(Norm):
    r""":math:`\|d\|_1`; dual :math:`\|w\|_\infty`. Only one feature moves."""

    name = "l1"

    def __call__(self, d: Array) -> Array:
        return np.asarray(np.abs(d).sum(axis=-1))

    def dual(self, w: Array) -> float:
        return float(np.abs(w).max(initial=0.0))

    def steepest(self, w: Array) -> Array:
        u = np.zeros_like(w)
        if w.size:
            j = int(np.argmax(np.abs(w)))
            u[j] = np.sign(w[j])
        return u

    def project_ball(self, v: Array) -> Array:
        a = np.abs(v)
        if a.sum() <= 1.0:
            return v.copy()
        # Soft threshold at the level that makes the absolute values sum to 1. All are measured
        # from the largest: it may be so large that 1 is lost beside it.
        a -= a.max()
        down = np.sort(a)[::-1]
        excess = (np.cumsum(down) - 1.0) / np.arange(1, len(down) + 1)
        level = float(excess[np.flatnonzero(down > excess)[-1]])
        return np.sign(v) * np.maximum(a - level, 0.0)

    def dual_rows(self, n: int) -> EpigraphRows:
        r""":math:`\pm w_j\le t`."""
        rows, w = np.arange(2 * n), _both_signs(n)
        none = Entries(rows[:0], rows[:0], np.zeros(0))
        return EpigraphRows(2 * n, 0, w, none, Entries(rows, 0 * rows, np.full(2 * n, -1.0)))

    def box_lengths(self, room: Array, g: Array, price: float) -> Array:
        r""":math:`r_j` where :math:`g_j>\lambda`."""
        return np.where((g > price) & np.isfinite(room), room, 0.0)

    def length_program(self, n: int) -> LengthProgram:
        return LengthProgram(np.ones(n), np.zeros(0), np.zeros((0, n)), np.zeros((0, 0)))


@sealed
@dataclass(frozen=True, repr=False)
class L2(Norm):
    r""":math:`\|d\|_2`; its own dual."""

    name = "l2"

    def __call__(self, d: Array) -> Array:
        return np.asarray(np.linalg.norm(d, axis=-1))

    def dual(self, w: Array) -> float:
        return float(np.linalg.norm(w))

    def steepest(self, w: Array) -> Array:
        length = float(np.linalg.norm(w))
        return w / length if length > 0.0 else np.zeros_like(w)

    def project_ball(self, v: Array) -> Array:
        return v / max(1.0, float(np.linalg.norm(v)))

    def dual_curvature(self, w: Array, price: float = 1.0) -> Array | None:
        length = float(np.linalg.norm(w))
        if length == 0.0:
            return None
        u = w / length
        return np.asarray(price / length * (np.eye(len(w)) - np.outer(u, u)))

    def box_lengths(self, room: Array, g: Array, price: float) -> Array:
        r""":math:`d_j(s)=\min(g_js,r_j)` for the s with :math:`\|d(s)\|=\lambda s`.

        :math:`f(s)=\sum_j\min(g_j,r_j/s)^2` decreases; faces are reached in the order of
        :math:`r_j/g_j`. With k faces reached :math:`s^2=\sum_{\text{reached}}r_j^2 /
        (\lambda^2-\sum_{\text{others}}g_j^2)`.
        """
        finite = np.isfinite(room)
        ratio = np.divide(room, g, out=np.zeros_like(room), where=g > 0.0)
        order = np.argsort(ratio, axis=1)
        t = np.take_along_axis(ratio, order, axis=1)
        r2 = np.cumsum(np.take_along_axis(np.where(finite, room, 0.0), order, axis=1) ** 2, axis=1)
        others = np.zeros_like(room)
        others[:, :-1] = np.cumsum((g[order] ** 2)[:, :0:-1], axis=1)[:, ::-1]
        # A coordinate without room is at its face from the start, one with all the room never.
        at_faces = np.divide(r2, t * t, out=np.full_like(t, math.inf), where=t > 0.0)
        reached = np.count_nonzero((others + at_faces >= price * price) & np.isfinite(t), axis=1)
        last = np.maximum(reached - 1, 0)[:, None]
        r2, others = np.take_along_axis(r2, last, axis=1), np.take_along_axis(others, last, axis=1)
        left = price * price - others
        s2 = np.divide(r2, left, out=np.where(r2 > 0.0, math.inf, 0.0), where=left > 0.0)
        s = np.where(reached[:, None] > 0, np.sqrt(s2), 0.0)
        return np.minimum(np.multiply(s, g, out=np.zeros_like(room), where=g > 0.0), room)


@sealed
@dataclass(frozen=True, repr=False)
class LInf(Norm):
    r""":math:`\|d\|_\infty`; dual :math:`\|w\|_1`. All features move at once."""

    name = "linf"

    def __call__(self, d: Array) -> Array:
        return np.asarray(np.abs(d).max(axis=-1, initial=0.0))

    def dual(self, w: Array) -> float:
        return float(np.abs(w).sum())

    def steepest(self, w: Array) -> Array:
        return np.sign(w)

    def project_ball(self, v: Array) -> Array:
        return np.clip(v, -1.0, 1.0)

    def dual_rows(self, n: int) -> EpigraphRows:
        r""":math:`\pm w_j\le e_j,\ \sum_je_j\le t`."""
        j, last = np.arange(n), np.full(n, 2 * n)
        e = Entries(
            np.concatenate([j, n + j, last]),
            np.tile(j, 3),
            np.concatenate([np.full(2 * n, -1.0), np.ones(n)]),
        )
        t = Entries(np.array([2 * n]), np.array([0]), np.array([-1.0]))
        return EpigraphRows(2 * n + 1, n, _both_signs(n), e, t)

    def dual_extra(self, w: Array) -> Array:
        return np.abs(w)

    def box_lengths(self, room: Array, g: Array, price: float) -> Array:
        r""":math:`\min(r,r_j)`: beyond r the sum of g over the rooms falls to the price."""
        order = np.argsort(-room, axis=1)
        down = np.take_along_axis(room, order, axis=1)
        # Infinite rooms never outweigh the price (it is above the floor), whatever rounding says.
        weight = np.cumsum(g[order], axis=1)
        enough = (weight > price) & np.isfinite(down)
        k = np.argmax(enough, axis=1)[:, None]
        r = np.where(np.take_along_axis(enough, k, axis=1), np.take_along_axis(down, k, axis=1), 0)
        return np.minimum(room, r)

    def length_program(self, n: int) -> LengthProgram:
        return LengthProgram(np.zeros(n), np.ones(1), np.eye(n), np.ones((n, 1)))


@sealed
@dataclass(frozen=True, repr=False)
class GroupedLInf(Norm):
    r"""linf between the columns of curves: :math:`\max_j\sum_p|d_{jp}|` over ramps p of column j.

    Its dual is :math:`\sum_j\max_p|s_{jp}|`: a column whose curve is flat costs nothing.

    Parameters
    ----------
    sizes : tuple of int
        How many ramps every column has.
    """

    sizes: tuple[int, ...]
    name = "linf"

    @property
    def starts(self) -> NDArray[np.intp]:
        """Where every column begins."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.intp)

    @property
    def column(self) -> NDArray[np.intp]:
        """The column of every ramp."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def __call__(self, d: Array) -> Array:
        sums = np.add.reduceat(np.abs(d), self.starts, axis=-1)
        return np.asarray(sums.max(axis=-1, initial=0.0))

    def dual(self, w: Array) -> float:
        return float(self.dual_extra(w).sum())

    def steepest(self, w: Array) -> Array:
        u = np.zeros_like(w)
        for start, size in zip(self.starts, self.sizes, strict=True):
            p = start + int(np.argmax(np.abs(w[start : start + size])))
            u[p] = np.sign(w[p])
        return u

    def project_ball(self, v: Array) -> Array:
        ball, columns = L1(), np.split(v, self.starts[1:])
        return np.concatenate([ball.project_ball(column) for column in columns])

    def dual_rows(self, n: int) -> EpigraphRows:
        r""":math:`\pm s_{jp}\le e_j,\ \sum_je_j\le t`."""
        J, column = len(self.sizes), self.column
        e = Entries(
            np.concatenate([np.arange(2 * n), np.full(J, 2 * n)]),
            np.concatenate([np.tile(column, 2), np.arange(J)]),
            np.concatenate([np.full(2 * n, -1.0), np.ones(J)]),
        )
        t = Entries(np.array([2 * n]), np.array([0]), np.array([-1.0]))
        return EpigraphRows(2 * n + 1, J, _both_signs(n), e, t)

    def dual_extra(self, w: Array) -> Array:
        return np.asarray(np.maximum.reduceat(np.abs(w), self.starts))


def _both_signs(n: int) -> Entries:
    """n rows with w_j, then n with -w_j."""
    return Entries(np.arange(2 * n), np.tile(np.arange(n), 2), np.repeat([1.0, -1.0], n))


def _written(value: Any) -> bytes:
    """A value so that others differ from it: of a plain kind, or made of such."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcSU":
        entries = np.ascontiguousarray(value)
        return f"{entries.dtype.str}{entries.shape}".encode() + bytes(entries.tobytes())
    if isinstance(value, dict):
        value = sorted(value.items())
    if isinstance(value, list | tuple):
        parts = [_written(part) for part in value]
        return b"".join(b"(%d)" % len(part) + part for part in parts)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value).encode()
    if isinstance(value, Norm):
        return value.identity
    raise TypeError(
        f"a {type(value).__name__} as a parameter of a norm cannot be compared: take numbers, "
        "texts and arrays"
    )


NORMS: dict[str, Norm] = {norm.name: norm for norm in (L1(), L2(), LInf())}


def make_norm(norm: str | Norm) -> Norm:
    """Turn a name into a norm; a Norm passes through."""
    return norm if isinstance(norm, Norm) else lookup("norm", norm, NORMS)
