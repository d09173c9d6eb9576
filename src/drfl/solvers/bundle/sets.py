r"""The dual norm ball and the set Q as rows of the master's QP.

Each is exact, or, where a QP has no such constraint, approximated from outside by cuts that the
server adds until the error does not matter; these cuts are valid for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from drfl._registry import lookup
from drfl.arrays import Array
from drfl.solvers.bundle.qp import Builder, QPSolution

if TYPE_CHECKING:
    from drfl.solvers.bundle.master import Layout
    from drfl.solvers.bundle.terms import Terms


class SetRows(ABC):
    """Variables and rows of one set, and how to refine them."""

    @abstractmethod
    def begin(self, layout: Layout) -> None:
        """Add variables and exact rows."""

    def put(self, builder: Builder, layout: Layout) -> None:  # noqa: B027 - exact sets have none
        """Add the rows that were cut so far."""

    def refine(self, layout: Layout, qp: QPSolution, tolerance: float) -> bool:
        """Cut the point off if its error in the objective is too large; say whether it was."""
        return False


# ---------------------------------------------------------------------- t >= ||w||_*
class MaxNorm(SetRows):
    r"""Ground norm l1: :math:`|w_j|\le t`."""

    def begin(self, layout: Layout) -> None:
        for sign in (1.0, -1.0):
            rows = layout.builder.rows(-sign * layout.origin[: layout.n])
            layout.builder.put(rows, layout.w, sign)
            layout.builder.put(rows, layout.t, -1.0)


class SumNorm(SetRows):
    r"""Ground norm linf: :math:`|w_j|\le e_j,\ \sum_je_j\le t`."""

    def begin(self, layout: Layout) -> None:
        e = layout.builder.variables(layout.n)
        for sign in (1.0, -1.0):
            rows = layout.builder.rows(-sign * layout.origin[: layout.n])
            layout.builder.put(rows, layout.w, sign)
            layout.builder.put(rows, e, -1.0)
        row = layout.builder.rows(np.zeros(1))
        layout.builder.put(row, e, 1.0)
        layout.builder.put(row, layout.t, -1.0)


class EuclideanNorm(SetRows):
    r"""Ground norm l2: tangents :math:`t\ge u_k^\top w`, and the curvature of the newest one.

    Tangents alone would need hundreds of QPs at n = 100. Adding the quadratic term
    :math:`\tfrac\pi2(w-\bar w)^\top\frac{I-\bar u\bar u^\top}{\|\bar w\|}(w-\bar w)`, with
    :math:`\pi` the price of t, makes the repetition a Newton method: it vanishes where it ends.
    """

    KEPT = 30

    def __init__(self, n: int, price: float) -> None:
        self.tangents = np.zeros((0, n))
        self.price = price
        self.at: Array | None = None

    def begin(self, layout: Layout) -> None:
        self.at = None
        w = layout.origin[: layout.n]
        if w.any():
            self._touch(w)

    def put(self, builder: Builder, layout: Layout) -> None:
        w = layout.origin[: layout.n]
        self.rows = builder.rows(-self.tangents @ w)
        builder.put(self.rows[:, None], layout.w[None], self.tangents)
        builder.put(self.rows, np.repeat(layout.t, len(self.rows)), -1.0)
        if self.at is not None:
            length = float(np.linalg.norm(self.at))
            u = self.at / length
            Q = self.price / length * (np.eye(layout.n) - np.outer(u, u))
            builder.bend(Q, Q @ (w - self.at))

    def refine(self, layout: Layout, qp: QPSolution, tolerance: float) -> bool:
        w, t = layout.origin[: layout.n] + qp.z[layout.w], float(qp.z[layout.t[0]])
        length = float(np.linalg.norm(w))
        bent = 0.0
        if self.at is not None:
            step, size = w - self.at, float(np.linalg.norm(self.at))
            bent = self.price * float(step @ step - (step @ self.at / size) ** 2) / size
        self.price = max(float(qp.multipliers[self.rows].sum()), 1e-3 * self.price)
        if max(length - t, 0.0) * layout.price + bent <= tolerance:
            return False
        self._touch(w)
        return True

    def _touch(self, w: Array) -> None:
        self.at = w
        self.tangents = np.vstack([self.tangents, w / np.linalg.norm(w)])[-self.KEPT :]


# ---------------------------------------------------------------------- h(v) = max_{q in Q} q'v
class Certain(SetRows):
    r"""Known weights: :math:`h(v)=\hat q^\top v`."""

    def begin(self, layout: Layout) -> None:
        layout.v = layout.builder.variables(layout.n_clients, cost=layout.center)


class Simplex(SetRows):
    r"""The whole simplex: :math:`h(v)=\max_sv_s`."""

    def begin(self, layout: Layout) -> None:
        build = layout.builder
        layout.v = build.variables(layout.n_clients)
        top = build.variables(1, cost=1.0)
        rows = build.rows(np.zeros(layout.n_clients))
        build.put(rows, layout.v, 1.0)
        build.put(rows, top, -1.0)


class L1Set(SetRows):
    r""":math:`h(v)=\min\ \tfrac\theta2\beta+\hat q^\top v'`, :math:`v'\ge v,\
    \gamma\le v'\le\gamma+\beta`."""

    def begin(self, layout: Layout) -> None:
        build, S = layout.builder, layout.n_clients
        layout.v = build.variables(S, cost=layout.center)
        gamma = build.variables(1)
        beta = build.variables(1, cost=layout.theta / 2.0, lower=0.0)
        below, above = build.rows(np.zeros(S)), build.rows(np.zeros(S))
        build.put(below, layout.v, -1.0)
        build.put(below, gamma, 1.0)
        build.put(above, layout.v, 1.0)
        build.put(above, gamma, -1.0)
        build.put(above, beta, -1.0)


class LInfSet(SetRows):
    r""":math:`h(v)=\min\ (1-\textstyle\sum l)\gamma+l^\top v+(u-l)^\top a`,
    :math:`a\ge v-\gamma,\ a\ge0`, with :math:`l,u` the bounds of q."""

    def begin(self, layout: Layout) -> None:
        build, S = layout.builder, layout.n_clients
        low = np.maximum(0.0, layout.center - layout.theta)
        high = np.minimum(1.0, layout.center + layout.theta)
        layout.v = build.variables(S, cost=low)
        gamma = build.variables(1, cost=1.0 - low.sum())
        a = build.variables(S, cost=high - low, lower=0.0)
        rows = build.rows(np.zeros(S))
        build.put(rows, layout.v, 1.0)
        build.put(rows, gamma, -1.0)
        build.put(rows, a, -1.0)


class L2Set(SetRows):
    r"""p = 2: :math:`\eta\ge q_k^\top v` for worst weights :math:`q_k` met so far."""

    KEPT = 60

    def __init__(self, center: Array) -> None:
        self.weights = center[None]

    def begin(self, layout: Layout) -> None:
        layout.v = layout.builder.variables(layout.n_clients)
        self.eta = layout.builder.variables(1, cost=1.0)

    def put(self, builder: Builder, layout: Layout) -> None:
        rows = builder.rows(np.zeros(len(self.weights)))
        builder.put(rows[:, None], layout.v[None], self.weights)
        builder.put(rows, self.eta, -1.0)

    def refine(self, layout: Layout, qp: QPSolution, tolerance: float) -> bool:
        v = qp.z[layout.v]
        q = layout.terms.mixture.worst_weights(v)
        if float(q @ v) - float(qp.z[self.eta[0]]) <= tolerance:
            return False
        # The first row, the centre, bounds the objective from below and is never dropped.
        self.weights = np.vstack([self.weights[:1], self.weights[1:][-self.KEPT :], q])
        return True


def norm_rows(terms: Terms) -> SetRows:
    """The rows of t >= ||w||_*."""
    price = terms.price / terms.unit
    known: dict[str, SetRows] = {
        "l1": MaxNorm(),
        "l2": EuclideanNorm(terms.n, price),
        "linf": SumNorm(),
    }
    return lookup("norm for the bundle method", terms.norm.name, known)


def mixture_rows(terms: Terms) -> SetRows:
    """The rows of h."""
    if terms.certain:
        return Certain()
    if terms.mixture.is_simplex:
        return Simplex()
    if terms.mixture.p == 2:
        return L2Set(terms.mixture.weights)
    return L1Set() if terms.mixture.p == 1 else LInfSet()
