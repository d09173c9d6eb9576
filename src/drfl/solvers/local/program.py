"""The problem as the interior-point method sees it: its variables and their units.

With it all rows of all clients, the exact objective of a model, and where a search stands.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import relative_gap
from drfl.solvers.certificate.server import ServerProblem, server_problem
from drfl.uncertainty import Mixture
from drfl.worst_case import make_oracle
from drfl.worst_case.whole_space import WholeSpaceOracle

FEW_ROWS = 500  # of a client, that tell the size of its columns


@dataclass(frozen=True)
class Program:
    r"""The variables are :math:`\xi=(w, b, t, \lambda_1, \dots)` in units of ``unit``.

    Client s pays :math:`\rho_s\lambda_s` with :math:`\lambda_s\ge\max(\|w\|_*,\mathrm{floor}_s)`.
    Clients for which that is all that is asked of :math:`\lambda_s` share the variable t.

    Attributes
    ----------
    server : ServerProblem
        Radii and floors, with features in these units.
    kappa : (S,)
        What a flip costs; infinite where labels do not move.
    index : (S,)
        Which variable is the client's multiplier.
    """

    loss: Loss
    server: ServerProblem
    kappa: Array
    index: NDArray[np.intp]
    unit: float

    @property
    def n(self) -> int:
        """Coefficients."""
        return self.server.n

    @property
    def d(self) -> int:
        """Coefficients and intercept."""
        return self.server.dimension

    @property
    def rho(self) -> Array:
        """What a client pays for its multiplier (S,)."""
        return self.server.rho

    @property
    def mixture(self) -> Mixture:
        """The weights of the clients."""
        return self.server.mixture

    @property
    def t(self) -> int:
        """The number of the variable t."""
        return self.d

    @cached_property
    def size(self) -> int:
        """How many variables there are."""
        return max(self.d, int(self.index.max())) + 1

    @property
    def margin(self) -> bool:
        """Whether the loss is of a margin."""
        return self.loss.task == "classification"

    @cached_property
    def moving(self) -> list[int]:
        """The clients whose labels can move."""
        return np.flatnonzero(np.isfinite(self.kappa)).tolist()

    @property
    def flips(self) -> bool:
        """Whether any label can move."""
        return bool(self.moving)

    @cached_property
    def places(self) -> Array:
        """Sums of the clients' values where their multipliers are: (size, S)."""
        places = np.zeros((self.size, len(self.rho)))
        places[self.index, np.arange(len(self.rho))] = 1.0
        return places

    @property
    def links(self) -> tuple[Array, Array]:
        """What ties the multipliers: Z xi >= z, their own variables above t and the floors."""
        rows: list[tuple[int, int, float]] = []
        for s in range(len(self.rho)):
            own, floor = int(self.index[s]), float(self.server.floor[s])
            if own != self.t:
                rows.append((own, self.t, 0.0))
            if floor > 0.0 and self.rho[s] > 0.0:
                rows.append((own, -1, floor))
        rows = sorted(set(rows))
        Z, z = np.zeros((len(rows), self.size)), np.zeros(len(rows))
        for k, (up, down, least) in enumerate(rows):
            Z[k, up], z[k] = 1.0, least
            if down >= 0:
                Z[k, down] = -1.0
        return Z, z


def make_program(
    problem: Problem, names: Sequence[str], n: int, sizes: Array, unit: float
) -> Program:
    """The program of a problem whose features are about ``unit``."""
    d, margin = n + problem.shared_intercept, problem.loss.task == "classification"
    server = server_problem(problem, names, d, sizes)
    rho, cost = server.rho, np.array([problem.ball_of(name).label_cost for name in names])
    if server.mixture.radius == 0.0:  # who has no weight pays nothing
        rho = np.where(server.mixture.weights == 0.0, 0.0, rho)
    cost[rho == 0.0] = math.inf
    kappa, floor = (cost, 0.0 * rho) if margin else (np.full_like(cost, math.inf), 1.0 / cost)
    index = np.full(len(names), d, dtype=np.intp)
    if len(names) > 1:  # a single one can be t itself
        differ = len(np.unique(floor[rho > 0.0])) > 1
        own = np.isfinite(cost) if margin else (rho > 0.0) & differ
        index[own] = d + 1 + np.arange(np.count_nonzero(own))
    server = replace(server, rho=rho / unit, floor=floor * unit)
    return Program(problem.loss, server, kappa / unit, index, unit)


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


def scores_of(rows: Rows, w: Array, b: float) -> Array:
    """Scores in float64, whatever the data are: what is proved is finer than other numbers."""
    if rows.X.dtype == np.float64:
        return rows.scores(w, b)
    return np.asarray(rows.scores_many(w[None], np.array([b]))[0])


