r"""A lower bound of the optimum that holds for every w and b, from any multipliers.

Losses are nonnegative, so 0 is a valid cut of every piece and a multiplier may always be lowered.
After a few such reductions, for some q in Q and all (w, b),

.. math:: f(w,b) \ge C + g^\top w + g_b b + \sum_s B_s\lambda_s,\qquad B\ge0,

and what is left of g and :math:`g_b` is absorbed by minorants of f that hold everywhere
(*anchors*). Inaccurate multipliers only lower the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.anchors import Anchors
from drfl.solvers.bundle.counterweight import counterweigh
from drfl.solvers.bundle.cuts import Cuts, Ints, Pool
from drfl.solvers.bundle.master import Solution
from drfl.solvers.bundle.polish import polish
from drfl.solvers.bundle.region import Region
from drfl.solvers.bundle.terms import Terms


@dataclass(frozen=True)
class Aggregate:
    r"""A minorant :math:`C+g^\top w+g_bb+\sum_sB_s\lambda_s` of f."""

    constant: float
    g: Array
    gb: float
    B: Array
    q: Array


@dataclass(frozen=True)
class Certificate:
    """Turns multipliers into a lower bound."""

    terms: Terms
    anchors: Anchors | None

    @property
    def everywhere(self) -> bool:
        """Whether it bounds f for every w and b; otherwise it needs a region."""
        return self.anchors is not None or (
            self.terms.priced and self.terms.kind in ("norm", "flips")
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
        terms, anchors, best = self.terms, self.anchors, 0.0
        trials = [solution]
        if polished and terms.kind != "box":
            trials.append(polish(pool, cuts, solution, terms))
            if terms.has_intercept:
                trials += [counterweigh(pool, cuts, trial, terms) for trial in trials]
        for trial in trials:
            for balanced in (True, False) if terms.has_intercept and anchors else (True,):
                total = aggregate(pool, cuts, trial, terms, balanced=balanced)
                if anchors is not None:
                    bound = anchors.bound(total.constant, total.g, total.gb)
                elif self.everywhere:
                    bound = _norm_bound(total, terms)
                else:
                    assert region is not None
                    g = np.append(total.g, total.gb)[: terms.dimension - terms.is_shared]
                    bound = region.least(total.constant, g)
                best = max(best, bound)
        return best


def aggregate(
    pool: Pool, cuts: Cuts, solution: Solution, terms: Terms, *, balanced: bool
) -> Aggregate:
    """Lower the multipliers until they prove something, and add the cuts up."""
    S, n, client = terms.n_clients, terms.n, pool.piece_client[cuts.piece]
    weights = np.maximum(solution.weights, 0.0)
    q = np.maximum(terms.mixture.pull(weights), 0.0)
    ratio = _divide(q, weights)
    # Families of a client share q_s, pieces their family's multiplier.
    y = np.maximum(solution.families, 0.0) * ratio[pool.family_client]
    y *= _shrink(sums(pool.family_client, y, S), q)[pool.family_client]
    a = np.maximum(solution.cuts, 0.0) * ratio[client]
    room = pool.piece_share * y[pool.piece_family]
    a *= _shrink(sums(cuts.piece, a, len(room)), room)[cuts.piece]
    clipping = solution.clipping * ratio[:, None]
    if terms.kind != "box":
        a = _price(cuts, clipping, a, client, q, terms)[2]
    if balanced and terms.has_intercept:
        a *= _balance(a * cuts.g[:, n])
    # Outside boxes a lower a needs less, so that the factor is 1 now and the balance stays.
    extra, B, a = _price(cuts, clipping, a, client, q, terms)
    if terms.is_shared:
        # One multiplier for all: its coefficient has to be nonnegative as well.
        need = -float(a @ cuts.g[:, -1])
        a = a * (terms.shared_rho / need if need > terms.shared_rho else 1.0)
        B = np.append(max(terms.shared_rho + float(a @ cuts.g[:, -1]), 0.0), np.zeros(S - 1))
    total = a @ cuts.g
    gb = float(total[n]) if terms.has_intercept else 0.0
    return Aggregate(float(a @ cuts.c + B @ terms.floor), total[:n] + extra, gb, B, q)


def _price(
    cuts: Cuts, clipping: Array, a: Array, client: Ints, q: Array, terms: Terms
) -> tuple[Array, Array, Array]:
    r"""Make the coefficient of every :math:`\lambda_s` nonnegative.

    In a box :math:`\omega_s` and :math:`\tau_s` are removed first: with p the multipliers of
    :math:`|w-\omega_s|\le r_s`, :math:`|p|\le\gamma_\tau h`,
    :math:`\gamma_\omega^\top\omega+\gamma_\tau\tau\ge p^\top w-\|\gamma_\omega-p\|_1\lambda_s`.

    Returns
    -------
    tuple
        What is added to g, the coefficients B, and the multipliers, lowered where needed.
    """
    S, n, B = terms.n_clients, terms.n, q * terms.rho
    need = -sums(client, a * cuts.slope, S)
    p = np.zeros((S, n))
    if terms.kind == "box":
        weighted = a[:, None] * cuts.lift
        lift = np.stack([sums(client, column, S) for column in weighted.T], axis=1)
        p = np.clip(clipping, -lift[:, n:] * terms.half, lift[:, n:] * terms.half)
        need += np.abs(lift[:, :n] - p).sum(axis=1)
    factor = np.where(need > B, _divide(B, need), 1.0)
    return (p * factor[:, None]).sum(axis=0), np.maximum(B - factor * need, 0.0), a * factor[client]


def _norm_bound(total: Aggregate, terms: Terms) -> float:
    r"""On the whole space :math:`\lambda_s\ge\max(\|w\|_*,\mathrm{floor}_s)`.

    The part :math:`\|g\|` of :math:`\sum B_s` pays for :math:`g^\top w`; the rest stands at its
    floor. What is missing is made up with the anchor :math:`f\ge h(\rho)\|w\|_*`.
    """
    need = float(terms.norm(total.g))
    # Pay from the clients with the lowest floors: their lambda is worth least otherwise.
    order = np.argsort(terms.floor, kind="stable")
    spent = np.minimum(total.B[order], np.maximum(need - _before(total.B[order]), 0.0))
    constant = total.constant - float(spent @ terms.floor[order])
    viol = need - float(spent.sum())
    anchor = terms.price
    bound = constant * anchor / (anchor + viol) if viol > 0.0 else constant
    least = terms.mixture.support(terms.rho * terms.floor)
    return max(bound, least + terms.shared_rho * float(terms.floor.min()))


def sums(index: Ints, values: Array, size: int) -> Array:
    """Sum values by index."""
    return np.bincount(index, values, size).astype(np.float64, copy=False)


def _before(values: Array) -> Array:
    return np.cumsum(values) - values


def _divide(numerator: Array, denominator: Array) -> Array:
    """0 where the denominator is not positive."""
    safe = np.where(denominator > 0.0, denominator, 1.0)
    return np.where(denominator > 0.0, numerator / safe, 0.0)


def _shrink(total: Array, room: Array) -> Array:
    """The factor that brings each total down to its room."""
    return np.where(total > room, _divide(room, total), 1.0)


def _balance(b: Array) -> Array:
    """Factors that make the positive and the negative entries of b cancel: no bound on b needed."""
    up, down = float(b[b > 0.0].sum()), float(-b[b < 0.0].sum())
    if up > down:
        return np.where(b > 0.0, down / up, 1.0)
    return np.where(b < 0.0, up / down, 1.0) if down > up else np.ones_like(b)
