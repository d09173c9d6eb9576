r"""The proof: a lower bound of the optimum that holds for every w and b, from any multipliers.

Clients tell minorants of their :math:`u_s\ge0`. Losses are nonnegative, so 0 is a minorant as well
and any multiple may be lowered. The steps, in the order of docs/theory.md:

1. weights q in Q (`weights_in`),
2. families share :math:`q_s`, pieces their family's multiplier (`share`),
3. the price of every :math:`\lambda_s` is nonnegative, :math:`B_s\ge0` (`price`),
4. the slopes in b cancel (`balance`; those of several classes later, `without_intercepts`),
5. all minorants are added up (`aggregate`): for all (w, b)

   .. math:: f(w,b) \ge C + g^\top w + g_b b + \sum_s B_s\lambda_s,

6. what is left of g and :math:`g_b` is paid for: by :math:`\lambda_s\ge\mathrm{gauge}(x)`
   (`pay_by_gauge`), by minorants of f that hold on supports (`anchors`), or in a region.

Inaccurate multipliers only lower the bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.anchors import Anchors, ClassAnchors
from drfl.solvers.certificate.cuts import Cuts, Ints, Pool, Solution, sums
from drfl.solvers.certificate.frontier import Frontier
from drfl.solvers.certificate.region import Region
from drfl.solvers.certificate.repair import counterweigh, polish
from drfl.solvers.certificate.server import ServerProblem


class Minorants(ABC):
    r"""Nonnegative multiples of K minorants of the clients' :math:`u_s(x,\lambda_s)`."""

    @abstractmethod
    def needs(self) -> Array:
        r"""What each client's minorants take away from the price of its :math:`\lambda_s` (S,)."""

    @abstractmethod
    def leanings(self) -> Array:
        """The slopes of the minorants in b (K,)."""

    @abstractmethod
    def lowered(self, factors: Array) -> Self:
        """All minorants of client s times ``factors[s]`` <= 1."""

    @abstractmethod
    def thinned(self, factors: Array) -> Self:
        """Minorant k times ``factors[k]`` <= 1."""

    def in_x_and_lambda(self) -> Self:
        """The same without variables other than x and lambda, where there are any."""
        return self

    @abstractmethod
    def total(self) -> tuple[float, Array]:
        """The constant of their sum, and its slope in x."""


@dataclass(frozen=True)
class Aggregate:
    r"""A minorant :math:`C+g^\top w+g_bb+\sum_sB_s\lambda_s` of f; C holds the floors."""

    constant: float
    g: Array
    gb: Array
    B: Array
    q: Array


# ---------------------------------------------------------------------------- 1, 2: the weights
def weights_in(server: ServerProblem, weights: Array) -> Array:
    """Weights in Q near the given ones."""
    return np.maximum(server.mixture.pull(np.maximum(weights, 0.0)), 0.0)


def within(server: ServerProblem, pool: Pool, cuts: Cuts, solution: Solution) -> Solution:
    r"""The multipliers, lowered until they are within their pieces, families and clients.

    Families of a client share :math:`q_s`, the cuts of a piece its share of their family's
    multiplier.
    """
    client = pool.piece_client[cuts.piece]
    weights = np.maximum(solution.weights, 0.0)
    q = weights_in(server, weights)
    ratio = _divide(q, weights)
    y = np.maximum(solution.families, 0.0) * ratio[pool.family_client]
    y *= _shrink(sums(pool.family_client, y, server.n_clients), q)[pool.family_client]
    a = np.maximum(solution.cuts, 0.0) * ratio[client]
    room = pool.piece_share * y[pool.piece_family]
    a *= _shrink(sums(cuts.piece, a, len(room)), room)[cuts.piece]
    clipping = solution.clipping * ratio[:, None]
    return replace(solution, cuts=a, families=y, weights=q, clipping=clipping)


def share(
    server: ServerProblem, pool: Pool, cuts: Cuts, solution: Solution
) -> tuple[CutMinorants, Array]:
    """The cuts times multipliers that are `within` what they share; and q."""
    held, client = within(server, pool, cuts, solution), pool.piece_client[cuts.piece]
    return CutMinorants(server, cuts, client, held.cuts, held.clipping), held.weights


