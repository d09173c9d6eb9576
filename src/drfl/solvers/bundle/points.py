"""Points that clients evaluated, possibly not all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.cuts import Ints, Pool
from drfl.solvers.certificate.server import ServerProblem

MOST_MISSED = 8  # points, two a round: who was late for want of time is not to be later still


@dataclass
class Point:
    """A point, each client's value there (NaN: not heard yet), multiplier and gradient.

    Multipliers are in the units of the cuts: on the whole space those of the norm of w.
    """

    x: Array
    values: Array
    multipliers: Array
    gradients: Array

    @classmethod
    def fresh(cls, x: Array, n_clients: int) -> Point:
        """Nobody has answered yet."""
        nan = np.full(n_clients, np.nan)
        return cls(x, nan, nan.copy(), np.full((n_clients, len(x)), np.nan))

    @property
    def complete(self) -> bool:
        """Whether every client has answered: only then is the value an upper bound."""
        return not bool(np.isnan(self.values).any())


@dataclass
class Points:
    """The points by number, and which of them play a part.

    Attributes
    ----------
    at : dict of int to Point
        The points of this round, those that somebody has missed, the centre and the best one.
    centre, best : int
        Where the next step starts, and the point with the lowest objective that everyone has
        evaluated; -1: there is none yet.
    previous, curved : int
        The main point of the last round, and the point of the curvature in force.
    numbered : int
        How many numbers have been given.
    """

    server: ServerProblem
    pool: Pool
    at: dict[int, Point] = field(default_factory=dict)
    centre: int = -1
    best: int = -1
    previous: int = -1
    curved: int = -1
    numbered: int = 0

    @property
    def here(self) -> Point:
        """The centre."""
        return self.at[self.centre]

    def number(self, count: int) -> tuple[int, ...]:
        """Numbers for new points."""
        self.numbered += count
        return tuple(range(self.numbered - count, self.numbered))

    def open(self, identity: int, x: Array) -> None:
        """A point that nobody has evaluated yet."""
        self.at[identity] = Point.fresh(x, self.server.n_clients)

    def forget(self, *, missed: bool = True) -> None:
        """The centre and the best point stay, and the newest of those that somebody has missed.

        Each of these becomes an upper bound as soon as everyone has evaluated it.
        """
        open_ones = [i for i, p in self.at.items() if not p.complete] if missed else []
        kept = {self.centre, self.best, *open_ones[-MOST_MISSED:]}
        self.at = {i: p for i, p in self.at.items() if i in kept}

    def objective(self, identity: int) -> float:
        """h(F) at a point; a silent client is represented by its cut model, a lower estimate."""
        point = self.at[identity]
        values = point.values
        if not point.complete:
            values = np.where(np.isnan(values), self.model(point.x), values)
        return self.server.mixture.support(values) + self.server.shared_cost(point.x)

    def model_of(self, clients: Ints, x: Array, multipliers: Array) -> Array:
        """The cut models of clients (m,) at x and their multipliers: no F can be below its own."""
        values = self.pool.values_of(clients, x, multipliers, self.server.half[clients])
        return self.server.rho[clients] * multipliers + values if self.server.priced else values

    def model(self, x: Array) -> Array:
        r"""The cut model of every F_s at x: each :math:`\lambda_s` minimised by golden section."""
        server, pool = self.server, self.pool
        cuts = pool.cuts
        if not server.priced:
            return pool.values(cuts, x, np.zeros(server.n_clients))
        low = server.floor.copy()
        if server.kind != "box":
            low = np.maximum(low, server.gauge.value(x))

        def at(lam: Array) -> Array:
            return server.rho * lam + pool.values(cuts, x, lam, server.half)

        best = at(low)
        if not server.lambdas:
            return best
        high = np.maximum(4.0 * low, 1.0 / server.unit) + 4.0 * np.abs(x).sum()
        golden = (np.sqrt(5.0) - 1.0) / 2.0
        for _ in range(45):
            left, right = high - golden * (high - low), low + golden * (high - low)
            at_left, at_right = at(left), at(right)
            lower = at_left <= at_right
            high, low = np.where(lower, right, high), np.where(lower, low, left)
            best = np.minimum(best, np.minimum(at_left, at_right))
        return best
