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
from scipy import sparse

from drfl.arrays import Array
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.layout import Layout, Solution
from drfl.solvers.bundle.qp import Builder, Ints
from drfl.solvers.bundle.sets import SetRows, mixture_rows, norm_rows
from drfl.solvers.bundle.terms import Terms

REFINEMENTS = 20  # of the server's own cuts in one master


class Master:
    """Solves master problems; keeps the server's own cuts of the norm and of Q between calls."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.sets: list[SetRows] = [mixture_rows(terms)]
        if terms.priced and terms.kind != "box":
            self.sets.append(norm_rows(terms))

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
        scale = self.terms.scale
        metric = M * np.outer(scale, scale)
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
        layout = self._layout(pool, cuts, np.zeros(self.terms.dimension))
        P = np.diag(np.where(np.arange(self.terms.dimension) < self.terms.n, 1.0, 1e-9))
        zoom = 1.0 / max(abs(level), 1e-12)  # losses near the level have to be told apart
        for _ in range(REFINEMENTS):
            builder = self._complete(layout)
            if bend is not None:
                Q = bend[0] * np.outer(self.terms.scale, self.terms.scale)
                builder.bend(Q, -Q @ (bend[1] / self.terms.scale))
            row = builder.rows(np.array([level]))
            builder.put(row, np.arange(builder.n_variables), builder.cost)
            qp = builder.solve(P, 1e-10, costs=False, zoom=zoom)
            if not qp.usable:
                break
            if not [rows for rows in self.sets if rows.refine(layout, qp, 1e-12)]:
                return layout.read(qp, level), zoom * float(qp.multipliers[row[0]])
        return layout.failed(np.zeros(self.terms.dimension)), 0.0

    def level_set(
        self, pool: Pool, cuts: Cuts, level: float
    ) -> tuple[sparse.csc_matrix, Array, Array, Ints]:
        """The constraints ``A z <= b, z >= lower`` of all x whose model is within the level."""
        layout = self._layout(pool, cuts, np.zeros(self.terms.dimension))
        builder = self._complete(layout)
        row = builder.rows(np.array([level]))
        builder.put(row, np.arange(builder.n_variables), builder.cost)
        return builder.sparse(), builder.right, builder.lower, layout.x

    def _layout(self, pool: Pool, cuts: Cuts, centre: Array) -> Layout:
        layout = Layout(self.terms, pool, cuts, centre / self.terms.scale)
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
