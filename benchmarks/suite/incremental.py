r"""Clients who come when they come: every round takes the answers of a few, and forgets nothing.

The mean hinge loss of a client, :math:`u_s`, has a tangent at the last model it has seen,
:math:`w_s`, which lies below it for ever. So :math:`\sum_s q_s(c_s+\langle g_s,w\rangle)`, most of
it old, is a cut of the mean loss in every round. The server steps along its slope, and from many
such cuts (C, G) it proves

.. math::
    f^*\ \ge\ \max_{\alpha}\ \sum_k\alpha_kC_k\quad\text{with}\quad
    \Big\|\sum_k\alpha_kG_k\Big\|\le\rho,\ \ \alpha\ge0,\ \ \sum_k\alpha_k\le1.

Above, :math:`u_s(w)\le u_s(w_s)+\ell_s\|w-w_s\|_2` with the mean length :math:`\ell_s` of the rows.
When the steps have become small the model stays where it is until almost everybody has seen it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

STEP = 0.12  # old answers allow no longer steps
KEPT = 400  # cuts for the lower bound
EVERY = 20  # rounds between two of them; five times as many between two looks at the bounds
NUMBERS = 8  # bytes


@dataclass
class Found:
    """The proved gap over time, and what the root has sent and received."""

    gap: float = np.inf
    rounds: int = 0
    root_bytes: int = 0
    gaps: list[tuple[int, float]] = field(default_factory=list)


class Incremental:
    """The mean of all clients plus rho times the largest coefficient, 1 % of the clients a round.

    Parameters
    ----------
    groups : list of (X, y)
        The rows under each aggregator, all clients with as many rows.
    client_rows : int
        How many.
    radius, share : float
        Of the ball, l1; who comes in a round.
    """

    def __init__(
        self,
        groups: list[tuple[np.ndarray, np.ndarray]],
        client_rows: int,
        radius: float,
        share: float,
    ) -> None:
        n = groups[0][0].shape[1]
        self.A = np.concatenate([X * y[:, None] for X, y in groups]).reshape(-1, client_rows, n)
        self.radius, self.share, self.aggregators = radius, share, len(groups)
        self.lengths = np.linalg.norm(self.A, axis=2).mean(axis=1)
        S = len(self.A)
        # Nobody has answered: the loss at w = 0 is 1, and 0 lies below every loss.
        self.value, self.level, self.slope = np.ones(S), np.zeros(S), np.zeros((S, n))
        self.seen = np.zeros((S, n))
        self.C, self.G = 0.0, np.zeros(n)
        self.cuts: list[tuple[float, np.ndarray]] = []

    def until(self, tol: float, passes: int) -> Found:
        """Step for so many passes over the clients, then stand still until the gap is proved."""
        rng, found, w = np.random.default_rng(0), Found(), np.zeros(self.A.shape[2])
        moving, last = round(passes / self.share), round((passes + 20) / self.share)
        per_round = self.aggregators * NUMBERS * (len(w) + len(w) + 1)
        for k in range(last):
            self.hear(np.flatnonzero(rng.random(len(self.A)) < self.share), w)
            found.rounds, found.root_bytes = k + 1, found.root_bytes + per_round
            if k % EVERY == 0:
                self.keep()
            if k % (5 * EVERY) == 0:
                upper, lower = self.upper(w), self.lower()
                found.gap = float((upper - lower) / upper)
                found.gaps.append((k + 1, found.gap))
                if found.gap <= tol:
                    break
            if k < moving:
                w = self.step(w, min(1.0, 8.0 * (1.0 - k / moving)))
        return found

    def hear(self, who: np.ndarray, w: np.ndarray) -> None:
        """The answers of some clients take the place of their old ones."""
        A, S = self.A[who], len(self.A)
        losses = np.maximum(1.0 - A @ w, 0.0)
        slope = -((losses > 0.0)[:, None, :] @ A)[:, 0] / A.shape[1]
        value = losses.mean(axis=1)
        level = value - slope @ w
        self.C += float((level - self.level[who]).sum()) / S
        self.G += (slope - self.slope[who]).sum(axis=0) / S
        self.value[who], self.level[who], self.slope[who] = value, level, slope
        self.seen[who] = w

    def keep(self) -> None:
        """Remember the present cut; the oldest ones are forgotten."""
        self.cuts = [*self.cuts[1 - KEPT :], (self.C, self.G.copy())]

    def step(self, w: np.ndarray, size: float) -> np.ndarray:
        """Along the slope, then the proximal map of rho times the largest coefficient."""
        step = STEP * size
        return _clip_to_ball(w - step * self.G, step * self.radius)

    def upper(self, w: np.ndarray) -> float:
        """What the objective at w is at most, from answers at other models."""
        away = np.linalg.norm(w - self.seen, axis=1)
        return float((self.value + self.lengths * away).mean()) + self.radius * np.abs(w).max()

    def lower(self) -> float:
        """The best bound that the kept cuts give, as a linear program."""
        C, G = np.array([c for c, _ in self.cuts]), np.array([g for _, g in self.cuts])
        n, K = G.shape[1], len(C)
        # Variables: alpha, and the parts of the slope; the l1 norm of the slope is at most rho.
        found = linprog(
            np.concatenate([-C, np.zeros(2 * n)]),
            A_ub=np.vstack(
                [
                    np.concatenate([np.ones(K), np.zeros(2 * n)]),
                    np.concatenate([np.zeros(K), np.ones(2 * n)]),
                ]
            ),
            b_ub=[1.0, self.radius],
            A_eq=np.hstack([G.T, -np.eye(n), np.eye(n)]),
            b_eq=np.zeros(n),
            method="highs",
        )
        alpha = np.clip(found.x[:K], 0.0, None)
        alpha /= max(alpha.sum(), 1.0)
        # Whatever the accuracy of the solver: the slope is paid for.
        return float(alpha @ C) * min(1.0, self.radius / max(np.abs(alpha @ G).sum(), 1e-300))


def _clip_to_ball(v: np.ndarray, radius: float) -> np.ndarray:
    """The proximal map of radius times the largest entry: v less its projection on the l1 ball."""
    size = np.abs(v)
    if size.sum() <= radius:
        return np.zeros_like(v)
    ordered = np.sort(size)[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, len(v) + 1)
    level = excess[np.flatnonzero(ordered >= excess)[-1]]
    return np.clip(v, -level, level)