# ---------------------------------------------------------------------------- 3: the prices
def price(needs: Array, available: Array) -> tuple[Array, Array]:
    r"""Make the coefficient of every :math:`\lambda_s` nonnegative.

    Parameters
    ----------
    needs, available : (S,)
        What the minorants of a client take away, and :math:`q_s\rho_s`.

    Returns
    -------
    tuple
        The factors that lower the clients' minorants, and the coefficients B that are left.
    """
    factors = np.where(needs > available, _divide(available, needs), 1.0)
    return factors, np.maximum(available - factors * needs, 0.0)


# ---------------------------------------------------------------------------- 4: the intercept
def balance(leanings: Array) -> Array:
    """Factors that make positive and negative slopes in b cancel: no bound on b is needed."""
    b = leanings
    up, down = float(b[b > 0.0].sum()), float(-b[b < 0.0].sum())
    if up > down:
        return np.where(b > 0.0, down / up, 1.0)
    return np.where(b < 0.0, up / down, 1.0) if down > up else np.ones_like(b)


# ---------------------------------------------------------------------------- 5: the sum
def aggregate(
    server: ServerProblem, minorants: Minorants, q: Array, *, balanced: bool = True
) -> Aggregate:
    """Lower the minorants until they prove something, and add them up."""
    available = q * server.rho
    if server.kind != "box":
        minorants = minorants.lowered(price(minorants.needs(), available)[0])
    if balanced and server.has_intercept:
        minorants = minorants.thinned(balance(minorants.leanings()))
    minorants = minorants.in_x_and_lambda()
    # Outside boxes less is needed now, so that the factor is 1 and the balance stays.
    factors, B = price(minorants.needs(), available)
    minorants = minorants.lowered(factors)
    if server.is_shared:
        minorants, B = _price_shared(server, minorants)
    return _summed(server, q, B, *minorants.total())


def without_intercepts(total: Aggregate, anchors: ClassAnchors) -> Aggregate | None:
    r"""The mixture of a minorant and of anchors in which the intercepts of classes cancel.

    With the anchors' weights adding up to R it is divided by 1 + R, so as to be a minorant of f.
    """
    counter = anchors.against(total.gb)
    if counter is None:
        return None
    R, constant, slope = counter
    k = 1.0 / (1.0 + R)
    B = k * (total.B + R * anchors.prices)
    return Aggregate(
        k * (total.constant + constant), k * (total.g + slope), np.zeros(0), B, total.q
    )


def _price_shared(server: ServerProblem, minorants: Minorants) -> tuple[Minorants, Array]:
    """One multiplier for all, the last entry of x: its coefficient is nonnegative as well."""
    S, available = server.n_clients, np.array([server.shared_rho])
    factors, left = price(-minorants.total()[1][-1:], available)
    return minorants.lowered(np.repeat(factors, S)), np.append(left, np.zeros(S - 1))


# ---------------------------------------------------------------------------- 6: the slope
def pay_by_gauge(server: ServerProblem, total: Aggregate) -> float:
    r"""On the whole space :math:`\lambda_s\ge\max(\mathrm{gauge}(x),\mathrm{floor}_s)`; g_b is 0.

    The part :math:`\mathrm{polar}(g)` of :math:`\sum B_s` pays for :math:`g^\top w`; the rest
    stands at its floor. What is missing, v, is made up with :math:`f\ge r\,\mathrm{gauge}(x)`,
    r = h(rho): f is at least the mixture of both with weights r/(r + v) and v/(r + v).
    """
    need = server.gauge.polar(total.g)
    # Pay from the clients with the lowest floors: their lambda is worth least otherwise.
    order = np.argsort(server.floor, kind="stable")
    B = total.B[order]
    spent = np.minimum(B, np.maximum(need - (np.cumsum(B) - B), 0.0))
    constant = total.constant - float(spent @ server.floor[order])
    missing, r = need - float(spent.sum()), server.price
    bound = constant * r / (r + missing) if missing > 0.0 else constant
    return max(bound, server.least, 0.0)


