r"""Both bounds of the optimum: the objective at a model, and what the adversary proves.

Any multipliers of the rows' lines are a strategy of the adversary. For weights q in Q, with a row's
affine minorant :math:`\alpha_i(z,\lambda)=c_i+v_iz+\phi_i\lambda\ge`, for all (w, b),

.. math:: f(w,b)\ \ge\ C + g^\top w + g_bb + \sum_sB_s\lambda_s,\qquad
          B_s=q_s\rho_s+\sum_i\phi_i,

after which :math:`B\ge0` and :math:`g_b=0` are enforced by lowering rows (losses are nonnegative,
so that any share of a minorant is one) and g is paid for by :math:`\lambda_s\ge\|w\|_*`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.local.terms import Terms
from drfl.worst_case import make_oracle
from drfl.worst_case.whole_space import WholeSpaceOracle


@dataclass(frozen=True)
class Minorants:
    """Affine minorants of the rows' losses, their mass included.

    Attributes
    ----------
    q : (S,)
        Weights in Q.
    constant, slope, pull : (N,)
        Of every row: its value at z = 0, its slope in z and in its client's multiplier.
    """

    q: Array
    constant: Array
    slope: Array
    pull: Array


@dataclass(frozen=True)
class Model:
    """A model with its exact objective and each client's loss and multiplier."""

    w: Array
    b: float
    objective: float
    losses: Array
    multipliers: Array


class Whole:
    """All rows of all clients: what is proved is proved of these."""

    def __init__(self, problem: Problem, names: Sequence[str], clients: Sequence[Rows]) -> None:
        self.clients = clients
        self.oracles = [
            make_oracle(rows, problem.loss, problem.ball_of(name))
            for rows, name in zip(clients, names, strict=True)
        ]
        self.margin = problem.loss.task == "classification"
        self.starts = np.concatenate([[0], np.cumsum([rows.n_rows for rows in clients])])

    @property
    def size(self) -> int:
        """All rows."""
        return int(self.starts[-1])

    def part(self, s: int) -> slice:
        """The rows of a client."""
        return slice(int(self.starts[s]), int(self.starts[s + 1]))

    def margins(self, w: Array, b: float) -> Array:
        """The argument of the loss for every row."""
        z = np.empty(self.size)
        for s, rows in enumerate(self.clients):
            scores = rows.scores(w, b)
            z[self.part(s)] = rows.y * scores if self.margin else scores - rows.y
        return z

    def at_zero(self) -> Array:
        """The margins of the model 0."""
        return np.zeros(self.size) if self.margin else -np.concatenate([r.y for r in self.clients])

    def evaluate(self, terms: Terms, w: Array, b: float, z: Array) -> Model:
        """The exact objective at a model whose margins are z."""
        values, multipliers = np.zeros(len(self.clients)), np.zeros(len(self.clients))
        norm = terms.norm.dual(w)
        for s, (rows, oracle) in enumerate(zip(self.clients, self.oracles, strict=True)):
            m = z[self.part(s)]
            assert isinstance(oracle, WholeSpaceOracle)
            values[s] = rows.mean(oracle.loss.value(m))
            if oracle.labels_move:
                flips = oracle.flips(m, norm)
                multipliers[s] = flips.multiplier
                values[s] += flips.excess
            else:
                multipliers[s] = oracle.fixed_multiplier(norm)[0]
            values[s] += oracle.ball.radius * multipliers[s]
        return Model(w, b, terms.mixture.support(values), values, multipliers)

    def lower_bound(self, terms: Terms, rows: Minorants) -> float:
        """What the minorants prove of the optimum."""
        S = len(self.clients)
        slope, constant, pull = rows.slope.copy(), rows.constant.copy(), rows.pull.copy()
        B = rows.q * terms.rho
        for s in range(S):
            part = self.part(s)
            need = -float(pull[part].sum())
            if need > B[s]:
                for values in (slope, constant, pull):
                    values[part] *= B[s] / need
        if terms.d > terms.n:
            factor = self._balance(slope)
            for values in (slope, constant, pull):
                values *= factor
        g, C = np.zeros(terms.n), 0.0
        for s, client in enumerate(self.clients):
            part = self.part(s)
            v = slope[part]
            g += client.combine(client.y * v if self.margin else v)[0]
            C += float(constant[part].sum()) - (0.0 if self.margin else float(v @ client.y))
            B[s] = max(B[s] + float(pull[part].sum()), 0.0)
        return _priced(terms, C, g / terms.unit, B)

    def _balance(self, slope: Array) -> Array:
        """Factors by row that make the slopes in b cancel."""
        signs = np.concatenate([rows.y for rows in self.clients]) if self.margin else 1.0
        b = slope * signs
        up, down = float(b[b > 0.0].sum()), float(-b[b < 0.0].sum())
        if up > down:
            return np.where(b > 0.0, down / up, 1.0)
        return np.where(b < 0.0, up / down, 1.0) if down > up else np.ones_like(b)


def _priced(terms: Terms, C: float, g: Array, B: Array) -> float:
    r"""The bound :math:`\min_w C+g^\top w+\sum B_s\lambda_s`, what is missing at the price of f.

    Clients with the lowest floors pay first. If all of B does not suffice, mixing in
    :math:`f\ge\mathrm{price}\,\|w\|_*` makes up for it.
    """
    need = float(terms.norm(g))
    order = np.argsort(terms.floor, kind="stable")
    before = np.cumsum(B[order]) - B[order]
    spent = np.minimum(B[order], np.maximum(need - before, 0.0))
    # Where there is a radius of 0, the floor may be infinite, and B is 0.
    floor = np.where(B > 0.0, terms.floor, 0.0)
    value = C + float(B @ floor) - float(spent @ floor[order])
    lacking = need - float(spent.sum())
    if lacking > 1e-15 * need:
        value *= terms.price / (terms.price + lacking)
    return max(value, terms.least, 0.0)
