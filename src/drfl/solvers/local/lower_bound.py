r"""The lower bound: what the multipliers of the interior-point method prove.

Any multipliers of the rows' lines are a strategy of the adversary: for weights q in Q each row has
an affine minorant :math:`c_i+v_iz+\phi_i\lambda_s` of its loss, and minorants are what
`drfl.solvers.certificate` turns into a lower bound. The multipliers are those of a whole step of
the interior-point method. The method itself takes a part of it, since no row may leave the
interior; as a strategy each row may be stopped by itself, and hardly any is. The whole step
balances all slopes, which a lower bound needs most.
The upper bound is the exact objective of a model on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.certificate.proof import Minorants, aggregate, pay_by_gauge
from drfl.solvers.local.interior import Interior
from drfl.solvers.local.pieces import Entropy, Pieces, entropy, line_table
from drfl.solvers.local.program import Program
from drfl.solvers.local.samples import ACTIVE, Sample
from drfl.worst_case import make_oracle
from drfl.worst_case.whole_space import WholeSpaceOracle


@dataclass(frozen=True)
class ExactModel:
    """A model with its exact objective, the worst weights, each client's loss and multiplier."""

    w: Array
    b: float
    objective: float
    weights: Array
    losses: Array
    multipliers: Array

    @classmethod
    def unknown(cls, n: int, n_clients: int) -> ExactModel:
        """Before any rows are here."""
        nothing = np.full(n_clients, np.nan)
        return cls(np.zeros(n), 0.0, np.inf, nothing, nothing, nothing)


class AllRows:
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
        """How many there are."""
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

    def evaluate(self, program: Program, w: Array, b: float, z: Array) -> ExactModel:
        """The exact objective at a model whose margins are z."""
        values, multipliers = np.zeros(len(self.clients)), np.zeros(len(self.clients))
        norm = program.server.gauge.value(w)
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
        q = program.mixture.worst_weights(values)
        return ExactModel(w, b, float(q @ values), q, values, multipliers)


@dataclass(frozen=True)
class RowMinorants(Minorants):
    """Affine minorants of the rows' losses, their masses included.

    Attributes
    ----------
    constant, slope, pull : (N,)
        Of every row: its value at z = 0, its slope in z and in its client's multiplier.
    """

    program: Program
    whole: AllRows
    constant: Array
    slope: Array
    pull: Array

    def needs(self) -> Array:
        parts = (self.whole.part(s) for s in range(len(self.whole.clients)))
        return np.array([-float(self.pull[part].sum()) for part in parts])

    def leanings(self) -> Array:
        if not self.whole.margin:
            return self.slope
        return np.asarray(self.slope * np.concatenate([rows.y for rows in self.whole.clients]))

    def lowered(self, factors: Array) -> RowMinorants:
        if (factors == 1.0).all():
            return self
        return self.thinned(np.repeat(factors, np.diff(self.whole.starts)))

    def thinned(self, factors: Array) -> RowMinorants:
        return replace(
            self,
            constant=self.constant * factors,
            slope=self.slope * factors,
            pull=self.pull * factors,
        )

    def total(self) -> tuple[float, Array]:
        program, margin = self.program, self.whole.margin
        g, gb, C = np.zeros(program.n), 0.0, 0.0
        for s, rows in enumerate(self.whole.clients):
            part = self.whole.part(s)
            v = self.slope[part]
            along, lean = rows.combine(rows.y * v if margin else v)
            g, gb = g + along, gb + lean
            C += float(self.constant[part].sum()) - (0.0 if margin else float(v @ rows.y))
        return C, np.append(g / program.unit, gb)[: program.d]


def lower_bound(
    program: Program, whole: AllRows, core: Interior, sample: Sample, q: Array
) -> float:
    """What the multipliers of the interior-point method prove of the optimum."""
    constant, slope, pull = fixed_lines(program, whole, sample, q)
    at = np.concatenate([some + whole.starts[s] for s, some in enumerate(sample.active)])
    for target, values in zip((constant, slope, pull), own_lines(core, q), strict=True):
        target[at] += values  # a flip for good adds to the logistic loss of a row
    minorants = RowMinorants(program, whole, constant, slope, pull)
    return pay_by_gauge(program.server, aggregate(program.server, minorants, q))


def own_lines(core: Interior, q: Array) -> tuple[Array, Array, Array]:
    """Constant, slope and pull of the rows that the method sees, for these weights."""
    at, stack = core.iterate, core.iterate.stack
    P = stack.mass * stack.spread(q)
    constant, slope, pull = (np.zeros(len(P)) for _ in range(3))
    for kernel in at.kernels:
        own = at.gather(kernel, P)
        if isinstance(kernel, Entropy):
            slope -= own * kernel.full
            constant += own * entropy(kernel.full)
        else:
            for total, values in zip((constant, slope, pull), _mixed(kernel, own), strict=True):
                total += at.scatter(kernel, values)
    return constant, slope, pull


def _mixed(kernel: Pieces, P: Array) -> tuple[Array, Array, Array]:
    """Multipliers that sum to the mass exactly, and the line they make."""
    alpha = kernel.alpha * (P / kernel.alpha.sum(axis=0))
    constant, slope = (kernel.c * alpha).sum(axis=0), (kernel.a * alpha).sum(axis=0)
    if kernel.curved:
        G = slice(0, kernel.curved)
        net, total = (kernel.a[G] * alpha[G]).sum(axis=0), alpha[G].sum(axis=0)
        constant = constant - 0.5 * net * net / np.maximum(total, np.finfo(np.float64).tiny)
    pull = (kernel.e * alpha).sum(axis=0) if kernel.flips else np.zeros(len(P))
    return constant, slope, pull


def fixed_lines(
    program: Program, whole: AllRows, sample: Sample, q: Array
) -> tuple[Array, Array, Array]:
    """The same of the rows that the method did not see: their lines; 0 for the others."""
    constant, slope, pull = (np.zeros(whole.size) for _ in range(3))
    for s, rows in enumerate([] if sample.complete else whole.clients):
        part = whole.part(s)
        line = sample.line[part]
        chosen = np.flatnonzero(line != ACTIVE)
        table = line_table(program, s)[line[chosen]]
        mass = q[s] * rows.masses(chosen)
        slope[part][chosen] = mass * table[:, 0]
        constant[part][chosen] = mass * table[:, 1]
        pull[part][chosen] = mass * table[:, 2]
    return constant, slope, pull
