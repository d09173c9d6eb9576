r"""The lower bound: what the multipliers of the interior-point method prove.

Any multipliers of the rows' lines are a strategy of the adversary: for weights q in Q each row has
an affine minorant :math:`c_i+v_iz+\phi_i\lambda_s` of its loss, and minorants are what
`drfl.solvers.certificate` turns into a lower bound. The multipliers are those of a whole step of
the interior-point method. The method itself takes a part of it, since no row may leave the
interior; as a strategy each row may be stopped by itself, and hardly any is. The whole step
balances all slopes, which a lower bound needs most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.proof import Minorants, aggregate, pay_by_gauge
from drfl.solvers.local.interior import Interior
from drfl.solvers.local.pieces import Entropy, Pieces, entropy, line_table
from drfl.solvers.local.program import AllRows, Program, sums_of
from drfl.solvers.local.samples import ACTIVE, Sample


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
            along, lean = sums_of(rows, rows.y * v if margin else v)
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
