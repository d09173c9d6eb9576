"""One pass over the rows at several prices, for `drfl.worst_case.l1_box`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.rows import Rows
from drfl.worst_case.clipping import Clipping, Sums, Winners, compete
from drfl.worst_case.search import Tangent

# Rows that are undecided between two prices are kept, unless they are more than this share
# (of many): they take memory.
LARGEST_SHARE, ALWAYS_KEPT = 0.125, 50_000


@dataclass(frozen=True)
class Probe:
    """What a pass finds at one price: the tangents from both sides, and who won each row."""

    lam: float
    sums: Sums
    left: Tangent
    right: Tangent
    winner: Winners
    share: float
    """The mass of the blocks that were read."""


@dataclass
class Undone:
    """The rows whose winner differs between two prices, with their scores at both."""

    limit: float
    count: int = 0
    found: list[tuple[NDArray[np.intp], Array]] = field(default_factory=list)

    def add(self, start: int, differ: NDArray[np.bool_], scores: Array) -> None:
        """Note the rows of a block that differ; ``scores`` is (2, levels, m)."""
        rows = np.flatnonzero(differ)
        self.count += len(rows)
        if self.count <= self.limit:
            self.found.append((rows + start, scores[:, :, rows]))
        else:
            self.found.clear()

    @property
    def is_complete(self) -> bool:
        return self.count <= self.limit

    @property
    def rows(self) -> NDArray[np.intp]:
        return np.concatenate([rows for rows, _ in self.found])

    @property
    def scores(self) -> Array:
        return np.concatenate([scores for _, scores in self.found], axis=2)


class Pass:
    """The sums of one pass, filled block by block."""

    def __init__(self, rows: Rows, problem: Clipping, prices: Sequence[float]) -> None:
        self.rows, self.problem, self.prices = rows, problem, prices
        levels, lines = len(problem.sizes), len(problem.lines)
        self.reach = np.array([problem.reach(lam) for lam in prices])
        self.constants = np.array([problem.constants(lam) for lam in prices])
        self.value, self.mass = np.zeros(len(prices)), np.zeros((len(prices), lines))
        self.target = np.zeros((len(prices), levels))
        self.winners = np.zeros((len(prices), rows.n_rows), dtype=np.int8)
        self.undone = Undone(max(ALWAYS_KEPT, LARGEST_SHARE * rows.n_rows))

    def visit(self, block: slice, z: Array) -> Array:
        """Scores of a block, (prices * levels, m), in; weights of its rows out."""
        y, problem = self.rows.y[block], self.problem
        scores = z.reshape(len(self.prices), len(problem.sizes), -1)
        if problem.is_margin:
            scores *= y
        else:
            scores -= self.reach[:, :, None] * y
        for k in range(len(self.prices)):
            best, self.winners[k, block] = compete(problem.lines, scores[k], self.constants[k])
            self.value[k] += self.rows.mean(best, block)
        if len(self.prices) == 2:
            first, last = self.winners[:, block]
            self.undone.add(block.start, first != last, scores)
        for k, winner in enumerate(self.winners[:, block]):
            self._weigh(k, block, winner, scores[k])
        return z

    def _weigh(self, k: int, block: slice, winner: Winners, out: Array) -> None:
        """Replace the scores of a block by the signed masses of its rows."""
        y = self.rows.y[block]
        out[:] = 0.0
        for i, line in enumerate(self.problem.lines):
            won = winner == i
            self.mass[k, i] += self.rows.mean(won, block)
            if line.level >= 0:
                np.copyto(out[line.level], line.sign, where=won)
        out *= self.rows.mass(block)
        if self.problem.is_margin:
            out *= y
        else:
            self.target[k] += out @ y

    def probes(self, g: Array, total: Array, radius: float) -> list[Probe]:
        """The tangents, once all blocks are visited."""
        shape = len(self.prices), len(self.problem.sizes)
        g, total = g.reshape(*shape, -1), total.reshape(shape)
        share = self.mass.sum(axis=1)  # less than 1 on a sample of the blocks
        found = []
        for k, lam in enumerate(self.prices):
            sums = Sums(
                float(self.value[k] / share[k]),
                self.mass[k] / share[k],
                g[k] / share[k],
                total[k] / share[k],
                self.target[k] / share[k],
            )
            left = self.problem.tangent(sums, lam, radius, from_left=True)
            right = self.problem.tangent(sums, lam, radius, from_left=False)
            found.append(Probe(lam, sums, left, right, self.winners[k], float(share[k])))
        return found


def sweep_prices(
    rows: Rows, problem: Clipping, prices: Sequence[float], radius: float, every: int
) -> tuple[list[Probe], Undone]:
    """Probe several prices in one pass over the rows, or over a sample of their blocks.

    With two prices the rows that are undecided between them are returned too.
    """
    models = [problem.models(lam) for lam in prices]
    W = np.concatenate([omega for omega, _ in models])
    b = np.concatenate([offset for _, offset in models])
    state = Pass(rows, problem, prices)
    g, total = rows.sweep_many(W, b, state.visit, every=every)
    return state.probes(g, total, radius), state.undone