def sums_of(rows: Rows, v: Array) -> tuple[Array, float]:
    """Weighted sums in float64, whatever the data are."""
    if rows.X.dtype == np.float64:
        return rows.combine(v)
    g, total = rows.combine_many(v[None])
    return g[0, 0], float(total[0, 0])


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

    @cached_property
    def y(self) -> Array:
        """Labels or targets of all rows."""
        every = [rows.y for rows in self.clients]
        return every[0] if len(every) == 1 else np.concatenate(every)

    def some(self, chosen: NDArray[np.intp]) -> AllRows:
        """A few of them, in ascending order, to multiply with; clients without any are left out."""
        ends = np.searchsorted(chosen, self.starts)
        own = [chosen[slice(*ends[s : s + 2])] - self.starts[s] for s in range(len(self.clients))]
        few = copy(self)
        few.clients = [r.some(at) for r, at in zip(self.clients, own, strict=True) if len(at)]
        few.starts = np.unique(ends)
        few.__dict__.pop("y", None)  # those of all rows
        return few

    def mass(self, q: Array) -> Array | float:
        """The masses of all rows where the clients weigh q; one number where all are equal."""
        if len(self.clients) == 1:
            mass = self.clients[0].mass()
            return mass * float(q[0])
        every = [np.broadcast_to(rows.mass(), (rows.n_rows,)) for rows in self.clients]
        return np.concatenate([weight * mass for weight, mass in zip(q, every, strict=True)])

    def scores(self, w: Array, b: float) -> Array:
        """Of all rows."""
        every = [scores_of(rows, w, b) for rows in self.clients]
        return every[0] if len(every) == 1 else np.concatenate(every)

    def combine(self, v: Array) -> tuple[Array, float]:
        """Weighted sums of all rows, and the sum of the weights."""
        every = [sums_of(rows, v[self.part(s)]) for s, rows in enumerate(self.clients)]
        return np.asarray(sum(g for g, _ in every)), sum(total for _, total in every)

    def combine_many(self, v: Array) -> Array:
        """The same for several weights of every row (K, N), in one array (K, n + 1): one pass."""
        every = [rows.combine_many(v[:, self.part(s)]) for s, rows in enumerate(self.clients)]
        return np.asarray(sum(np.concatenate([g[:, 0], total], axis=1) for g, total in every))

    def gram(self, d: Array) -> Array:
        """Weighted squares of all rows, and of 1."""
        every = [rows.gram(d[self.part(s)]) for s, rows in enumerate(self.clients)]
        return every[0] if len(every) == 1 else np.asarray(sum(every))

    def gram_of(self, columns: NDArray[np.intp], d: Array) -> Array:
        """The same of some columns alone, and of 1."""
        every = [rows.gram_of(columns, d[self.part(s)]) for s, rows in enumerate(self.clients)]
        return np.asarray(sum(every))

    def products(self) -> Array:
        """Of all rows with all rows, (N, N)."""
        X = np.concatenate([rows.take(slice(None)) for rows in self.clients])
        return np.asarray(X @ X.T)

    @property
    def thin(self) -> bool:
        """Whether nearly all entries are 0."""
        return all(rows.is_thin for rows in self.clients)

    @cached_property
    def mean_squares(self) -> Array:
        """Of every column, from a few rows of every client; of thin ones from all."""
        if self.thin:  # a few rows would know nothing of columns that are rare
            return np.asarray(np.mean([rows.moments()[1] for rows in self.clients], axis=0))
        parts = [rows.take(slice(None, None, 1 + rows.n_rows // FEW_ROWS)) for rows in self.clients]
        every = [np.einsum("ij,ij->j", part, part) / len(part) for part in parts]
        return np.asarray(np.mean(every, axis=0))

    def margins(self, w: Array, b: float) -> Array:
        """The argument of the loss for every row."""
        scores = self.scores(w, b)
        return np.asarray(self.y * scores if self.margin else scores - self.y)

    def at_zero(self) -> Array:
        """The margins of the model 0."""
        return np.zeros(self.size) if self.margin else -np.concatenate([r.y for r in self.clients])

    def evaluate(
        self, program: Program, w: Array, b: float, z: Array, mean: float | None = None
    ) -> ExactModel:
        """The exact objective at a model with margins z; of one client the mean may be known."""
        values, multipliers = np.zeros(len(self.clients)), np.zeros(len(self.clients))
        norm = program.server.gauge.value(w)
        for s, (rows, oracle) in enumerate(zip(self.clients, self.oracles, strict=True)):
            m = z[self.part(s)]
            assert isinstance(oracle, WholeSpaceOracle)
            known = mean is not None and len(self.clients) == 1
            values[s] = mean if known else rows.mean(oracle.loss.value(m))
            if oracle.labels_move:
                flips = oracle.flips(m, norm)
                multipliers[s] = flips.multiplier
                values[s] += flips.excess
            else:
                multipliers[s] = oracle.fixed_multiplier(norm)[0]
            values[s] += oracle.ball.radius * multipliers[s]
        q = program.mixture.worst_weights(values)
        return ExactModel(w, b, float(q @ values), q, values, multipliers)


class LocalSearch(ABC):
    """The state of a run on all rows.

    Attributes
    ----------
    best : ExactModel
        The best model so far.
    lower, at_zero : float
        What is proved of the optimum, and the objective at 0.
    promise : float
        The relative gap that the method believes to have, unproved.
    """

    def __init__(
        self,
        problem: Problem,
        names: Sequence[str],
        clients: Sequence[Rows],
        tol: float,
        unit: float = 1.0,
    ) -> None:
        self.clients, self.tol = clients, tol
        n = clients[0].n_features
        sizes = np.array([rows.total for rows in clients])
        self.program = make_program(problem, names, n, sizes, unit)
        self.whole = AllRows(problem, names, clients)
        self.best = self.whole.evaluate(self.program, np.zeros(n), 0.0, self.whole.at_zero())
        self.at_zero, self.lower, self.promise = self.best.objective, 0.0, math.inf

    @property
    def gap(self) -> float:
        """What is proved."""
        return relative_gap(self.best.objective, self.lower, self.at_zero)

    @abstractmethod
    def iterations(self) -> Iterator[None]:
        """Iterate until the tolerance is proved or nothing helps any more."""
