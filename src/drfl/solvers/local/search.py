"""From clients to a certified model: which rows the method sees, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from drfl.losses import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import relative_gap
from drfl.solvers.local.certificate import Minorants, Whole
from drfl.solvers.local.interior import Interior
from drfl.solvers.local.lines import line_table
from drfl.solvers.local.minorants import row_minorants
from drfl.solvers.local.selection import ACTIVE, Selection, everything, select, select_flips
from drfl.solvers.local.stack import Ints, stack
from drfl.solvers.local.terms import make_terms

PROMISING = 5.0  # a duality gap of so many tolerances is worth a proof
LONGEST = 150  # iterations, after which rounding must be in the way
SHORT, STUCK = 0.02, 4  # so many short steps in a row get nowhere
SOUND = 0.1  # of the first imbalance; a point with more is no start for others
FIRST = 1500  # rows of the first sample, at least
PER_COLUMN = 25  # and so many for each coefficient
FACTOR = 5  # samples grow by this
ROUGH, SMOOTHLY = 0.02, 0.002  # the relative gap to which a sample is solved; smooth losses
SHARES = (0.6, 0.2)  # of the rows are variables: in a sample, among all rows
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
        self.terms = make_terms(problem, names, n, sizes, _unit(clients))
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
        strides = self._strides()
        selection = everything(self.terms, self.whole, self._samples(strides[0]))
        core = base = self._core(selection)
        core.start()
        for stride in strides[1:]:
            yield from self._roughly(core)
            base = core if core.unmet <= SOUND else base
            core, selection = self._next(base, stride, self._shares[stride == 1])
        share = self._shares[1]
        while True:
            yield from self._until_proved(core, selection)
            if self.gap <= self.tol or selection.complete:
                return
            # Rows that were fixed wrongly may have left no way to balance, and led it astray.
            base, share = min(core, base, key=self._objective), min(1.0, 2.0 * share)
            core, selection = self._next(base, 1, share)

    # ------------------------------------------------------------------ samples
    @property
    def _shares(self) -> tuple[float, float]:
        return SHARES if self.terms.loss.pieces else FLIP_SHARES

    def _strides(self) -> list[int]:
        """Every so many rows are looked at, then more, in the end all."""
        first = max(FIRST, PER_COLUMN * self.terms.d)
        strides, stride = [1], FACTOR
        while self.whole.size > first * stride:
            strides.append(stride)
            stride *= FACTOR
        if self.terms.loss.pieces or self.terms.flips:
            return strides[::-1]
        return strides[1::-1]

    def _samples(self, stride: int) -> list[Ints]:
        """The rows of every client that are looked at: evenly spread, and those that count."""
        mixture, samples = self.terms.mixture, []
        for s, rows in enumerate(self.clients):
            step = max(1, min(stride, rows.n_rows // 200))
            some = np.arange(step // 2, rows.n_rows, step)
            if rows.p is not None:
                some = some[rows.p[some] > 0.0]
                some = some if len(some) else np.flatnonzero(rows.p)
            if mixture.radius == 0.0 and mixture.weights[s] == 0.0:
                some = some[:0]
            samples.append(some)
        return samples

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
        terms, whole, samples = self.terms, self.whole, self._samples(stride)
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
            following.resume(core, WARM * width / sum(len(sample) for sample in samples))
        return following, selection

    def _model(self, x: Array) -> tuple[Array, float]:
        terms = self.terms
        return x[: terms.n] / terms.unit, float(x[terms.n]) if terms.d > terms.n else 0.0

    def _objective(self, core: Interior) -> float:
        w, b = self._model(core.x)
        with np.errstate(all="ignore"):
            z = self.whole.margins(w, b)
        if not np.isfinite(z).all():
            return math.inf
        return self.whole.evaluate(self.terms, w, b, z).objective

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
        w, b = self._model(core.full if core.tied else core.x)
        model = whole.evaluate(terms, w, b, whole.margins(w, b))
        if model.objective < self.best.objective:
            self.best = model
        q = terms.mixture.weights
        if not terms.certain:
            q = np.maximum(
                terms.mixture.pull(np.maximum(core.full_q if core.tied else core.q, 0.0)), 0.0
            )
        minorants = self._fixed_minorants(selection, q)
        at = np.concatenate([some + whole.starts[s] for s, some in enumerate(selection.active)])
        own = row_minorants(core, q)
        for target, values in zip(
            (minorants.constant, minorants.slope, minorants.pull), own, strict=True
        ):
            target[at] += values  # a flip for good adds to the logistic loss of a row
        self.lower = max(self.lower, whole.lower_bound(terms, minorants))

    def _fixed_minorants(self, selection: Selection, q: Array) -> Minorants:
        """The lines of the rows that the method did not see."""
        constant, slope, pull = (np.zeros(self.whole.size) for _ in range(3))
        for s, rows in enumerate(self.clients):
            part = self.whole.part(s)
            line = selection.line[part]
            chosen = np.flatnonzero(line != ACTIVE)
            table = line_table(self.terms, s)[line[chosen]]
            mass = q[s] * rows.masses(chosen)
            slope[part][chosen] = mass * table[:, 0]
            constant[part][chosen] = mass * table[:, 1]
            pull[part][chosen] = mass * table[:, 2]
        return Minorants(q, constant, slope, pull)


def _unit(clients: Sequence[Rows]) -> float:
    """The typical size of a feature in a sample: the geometric mean over the columns."""
    parts = [rows.take(slice(None, None, 1 + rows.n_rows // FIRST)) for rows in clients]
    second = np.mean([np.einsum("ij,ij->j", part, part) / len(part) for part in parts], axis=0)
    second = second[second > 0.0]
    return math.exp(0.5 * float(np.log(second).mean())) if len(second) else 1.0
