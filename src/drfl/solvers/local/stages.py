"""From clients to a certified model: which rows the method sees, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import gap_scale
from drfl.solvers.certificate.proof import weights_in
from drfl.solvers.local.interior import Interior
from drfl.solvers.local.iterate import Iterate
from drfl.solvers.local.lower_bound import lower_bound
from drfl.solvers.local.program import ExactModel, LocalSearch
from drfl.solvers.local.samples import (
    Sample,
    everything,
    select,
    select_flips,
    spread_rows,
    strides,
    typical_size,
)
from drfl.solvers.local.stack import stack

PROMISING = 5.0  # a duality gap of so many tolerances is worth a proof
LONGEST = 150  # iterations, after which rounding must be in the way
SHORT, STUCK = 0.02, 4  # so many short steps in a row get nowhere
SOUND = 0.1  # of the first imbalance; a point with more is no start for others
ROUGH, SMOOTHLY = 0.02, 0.002  # the relative gap to which a sample is solved; smooth losses
UNSURE, LEAST_SHARE = 3.3, 0.03  # how many rows are variables, see StagedSearch._share
FLIP_SHARES = (0.15, 0.05)  # of the rows of a smooth loss may flip or not
SMOOTH_WIDTH = 0.1  # the same for rows of a smooth loss
WARM = 0.3  # where the path goes on, in units of the distance of the farthest active row


class StagedSearch(LocalSearch):
    """Interior points on samples that grow."""

    def __init__(
        self, problem: Problem, names: Sequence[str], clients: Sequence[Rows], tol: float
    ) -> None:
        super().__init__(problem, names, clients, tol, unit=typical_size(clients))
        self.short = 0

    def iterations(self) -> Iterator[None]:
        share, steps = 1.0, strides(self.program, self.whole.size)
        sample = everything(
            self.program, self.whole, spread_rows(self.program, self.clients, steps[0])
        )
        core = base = self._start(sample)
        for before, stride in pairwise(steps):
            yield from self._roughly(core)
            base = core if core.unmet <= SOUND else base
            share = self._share(self.whole.size / before, stride == 1)
            core, sample = self._next(base, stride, share)
        while True:
            yield from self._until_proved(core, sample)
            if self.gap <= self.tol or sample.complete:
                return
            # Rows that were fixed wrongly may have left no way to balance, and led it astray.
            base, share = min(core, base, key=self._objective), min(1.0, 2.0 * share)
            core, sample = self._next(base, 1, share)

    # ------------------------------------------------------------------ samples
    def _share(self, seen: float, last: bool) -> float:
        """How many rows to leave free: margins are off by about sqrt(d / rows of the sample)."""
        if not self.program.loss.pieces:
            return FLIP_SHARES[last]
        return max(LEAST_SHARE, UNSURE * math.sqrt(self.program.d / seen))

    def _start(self, sample: Sample) -> Interior:
        """Begin anew with these rows."""
        at = self._iterate(sample)
        at.start()
        return Interior(at)

    def _iterate(self, sample: Sample) -> Iterate:
        program = self.program
        chosen = stack(
            self.clients,
            sample.active,
            sample.factors.tolist(),
            unit=program.unit,
            margin=program.margin,
            intercept=program.d > program.n,
        )
        return Iterate(program, chosen, sample.fixed, sample.flipping)

    def _next(self, core: Interior, stride: int, share: float) -> tuple[Interior, Sample]:
        """The same problem with more rows, or with other ones fixed."""
        program, whole, samples = (
            self.program,
            self.whole,
            spread_rows(self.program, self.clients, stride),
        )
        smooth = not program.loss.pieces
        if share >= 1.0 or (smooth and not program.flips):
            sample, width = everything(program, whole, samples), SMOOTH_WIDTH
        else:
            at = core.iterate
            z, lam = whole.margins(*self._model(at.x)), at.xi[program.index]
            choose = select_flips if smooth else select
            sample, width = choose(program, whole, samples, z, lam, share)
        if sample.complete and not smooth:
            return self._start(sample), sample  # other choices of rows were in vain
        following = self._iterate(sample)
        following.resume(core.iterate, WARM * width / sum(len(some) for some in samples))
        return Interior(following), sample

    def _model(self, x: Array) -> tuple[Array, float]:
        program = self.program
        return x[: program.n] / program.unit, float(x[program.n]) if program.d > program.n else 0.0

    def _evaluate(self, x: Array) -> ExactModel | None:
        """The exact objective; None at a model so far away that margins overflow."""
        w, b = self._model(x)
        with np.errstate(all="ignore"):
            z = self.whole.margins(w, b)
        return self.whole.evaluate(self.program, w, b, z) if np.isfinite(z).all() else None

    def _objective(self, core: Interior) -> float:
        model = self._evaluate(core.iterate.x)
        return math.inf if model is None else model.objective

    # ------------------------------------------------------------------ iterations
    def _step(self, core: Interior) -> bool:
        """One iteration; whether it got anywhere."""
        try:
            with np.errstate(all="ignore"):
                length = core.step()
        except np.linalg.LinAlgError:
            return False
        self.short = self.short + 1 if length < SHORT else 0
        if self.short == STUCK or not (length > 0.0 and math.isfinite(core.products)):
            self.short = 0
            return False
        value = abs(float(core.iterate.q @ core.values))
        self.promise = core.products / gap_scale(value, self.at_zero)
        return True

    def _roughly(self, core: Interior) -> Iterator[None]:
        enough = ROUGH if self.program.loss.pieces else SMOOTHLY
        while self._step(core) and (self.promise > enough or core.unmet > enough):
            yield

    def _until_proved(self, core: Interior, sample: Sample) -> Iterator[None]:
        """Iterate until the proof; if none succeeds, wrong rows are fixed, or rounding stops it."""
        patience, far = (4, 1e-2) if sample.complete else (2, 1.0)
        for _ in range(LONGEST):
            if patience == 0 or self.gap <= self.tol or not self._step(core):
                return
            if self.promise <= PROMISING * self.tol:
                before = self.gap
                self._prove(core, sample)
                patience -= self.promise <= far * self.tol and self.gap > 0.5 * before
            yield

    def _prove(self, core: Interior, sample: Sample) -> None:
        """Both bounds at the present point."""
        server, at = self.program.server, core.iterate
        # With curvature a whole step is better than the part of it that stays in the interior.
        x, q = (core.full, core.full_q) if at.tied else (at.x, at.q)
        model = self._evaluate(x[: self.program.d])
        if model is not None and model.objective < self.best.objective:
            self.best = model
        if not (server.certain or np.isfinite(q).all()):
            return
        q = server.mixture.weights if server.certain else weights_in(server, q)
        proved = lower_bound(self.program, self.whole, core, sample, q)
        self.lower = max(self.lower, proved)