# ---------------------------------------------------------------------------- given slopes
INSIDE = 1.0 - 1e-9  # how much of the price a mixture of slopes may use


def payable(server: ServerProblem, q: Array, slope: Array) -> Array:
    """The slope (d,) next to the given one that cancels b and is paid for by weights q."""
    wanted = np.zeros_like(slope)
    wanted[: server.n] = server.gauge.payable(slope[: server.n], INSIDE * float(q @ server.rho))
    return wanted


def payable_slopes(server: ServerProblem, q: Array, slopes: Array) -> Array:
    r"""The clients' slopes (S, d), moved so that their mixture cancels b and is paid for.

    Then :math:`F_s-\rho_s\lambda_s\ge C_s+g_s^\top x` for all s proves :math:`f\ge q^\top C`.
    """
    mixed = q @ slopes
    return np.asarray(slopes + (payable(server, q, mixed) - mixed))


def bound_of_constants(server: ServerProblem, q: Array, slopes: Array, constants: Array) -> float:
    """What one minorant of every client proves, with payable slopes (S, d) and constants (S,)."""
    total = add_up(server, q, float(q @ constants), q @ slopes)
    return pay_by_gauge(server, replace(total, gb=np.zeros(0)))


# ---------------------------------------------------------------------------- a minorant at once
def add_up(server: ServerProblem, q: Array, constant: float, slope: Array) -> Aggregate:
    r"""Step 5 of one minorant of every client: :math:`\sum q_sc_s` and :math:`\sum q_sg_s` (d,)."""
    return _summed(server, q, q * server.rho, constant, slope)


def _summed(server: ServerProblem, q: Array, B: Array, constant: float, slope: Array) -> Aggregate:
    gb = slope[server.n : server.n + server.intercepts]
    return Aggregate(constant + float(B @ server.floor), slope[: server.n], gb, B, q)


def level(total: Aggregate, others: Sequence[Aggregate]) -> list[Aggregate]:
    r"""Step 4 of minorants of f: mixed with those that lean the other way, so that b cancels.

    A convex combination of minorants of f is one. For models with one score.
    """
    lean = float(total.gb.sum())
    if lean == 0.0:
        return [total]
    slopes = [(other, float(other.gb.sum())) for other in others]
    return [
        _mixed(total, other, abs(lean) / (abs(lean) + abs(against)))
        for other, against in slopes
        if against * lean < 0.0
    ]


def _mixed(one: Aggregate, other: Aggregate, t: float) -> Aggregate:
    """(1 - t) of one and t of the other, with slopes in b that cancel."""
    return Aggregate(
        (1.0 - t) * one.constant + t * other.constant,
        (1.0 - t) * one.g + t * other.g,
        np.zeros(len(one.gb)),
        (1.0 - t) * one.B + t * other.B,
        (1.0 - t) * one.q + t * other.q,
    )


