r"""The gauge and the set Q as rows of the master's QP.

Each is exact, or, where a QP has no such constraint, approximated from outside by cuts that the
server adds until the error does not matter; these cuts are valid for ever.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from drfl.arrays import Array
from drfl.gauges import Gauge
from drfl.norms import EpigraphRows
from drfl.solvers.certificate.cuts import sums
from drfl.solvers.master.qp import Builder, QPSolution
from drfl.uncertainty import Mixture

if TYPE_CHECKING:
    from drfl.solvers.certificate.server import ServerProblem
    from drfl.solvers.master.master import Layout


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


# ---------------------------------------------------------------------- t >= gauge(x)
class ExactGauge(SetRows):
    """A gauge whose epigraph is made of linear rows."""

    def __init__(self, rows: EpigraphRows) -> None:
        self.epigraph = rows

    def begin(self, layout: Layout) -> None:
        build, w, e, t = layout.builder, self.epigraph.w, self.epigraph.e, self.epigraph.t
        more = build.variables(self.epigraph.n_extra)
        here = sums(w.row, w.value * layout.origin[w.column], self.epigraph.n_rows)
        rows = build.rows(-here)
        build.put(rows[w.row], layout.w[w.column], w.value)
        build.put(rows[e.row], more[e.column], e.value)
        build.put(rows[t.row], layout.t[t.column], t.value)


class TangentGauge(SetRows):
    r"""Any gauge: tangents :math:`t\ge u_k^\top w`, and the curvature of the newest one.

    Tangents alone would need hundreds of QPs for the Euclidean norm at n = 100. Adding the
    quadratic term :math:`\tfrac\pi2(w-\bar w)^\top\nabla^2\mathrm{gauge}(\bar w)(w-\bar w)`, with
    :math:`\pi` the price of t, makes the repetition a Newton method: it vanishes where it ends.
    """

    KEPT = 30  # touches of a gauge with one tangent at a time, or as many rows as ten have

    def __init__(self, gauge: Gauge, price: float) -> None:
        self.gauge = gauge
        self.prices = np.full(gauge.kinds, price / gauge.kinds)
        self.tangents, self.kind = np.zeros((0, gauge.n)), np.zeros(0, np.intp)
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
        Q = self._bend()
        if Q is not None and self.at is not None:
            builder.bend(Q, Q @ (w - self.at))

    def refine(self, layout: Layout, qp: QPSolution, tolerance: float) -> bool:
        w, t = layout.origin[: layout.n] + qp.z[layout.w], float(qp.z[layout.t[0]])
        bent, Q = 0.0, self._bend()
        if Q is not None and self.at is not None:
            bent = float((w - self.at) @ Q @ (w - self.at))
        paid = sums(self.kind, qp.multipliers[self.rows], self.gauge.kinds)
        self.prices = np.maximum(paid, 1e-3 * self.prices)
        if max(self.gauge.value(w) - t, 0.0) * layout.price + bent <= tolerance:
            return False
        self._touch(w)
        return True

    def _bend(self) -> Array | None:
        return None if self.at is None else self.gauge.mixed_curvature(self.at, self.prices)

    def _touch(self, w: Array) -> None:
        self.at = w
        tangents, kind = self.gauge.tangents(w)
        kept = max(self.KEPT, 10 * self.gauge.kinds if self.gauge.kinds > 1 else 0)
        self.tangents = np.vstack([self.tangents, tangents])[-kept:]
        self.kind = np.append(self.kind, kind)[-kept:]


# ---------------------------------------------------------------------- h(v) = max_{q in Q} q'v
class Certain(SetRows):
    r"""Known weights: :math:`h(v)=\hat q^\top v`."""

    def begin(self, layout: Layout) -> None:
        clients = np.arange(layout.n_clients)
        layout.v = layout.builder.variables(len(clients), cost=layout.center, owner=clients)


class Simplex(SetRows):
    r"""The whole simplex: :math:`h(v)=\max_sv_s`."""

    def begin(self, layout: Layout) -> None:
        build, clients = layout.builder, np.arange(layout.n_clients)
        layout.v = build.variables(len(clients), owner=clients)
        top = build.variables(1, cost=1.0)
        rows = build.rows(np.zeros(layout.n_clients))
        build.put(rows, layout.v, 1.0)
        build.put(rows, top, -1.0)


class L1Set(SetRows):
    r""":math:`h(v)=\min\ \tfrac\theta2\beta+\hat q^\top v'`, :math:`v'\ge v,\
    \gamma\le v'\le\gamma+\beta`."""

    def begin(self, layout: Layout) -> None:
        build, S = layout.builder, layout.n_clients
        layout.v = build.variables(S, cost=layout.center, owner=np.arange(S))
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
        layout.v = build.variables(S, cost=low, owner=np.arange(S))
        gamma = build.variables(1, cost=1.0 - low.sum())
        a = build.variables(S, cost=high - low, lower=0.0, owner=np.arange(S))
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
        q = layout.server.mixture.worst_weights(v)
        if float(q @ v) - float(qp.z[self.eta[0]]) <= tolerance:
            return False
        # The first row, the centre, bounds the objective from below and is never dropped.
        self.weights = np.vstack([self.weights[:1], self.weights[1:][-self.KEPT :], q])
        return True


class Capped(SetRows):
    r"""No weight above m: :math:`h(v)=\min_{a\ge0}h_Q(v-a)+m\sum_sa_s`."""

    def __init__(self, inner: SetRows, most: float) -> None:
        self.inner, self.most = inner, most

    def begin(self, layout: Layout) -> None:
        self.inner.begin(layout)
        build, S, below = layout.builder, layout.n_clients, layout.v
        layout.v = build.variables(S, owner=np.arange(S))
        a = build.variables(S, cost=self.most, lower=0.0, owner=np.arange(S))
        rows = build.rows(np.zeros(S))
        build.put(rows, layout.v, 1.0)
        build.put(rows, below, -1.0)
        build.put(rows, a, -1.0)


def gauge_rows(server: ServerProblem) -> SetRows:
    """The rows of t >= gauge(x)."""
    exact = server.gauge.rows()
    if exact is not None:
        return ExactGauge(exact)
    return TangentGauge(server.gauge, server.price / server.unit)


def mixture_rows(server: ServerProblem) -> SetRows:
    """The rows of h."""
    if server.certain:
        return Certain()
    if server.mixture.is_capped:
        free = replace(server.mixture, max_weight=math.inf)
        return Capped(_uncapped(free), server.mixture.max_weight)
    return _uncapped(server.mixture)


def _uncapped(mixture: Mixture) -> SetRows:
    if mixture.is_simplex:
        return Simplex()
    if mixture.p == 2:
        return L2Set(mixture.weights)
    return L1Set() if mixture.p == 1 else LInfSet()
