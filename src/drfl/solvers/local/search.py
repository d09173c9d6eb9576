"""From clients to a certified model: which rows the method sees, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import relative_gap
from drfl.solvers.local.certificate import Model, Whole
from drfl.solvers.local.interior import Interior
from drfl.solvers.local.minorants import fixed_minorants, row_minorants
from drfl.solvers.local.samples import sample, strides, typical_size
from drfl.solvers.local.selection import Selection, everything, select, select_flips
from drfl.solvers.local.stack import stack
from drfl.solvers.local.terms import make_terms

PROMISING = 5.0  # a duality gap of so many tolerances is worth a proof
LONGEST = 150  # iterations, after which rounding must be in the way
SHORT, STUCK = 0.02, 4  # so many short steps in a row get nowhere
SOUND = 0.1  # of the first imbalance; a point with more is no start for others
ROUGH, SMOOTHLY = 0.02, 0.002  # the relative gap to which a sample is solved; smooth losses
UNSURE, LEAST_SHARE = 3.3, 0.03  # how many rows are variables, see Search._share
FLIP_SHARES = (0.15, 0.05)  # of the rows of a smooth loss may flip or not
SMOOTH_WIDTH = 0.1  # the same for rows of a smooth loss
WARM = 0.3  # where the path goes on, in units of the distance of the farthest active row


class Search:
    """The state of a run.

    Attributes
    ----------
    best : Model
        The best model so far.
    lower, at_zero : float
        What is proved of the optimum, and the objective at 0.
    promise : float
        The relative gap that the method believes to have, unproved.
    """

    def __init__(
        self, problem: Problem, names: Sequence[str], clients: Sequence[Rows], tol: float
    ) -> None:
        self.clients, self.tol = clients, tol
        n = clients[0].n_features
        sizes = np.array([rows.total for rows in clients])
        self.terms = make_terms(problem, names, n, sizes, typical_size(clients))
        self.whole = Whole(problem, names, clients)
        self.best = self.whole.evaluate(self.terms, np.zeros(n), 0.0, self.whole.at_zero())
        self.at_zero, self.lower = self.best.objective, 0.0
        self.promise, self.short = math.inf, 0

    @property
    def gap(self) -> float:
        """What is proved."""
        return relative_gap(self.best.objective, self.lower, self.at_zero)

    def iterations(self) -> Iterator[None]:
        """Iterate until the tolerance is proved or nothing helps any more."""
        share, steps = 1.0, strides(self.terms, self.whole.size)
        selection = everything(self.terms, self.whole, sample(self.terms, self.clients, steps[0]))
        core = base = self._core(selection)
        core.start()
        for before, stride in pairwise(steps):
            yield from self._roughly(core)
            base = core if core.unmet <= SOUND else base
            share = self._share(self.whole.size / before, stride == 1)
            core, selection = self._next(base, stride, share)
        while True:
            yield from self._until_proved(core, selection)
            if self.gap <= self.tol or selection.complete:
                return
            # Rows that were fixed wrongly may have left no way to balance, and led it astray.
            base, share = min(core, base, key=self._objective), min(1.0, 2.0 * share)
            core, selection = self._next(base, 1, share)

    # ------------------------------------------------------------------ samples
    def _share(self, seen: float, last: bool) -> float:
        """How many rows to leave free: margins are off by about sqrt(d / rows of the sample)."""
        if not self.terms.loss.pieces:
            return FLIP_SHARES[last]
        return max(LEAST_SHARE, UNSURE * math.sqrt(self.terms.d / seen))

    def _core(self, selection: Selection) -> Interior:
        terms = self.terms
        chosen = stack(
            self.clients,
            selection.active,
            selection.factors.tolist(),
            unit=terms.unit,
            margin=terms.margin,
            intercept=terms.d > terms.n,
        )
        return Interior(terms, chosen, selection.fixed, selection.flipping)

    def _next(self, core: Interior, stride: int, share: float) -> tuple[Interior, Selection]:
        """The same problem with more rows, or with other ones fixed."""
        terms, whole, samples = self.terms, self.whole, sample(self.terms, self.clients, stride)
        smooth = not terms.loss.pieces
        if share >= 1.0 or (smooth and not terms.flips):
            selection, width = everything(terms, whole, samples), SMOOTH_WIDTH
        else:
            z, lam = whole.margins(*self._model(core.x)), core.xi[terms.index]
            choose = select_flips if smooth else select
            selection, width = choose(terms, whole, samples, z, lam, share)
        following = self._core(selection)
        if selection.complete and not smooth:
            following.start()  # other choices of rows were in vain
        else:
            following.resume(core, WARM * width / sum(len(some) for some in samples))
        return following, selection

    def _model(self, x: Array) -> tuple[Array, float]:
        terms = self.terms
        return x[: terms.n] / terms.unit, float(x[terms.n]) if terms.d > terms.n else 0.0

    def _evaluate(self, x: Array) -> Model | None:
        """The exact objective; None at a model so far away that margins overflow."""
        w, b = self._model(x)
        with np.errstate(all="ignore"):
            z = self.whole.margins(w, b)
        return self.whole.evaluate(self.terms, w, b, z) if np.isfinite(z).all() else None

    def _objective(self, core: Interior) -> float:
        model = self._evaluate(core.x)
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
        value = abs(float(core.q @ core.values))
        self.promise = core.products / max(value, 1e-3 * self.at_zero)
        return True

    def _roughly(self, core: Interior) -> Iterator[None]:
        enough = ROUGH if self.terms.loss.pieces else SMOOTHLY
        while self._step(core) and (self.promise > enough or core.unmet > enough):
            yield

    def _until_proved(self, core: Interior, selection: Selection) -> Iterator[None]:
        """Iterate until the proof; if none succeeds, wrong rows are fixed, or rounding stops it."""
        patience, far = (4, 1e-2) if selection.complete else (2, 1.0)
        for _ in range(LONGEST):
            if patience == 0 or self.gap <= self.tol or not self._step(core):
                return
            if self.promise <= PROMISING * self.tol:
                before = self.gap
                self._prove(core, selection)
                patience -= self.promise <= far * self.tol and self.gap > 0.5 * before
            yield

    def _prove(self, core: Interior, selection: Selection) -> None:
        """Both bounds at the present point."""
        terms, whole = self.terms, self.whole
        # With curvature a whole step is better than the part of it that stays in the interior.
        x, q = (core.full, core.full_q) if core.tied else (core.x, core.q)
        model = self._evaluate(x[: terms.d])
        if model is not None and model.objective < self.best.objective:
            self.best = model
        if not (terms.certain or np.isfinite(q).all()):
            return
        q = terms.mixture.weights if terms.certain else np.maximum(terms.mixture.pull(q), 0.0)
        minorants = fixed_minorants(terms, whole, selection, q)
        at = np.concatenate([some + whole.starts[s] for s, some in enumerate(selection.active)])
        own = row_minorants(core, q)
        for target, values in zip(
            (minorants.constant, minorants.slope, minorants.pull), own, strict=True
        ):
            target[at] += values  # a flip for good adds to the logistic loss of a row
        self.lower = max(self.lower, whole.lower_bound(terms, minorants))