@dataclass(frozen=True)
class Certificate:
    """Turns multipliers of cuts into a lower bound."""

    server: ServerProblem
    anchors: Anchors | None
    classes: ClassAnchors | None = None
    frontier: Frontier = field(default_factory=Frontier)

    @property
    def everywhere(self) -> bool:
        """Whether it bounds f for every w and b; otherwise it needs a region."""
        return self.anchors is not None or (
            self.server.priced and self.server.kind in ("norm", "flips")
        )

    def bound(
        self,
        pool: Pool,
        cuts: Cuts,
        solution: Solution,
        region: Region | None = None,
        *,
        polished: bool = False,
    ) -> float:
        """The best bound that these multipliers prove; at least 0.

        ``polished`` also tries them with the solver's rounding taken out.
        """
        server, best, trials = self.server, 0.0, [solution]
        if polished and server.kind != "box":
            trials.append(polish(server, pool, cuts, within(server, pool, cuts, solution)))
            if server.has_intercept:
                trials += [counterweigh(server, pool, cuts, trial) for trial in trials]
        for trial in trials:
            minorants, q = share(server, pool, cuts, trial)
            for balanced in (True, False) if server.has_intercept and self.anchors else (True,):
                total = aggregate(server, minorants, q, balanced=balanced)
                best = max(best, self._pay(total, region))
        return best

    def _pay(self, total: Aggregate, region: Region | None) -> float:
        if self.anchors is not None:
            return self.anchors.bound(total.constant, total.g, float(total.gb.sum()))
        if self.everywhere and self.server.intercepts > 1:
            level = None if self.classes is None else without_intercepts(total, self.classes)
            if level is None:
                return 0.0
            total = level
        if self.everywhere:
            return max(pay_by_gauge(self.server, total), self._mixed(total))
        assert region is not None
        slope = np.append(total.g, total.gb)[: self.server.dimension - self.server.is_shared]
        return region.least(total.constant, slope)

    def bound_of(self, total: Aggregate) -> float:
        """What a minorant of f without slope in b proves, alone or with earlier ones."""
        return self._pay(total, None)

    def _mixed(self, total: Aggregate) -> float:
        """What it proves together with earlier proofs; floors and one multiplier for all aside."""
        server = self.server
        if server.floor.any() or server.is_shared:
            return 0.0
        slack = float(total.B.sum()) - server.gauge.polar(total.g)
        return self.frontier.bound(total.constant, slack)


# ---------------------------------------------------------------------------- cuts as minorants
@dataclass(frozen=True)
class CutMinorants(Minorants):
    r"""Cuts times their multipliers a.

    In a box a cut is also a function of :math:`\omega_s` and :math:`\tau_s`, w clipped at
    :math:`\pm\lambda_s` and what that leaves of it. They are removed with multipliers p of
    :math:`|w-\omega_s|\le r_s`, :math:`|p|\le\gamma_\tau h`:

    .. math:: \gamma_\omega^\top\omega_s+\gamma_\tau\tau_s\ \ge\
              p^\top w-\|\gamma_\omega-p\|_1\lambda_s.

    Attributes
    ----------
    client, a : (K,)
        Whose cut it is, and its multiplier.
    clipping : (S, n)
        p as the master has it; not yet clipped.
    p, toll : (S, n) and (S,)
        p, and the norm above, once the clipped models are removed.
    """

    server: ServerProblem
    cuts: Cuts
    client: Ints
    a: Array
    clipping: Array
    p: Array | None = None
    toll: Array | None = None

    def needs(self) -> Array:
        need = -sums(self.client, self.a * self.cuts.slope, self.server.n_clients)
        return need if self.toll is None else need + self.toll

    def leanings(self) -> Array:
        return np.asarray(self.a * self.cuts.g[:, self.server.n])

    def lowered(self, factors: Array) -> CutMinorants:
        lower = replace(self, a=self.a * factors[self.client])
        if self.p is None or self.toll is None:
            return lower
        return replace(lower, p=self.p * factors[:, None], toll=self.toll * factors)

    def thinned(self, factors: Array) -> CutMinorants:
        return replace(self, a=self.a * factors)

    def in_x_and_lambda(self) -> CutMinorants:
        server, n = self.server, self.server.n
        if server.kind != "box":
            return self
        weighted = self.a[:, None] * self.cuts.lift
        lift = np.stack([sums(self.client, c, server.n_clients) for c in weighted.T], axis=1)
        most = lift[:, n:] * server.half
        p = np.clip(self.clipping, -most, most)
        return replace(self, p=p, toll=np.abs(lift[:, :n] - p).sum(axis=1))

    def total(self) -> tuple[float, Array]:
        slope = self.a @ self.cuts.g
        if self.p is not None:
            slope[: self.server.n] += self.p.sum(axis=0)
        return float(self.a @ self.cuts.c), slope


def _divide(numerator: Array, denominator: Array) -> Array:
    """0 where the denominator is not positive."""
    safe = np.where(denominator > 0.0, denominator, 1.0)
    return np.where(denominator > 0.0, numerator / safe, 0.0)


def _shrink(total: Array, room: Array) -> Array:
    """The factor that brings each total down to its room."""
    return np.where(total > room, _divide(room, total), 1.0)
