r"""The master problem: the cut model plus a proximal term, as one QP.

.. math::
    \min_{x}\ h\big(v\big)+\tfrac12\|x-\hat x\|_M^2
    \quad\text{s.t.}\quad v_s\ge\rho_s\lambda_s+\sum_{p\in j}\mathrm{share}_pu_p\ \text{for every
    family } j,\quad u_p\ge\text{cuts},\quad \lambda_s\ge t\ge\|w\|_*.

The norm and the set Q are exact constraints, so that cuts need not learn them. What a QP does not
have (the Euclidean norm, Q with p = 2) is cut off on the server, which costs no communication.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.cuts import Cuts, Pool, Solution
from drfl.solvers.certificate.region import LevelSet, Region, proved_region
from drfl.solvers.certificate.server import ServerProblem
from drfl.solvers.master.qp import Builder, Ints, QPSolution
from drfl.solvers.master.set_rows import SetRows, gauge_rows, mixture_rows


class Layout:
    """Where the variables and rows of one master are; the sets add theirs to it."""

    def __init__(self, server: ServerProblem, pool: Pool, cuts: Cuts, origin: Array) -> None:
        self.server, self.pool, self.cuts, self.origin = server, pool, cuts, origin
        self.n, self.n_clients = server.n, server.n_clients
        self.center, self.theta = server.mixture.weights, server.mixture.radius
        self.rho = server.rho / server.unit
        self.builder = Builder()
        costs = np.zeros(server.dimension)
        if server.is_shared:
            costs[-1] = server.shared_rho / server.unit
        self.x = self.builder.variables(server.dimension, cost=costs)
        self.offset = float(costs @ origin)  # the variables are steps from the origin
        self.w, self.price = self.x[: self.n], server.price / server.unit
        self.v = self.t = np.zeros(0, np.intp)  # v is placed by the mixture's rows
        floor = server.floor * server.unit
        if server.priced and server.kind != "box":
            self.t = self.builder.variables(1, lower=float(floor.min()))
        if server.lambdas:
            clients = np.arange(self.n_clients)
            self.lam = self.builder.variables(self.n_clients, lower=floor, owner=clients)
        elif server.priced:
            self.lam = np.repeat(self.t, self.n_clients)

    def put_cuts(self) -> None:
        """The rows of the cuts, of the families, and what ties the multipliers to the norm."""
        pool, cuts, build = self.pool, self.cuts, self.builder
        family = pool.piece_family[cuts.piece]
        grouped = np.bincount(pool.piece_family, minlength=len(pool.family_client)) > 1
        told = np.zeros(len(grouped), np.bool_)
        told[family] = True
        is_live = grouped & told
        live, pieces = np.flatnonzero(is_live), np.flatnonzero(is_live[pool.piece_family])
        u = np.full(len(pool.piece_share), -1)
        owner = pool.piece_client[pieces]
        u[pieces] = build.variables(len(pieces), lower=0.0, owner=owner)
        client = pool.family_client[family]
        direct = ~grouped[family]
        scaled = cuts.g * self.server.scale
        self.cut_rows = rows = build.rows(-(cuts.c + scaled @ self.origin))
        build.put(rows[:, None], self.x[None], scaled)
        build.put(rows, np.where(direct, self.v[client], u[cuts.piece]), -1.0)
        if self.server.priced:
            price = cuts.slope / self.server.unit + np.where(direct, self.rho[client], 0.0)
            build.put(rows, self.lam[client], price)
        self.live, owner = live, pool.family_client[live]
        position = np.searchsorted(live, pool.piece_family[pieces])
        self.family_rows = rows = build.rows(np.zeros(len(live)))
        build.put(rows[position], u[pieces], pool.piece_share[pieces])
        build.put(rows, self.v[owner], -1.0)
        self.trivial_rows = trivial = build.rows(np.zeros(self.n_clients))  # losses are >= 0
        build.put(trivial, self.v, -1.0)
        if self.server.priced:
            build.put(rows, self.lam[owner], self.rho[owner])
            build.put(trivial, self.lam, self.rho)
        if self.server.is_shared:
            self._put_shared()
        if self.server.lambdas and self.server.kind == "flips":
            rows = build.rows(np.zeros(self.n_clients))
            build.put(rows, self.lam, -1.0)
            build.put(rows, np.repeat(self.t, self.n_clients), 1.0)
        if self.server.kind == "box" and self.server.priced:
            self._put_clipping(client)

    def _put_shared(self) -> None:
        r"""The shared multiplier is nonnegative, and on the whole space :math:`\lambda\ge t`."""
        row = self.builder.rows(self.origin[-1:])
        self.builder.put(row, self.x[-1:], -1.0)
        if len(self.t):
            self.builder.put(row, self.t, 1.0)

    def _put_clipping(self, client: Ints) -> None:
        r"""The variables :math:`\omega_s,r_s` with :math:`|\omega_s|\le\lambda_s,\
        |w-\omega_s|\le r_s`, and their part in the cuts."""
        build, S, n = self.builder, self.n_clients, self.n
        omega = build.variables(S * n).reshape(S, n)
        r = build.variables(S * n).reshape(S, n)
        rows = self.cut_rows[:, None]
        lift = self.cuts.lift / self.server.unit
        build.put(rows, omega[client], lift[:, :n])
        build.put(rows, r[client], lift[:, n:] * self.server.half[client])
        self.clipping = []
        for sign in (1.0, -1.0):
            near = build.rows(np.tile(-sign * self.origin[:n], S)).reshape(S, n)
            build.put(near, np.broadcast_to(self.w, (S, n)), sign)
            build.put(near, omega, -sign)
            build.put(near, r, -1.0)
            self.clipping.append(near)
            small = build.rows(np.zeros(S * n)).reshape(S, n)
            build.put(small, omega, sign)
            build.put(small, self.lam[:, None], -1.0)

    def read(self, qp: QPSolution, value: float) -> Solution:
        """Back to the user's units."""
        pool = self.pool
        a = qp.multipliers[self.cut_rows]
        families = np.zeros(len(pool.family_client))
        families[self.live] = qp.multipliers[self.family_rows]
        family = pool.piece_family[self.cuts.piece]
        is_live = np.zeros(len(families), np.bool_)
        is_live[self.live] = True
        direct = ~is_live[family]
        np.add.at(families, family[direct], a[direct])
        trivial = qp.multipliers[self.trivial_rows]
        weights = np.bincount(pool.family_client, families, self.n_clients) + trivial
        clipping = np.zeros((self.n_clients, self.n))
        if self.server.kind == "box" and self.server.priced:
            upper, lower = (qp.multipliers[rows] for rows in self.clipping)
            clipping = (upper - lower) * self.server.unit
        x = (self.origin + qp.z[self.x]) * self.server.scale
        if self.server.is_shared:  # feasible to the last bit, so that values there are upper bounds
            x[-1] = max(x[-1], self.server.multiplier(0, x) if len(self.t) else 0.0)
        x = self.server.gauge.nearest(x)
        return Solution(x, value, a, families, weights, clipping)

    def failed(self, centre: Array) -> Solution:
        """No multipliers, and the centre for a proposal."""
        S, J = self.n_clients, len(self.pool.family_client)
        none = np.zeros((S, self.n))
        return Solution(
            centre.copy(), np.inf, np.zeros(len(self.cuts)), np.zeros(J), np.zeros(S), none, False
        )


