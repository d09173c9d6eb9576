"""All rows of all clients, and the exact objective of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.local.program import Program
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
