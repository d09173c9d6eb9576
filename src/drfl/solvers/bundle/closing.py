r"""The end of a run whose clients have guards: what their cuts leave open, by a few numbers.

Guarded cuts need not touch, so that the bound they prove stays behind. The server knows the slopes
:math:`g_s` that a certificate needs, from the multipliers of its masters; it makes their mixture
payable, :math:`\|\sum_sq_sg_s\|\le\sum_sq_s\rho_s` with no slope in b, and asks every client for
the best constant of a minorant with that slope. Then :math:`f\ge\sum_sq_sC_s` everywhere, and each
:math:`(C_s,g_s)` is another cut. With them comes a closer value of the best model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.solvers.base import Status, StatusKind
from drfl.solvers.bundle.constants import KIND, NO_BOUND, REPLY
from drfl.solvers.bundle.messages import dual_cut
from drfl.solvers.bundle.planning import SHARP, TINY
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.certificate.cuts import Cuts, sums
from drfl.wire import Message, WireError, reply_kind, validate

PROXIMAL = (1e-2, 1e-4, 1e-7)  # multiples of the metric; one trial each
CLOSINGS = 3  # rounds of trials
PATIENCE = 4  # rounds in which the gap or the objective has to fall, relatively by so much:
GAP_FALLS, OBJECTIVE_FALLS = 0.1, 1e-4
INSIDE = 1.0 - 1e-9  # how much of the price a mixture of slopes may use


@dataclass(frozen=True)
class Trial:
    """Weights of the clients, and a slope for each: (S,), (S, d)."""

    q: Array
    g: Array


class ClosingSession(BundleSession):
    """A bundle session that asks guarded clients for constants at its end."""

    closings: int = 0
    trials: tuple[Trial, ...] = ()
    course: tuple[tuple[float, float], ...] = ()  # gap and objective, round by round

    def propose(self) -> dict[str, Message]:
        if not self.trials:
            return super().propose()
        slopes = np.array([trial.g for trial in self.trials])
        x = self.evaluated.points[self.best].x
        return {
            name: Message(KIND, self.round, {"g": slopes[:, s], "x": x})
            for s, name in enumerate(self.roster.names)
        }

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        if not self.trials:
            self.guarded |= any("guard" in reply.arrays for reply in replies.values())
            super().absorb(replies, failures)
            if self.guarded and self.centre >= 0 and self._is_stuck():
                self._try_slopes()
            return
        self._take_constants(replies)
        self.round += 1
        self.closings += 1
        self.trials = ()
        if self.gap > self.tol and self.closings < CLOSINGS and self.round < self.max_rounds:
            self._try_slopes()
        if not self.trials:
            self._status = self._last_word()

    def _is_stuck(self) -> bool:
        """Whether the cuts do not prove much more, or the rounds are nearly used up."""
        self.course = (*self.course, (self.gap, self.upper))
        if self.gap <= self.tol or self.problem.shared_ball:
            return False
        late = len(self.course) > PATIENCE
        if late:
            gap, upper = self.course[-1 - PATIENCE]
            late = (
                self.gap > (1.0 - GAP_FALLS) * gap and self.upper > (1.0 - OBJECTIVE_FALLS) * upper
            )
        return late or self._status is not None or self.round >= self.max_rounds - CLOSINGS

    def _try_slopes(self) -> None:
        """Slopes from masters with ever weaker proximal terms."""
        x, cuts = self.evaluated.points[self.best].x, self.pool.cuts
        M = self.metric.matrix(self.metric.curvature(self.q), 1.0, self.descent.mu)
        trials = []
        for factor in PROXIMAL:
            solution = self.master.solve(self.pool, cuts, x, factor * M, reference=self.upper)
            if solution.usable and len(cuts):
                trials.append(self._payable(cuts, solution.cuts, solution.weights))
        self.trials = tuple(trials)
        self._status = None if trials else self._last_word()

    def _payable(self, cuts: Cuts, a: Array, weights: Array) -> Trial:
        """The slopes that multipliers a make, their mixture moved to where the radii pay for it."""
        S, n, client = self.terms.n_clients, self.n, self.pool.cut_client
        q = np.maximum(self.terms.mixture.pull(np.maximum(weights, 0.0)), 0.0)
        total = np.stack([sums(client, a * column, S) for column in cuts.g.T], axis=1)
        g = total / np.maximum(weights, 1e-12)[:, None]
        mixed = q @ g
        wanted = np.zeros_like(mixed)
        wanted[:n] = self.terms.gauge.payable(mixed[:n], INSIDE * float(q @ self.terms.rho))
        return Trial(q, g + (wanted - mixed))

    def _take_constants(self, replies: Mapping[str, Message]) -> None:
        """Bounds from the trials themselves, and from all cuts with the new ones among them."""
        sizes = {"P": len(self.trials), "d": self.dimension}
        C = np.full((len(self.trials), self.terms.n_clients), NO_BOUND)
        best = self.evaluated.points[self.best]
        for s, name in enumerate(self.roster.names):
            if name not in replies:
                continue
            try:
                validate(replies[name], reply_kind(KIND), self.round, REPLY, sizes)
            except WireError:
                continue
            arrays = replies[name].arrays
            C[:, s] = arrays["constant"]
            if "value" in arrays:
                best.values[s] = min(best.values[s], float(arrays["value"][0]))
        self.upper = min(self.upper, self.evaluated.objective(self.best))
        for trial, constant in zip(self.trials, C, strict=True):
            self._raise_to(float(trial.q @ constant) + self._rest(trial))
            self._add(trial, constant)
        D = np.diag(self.metric.diagonal)
        self._solve(self.pool.cuts, best.x, TINY * D, self.upper, eps=SHARP, sharp=True)

    def _rest(self, trial: Trial) -> float:
        """What of the price the slopes do not use, where the multiplier has a floor."""
        terms = self.terms
        spare = float(trial.q @ terms.rho) - terms.gauge.polar((trial.q @ trial.g)[: self.n])
        return max(spare, 0.0) * float(terms.floor.min())

    def _raise_to(self, bound: float) -> None:
        # A bound above the objective by more than rounding is for the verdict to see.
        if self.bounded_everywhere and bound > self.lower:
            self.lower, self.last_progress = bound, self.round

    def _add(self, trial: Trial, constant: Array) -> None:
        for s, c in enumerate(constant):
            if c > 0.5 * NO_BOUND:
                cut = dual_cut(np.append(c, trial.g[s]), self.pool, s, self.round, self.lifted)
                self.pool.add([cut])

    def _last_word(self) -> Status:
        if self.gap <= self.tol:
            return Status.certified(self.gap)
        return Status(
            StatusKind.STALLED,
            f"the guards of the clients allow no more, the proved gap is {self.gap:.1e}, not yet "
            f"{self.tol:.1e}: more rows or a smaller k would",
        )