REFINEMENTS = 20  # of the server's own cuts in one master


class Master:
    """Solves master problems; keeps the server's own cuts of the norm and of Q between calls."""

    def __init__(self, server: ServerProblem) -> None:
        self.server = server
        self.sets: list[SetRows] = [mixture_rows(server)]
        if server.priced and server.kind != "box":
            self.sets.append(gauge_rows(server))

    def solve(
        self,
        pool: Pool,
        cuts: Cuts,
        centre: Array,
        M: Array,
        *,
        eps: float = 1e-9,
        reference: float = np.inf,
    ) -> Solution:
        """Minimise the model of ``cuts`` plus the proximal term of metric M around ``centre``.

        ``reference`` is the objective at the centre: the server's own cuts are refined until
        their error is small against the predicted decrease.
        """
        scale = self.server.scale
        metric = M * np.outer(scale, scale)
        same = self.server.gauge.invariance()  # the centre is where it costs nothing
        if same is not None:
            metric = metric + same
        for stiffness in (1.0, 1e2, 1e4):
            # An ill-scaled QP can run away; a stiffer one stays near the centre.
            solution = self._solve(pool, cuts, centre, stiffness * metric, eps, reference)
            if solution.usable:
                break
        return solution

    def smallest(
        self, pool: Pool, cuts: Cuts, level: float, bend: tuple[Array, Array] | None = None
    ) -> tuple[Solution, float]:
        r"""The smallest :math:`\|w\|_2` whose model is within the level.

        ``bend`` = (H, x) adds :math:`\tfrac12\|\cdot-x\|_H^2` to :math:`\tfrac12\|w\|_2^2`.

        Returns
        -------
        tuple
            The solution, without its multipliers, and the multiplier of the level.
        """
        layout = self._layout(pool, cuts, np.zeros(self.server.dimension))
        P = np.diag(np.where(np.arange(self.server.dimension) < self.server.n, 1.0, 1e-9))
        zoom = 1.0 / max(abs(level), 1e-12)  # losses near the level have to be told apart
        for _ in range(REFINEMENTS):
            builder = self._complete(layout)
            if bend is not None:
                Q = bend[0] * np.outer(self.server.scale, self.server.scale)
                builder.bend(Q, -Q @ (bend[1] / self.server.scale))
            row = builder.rows(np.array([level]))
            builder.put(row, np.arange(builder.n_variables), builder.cost)
            qp = builder.solve(P, 1e-10, costs=False, zoom=zoom)
            if not qp.usable:
                break
            if not [rows for rows in self.sets if rows.refine(layout, qp, 1e-12)]:
                return layout.read(qp, level), zoom * float(qp.multipliers[row[0]])
        return layout.failed(np.zeros(self.server.dimension)), 0.0

    def region(self, pool: Pool, upper: float, centre: Array) -> Region | None:
        """Where every model that is better than ``upper`` must be, if that can be proved."""
        layout = self._layout(pool, pool.cuts, np.zeros(self.server.dimension))
        builder = self._complete(layout)
        row = builder.rows(np.array([upper * (1.0 + 1e-9)]))
        builder.put(row, np.arange(builder.n_variables), builder.cost)
        within = LevelSet(
            builder.sparse(), builder.right, builder.lower, layout.x, self.server.scale
        )
        return proved_region(within, centre)

    def _layout(self, pool: Pool, cuts: Cuts, centre: Array) -> Layout:
        layout = Layout(self.server, pool, cuts, centre / self.server.scale)
        for rows in self.sets:
            rows.begin(layout)
        layout.put_cuts()
        return layout

    def _complete(self, layout: Layout) -> Builder:
        builder = layout.builder.copy()
        for rows in self.sets:
            rows.put(builder, layout)
        return builder

    def _solve(
        self, pool: Pool, cuts: Cuts, centre: Array, metric: Array, eps: float, reference: float
    ) -> Solution:
        layout = self._layout(pool, cuts, centre)
        for _ in range(REFINEMENTS):
            builder = self._complete(layout)
            qp = builder.solve(metric, eps)
            if not qp.usable:
                return layout.failed(centre)
            value = float(builder.cost @ qp.z) + layout.offset
            decrease = max(reference - value, 0.0) if np.isfinite(reference) else 0.0
            tolerance = max(1e-10 * abs(value), 0.02 * decrease)
            if not [rows for rows in self.sets if rows.refine(layout, qp, tolerance)]:
                break
        return layout.read(qp, value)
