r"""Between the oracle and the wire: what a guarded client answers at a point.

Two things leave: a valid cut that need not touch, and an upper bound of the value. The cut is made
of weights that the leverage audit admits, or it is an old one. The bound is the cut at the point
plus the excess of the true value, rounded up to a class.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.norms import L1, L2, LInf
from drfl.privacy.columns import Centres
from drfl.privacy.journal import SpentError
from drfl.privacy.keys import meaning_of
from drfl.privacy.ledger import Ledger
from drfl.privacy.release.lattice import Lattice
from drfl.privacy.release.rounding import (
    FRESH,
    STALE,
    Rounding,
    Units,
    class_above,
    dither,
    grid_above,
    grid_below,
    power_of_two,
)
from drfl.privacy.release.tilt import best_constant
from drfl.privacy.release.weights import DualPoint, Slopes, flip, fresh_dual
from drfl.privacy.scalars import release_scalar
from drfl.wire import Message
from drfl.worst_case.own_intercept import own_intercept
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

ANSWER, INTERCEPT = "answer", "intercept"
CONSTANT = 100.0  # over N^2, in units of a constant: the grid of those that close a run
NO_BOUND = -1e12  # instead of a constant, where no minorant has the slope


@dataclass(frozen=True)
class GuardedAnswer:
    r"""What leaves at a point (w, b).

    Attributes
    ----------
    upper, multiplier : float
        An upper bound of F, and the multiplier that it is taken at.
    cut : (n + 3,)
        Constant, slope in the multiplier, slopes in w and b of a minorant of
        :math:`u(w,b,\lambda)`, the mean loss at the price :math:`\lambda`.
    """

    upper: float
    multiplier: float
    cut: Array


@dataclass(frozen=True)
class Keeper:
    """Answers for one client's rows under one ledger.

    Parameters
    ----------
    oracle : WholeSpaceOracle
        Its worst-case loss; only F itself and the margins are used.
    ledger : Ledger
        What has left so far.
    answers : int
        How many points the ledger answers in all.
    curves : Curves, optional
        Whose ramps the rows are.
    """

    oracle: WholeSpaceOracle
    ledger: Ledger
    answers: int
    curves: Curves | None = None

    def answer(self, w: Array, b: float, of: Array | None = None) -> GuardedAnswer:
        """The stored answer of a point that has been asked before, or a new one, now stored.

        A point that is too far away is answered at one towards 0, whose cut is valid everywhere
        and whose value is within Lip times the distance. With ``of``, w stands for that model.
        """
        asked = w if of is None else of
        norm = self.oracle.ball.norm.dual(asked)
        near, close = self._units.within(w, b)
        question = self.question(near, close)
        entry = self._once(question, lambda: self._new(question, near, close))
        upper, lam = entry.arrays["numbers"].tolist()
        if not self.oracle.labels_move:  # the entry serves every radius, norm and label cost
            lam = self.oracle.fixed_multiplier(norm)[0]
        lam = max(lam, norm) if self.oracle.labels_move else lam
        upper += self._units.lipschitz * self._units.reach(asked - near, b - close)
        return GuardedAnswer(upper + self.oracle.ball.radius * lam, lam, entry.arrays["cut"])

    def inside(self, w: Array) -> Array:
        """The model, or one towards 0 that leaves half of the reach to an intercept."""
        return self._units.within(w, 0.0, 0.5)[0]

    def intercept(self, w: Array) -> float:
        """About the best intercept for a model `inside`; it stays here, and is found once.

        On a dithered grid: where a rounded one changes would be the score of one row.
        """
        question = hashlib.sha256(b"intercept\0" + self.question(w, 0.0)).digest()

        def found() -> Message:
            step, shift = self.step, dither(self.ledger.secret, question, "intercept")
            b = grid_above(own_intercept(self.oracle, w).b - 0.5 * step, step, shift)
            b = self._units.within(np.zeros_like(w), b, 0.5)[1]
            return self.ledger.write(INTERCEPT, question, {"b": np.array([b])})

        return float(self._once(question, found).arrays["b"][0])

    @cached_property
    def step(self) -> float:
        """Between intercepts: about what a few rows can move one by."""
        return power_of_two(self._units.target * self.ledger.k / self.ledger.n_rows)

    def _once(self, question: bytes, new: Callable[[], Message]) -> Message:
        """The entry of a question; nothing is computed where no more answers are given."""
        ledger = self.ledger
        with ledger.journal.locked():
            ledger.refresh()
            entry = ledger.stored(question)
            if entry is None and ledger.count(ANSWER) >= self.answers:
                ledger.refuse(question)
                raise SpentError(f"the ledger has given its {self.answers} answers")
            return new() if entry is None else entry

    def question(self, w: Array, b: float) -> bytes:
        """A digest of what is asked at a point; where labels do not move, for every radius."""
        ball = self.oracle.ball
        sha = hashlib.sha256(self.family)
        # A zero with a sign is the same question.
        sha.update((np.append(w, b) + 0.0).tobytes())
        if self.oracle.labels_move:
            sha.update(repr((ball.norm.name, ball.radius)).encode())
            if not isinstance(ball.norm, L1 | L2 | LInf):  # the name is all of these three
                sha.update(ball.norm.identity)
        return sha.digest()

    def value(self, w: Array, b: float, most: int) -> float:
        """A closer upper bound of F where a point has been answered; one of so many scalars."""
        told = self.answer(w, b)
        if not self._units.is_within(w, b):
            return told.upper
        cut = float(told.cut @ np.concatenate([[1.0, told.multiplier], w, [b]]))
        step = self._units.floor(w, b, cut, self.ledger.k / self.ledger.n_rows)
        mean = release_scalar(
            self.ledger,
            "value",
            self.question(w, b),
            lambda: self._mean_loss(self._arguments(w, b), told.multiplier),
            Rounding(step, up=True),
            most,
        )
        return min(told.upper, mean + self.oracle.ball.radius * told.multiplier)

    def constant(self, g: Array, most: int) -> float:
        """The constant of the best minorant with a slope; `NO_BOUND` where there is none.

        Whether a slope is possible is a number like any other: it is counted as well.
        """

        def best() -> float:
            found = best_constant(self.oracle, g)
            return NO_BOUND if found is None else found

        step = CONSTANT * self._units.of_constant / self.ledger.n_rows**2
        question = self.family + (g + 0.0).tobytes()
        down = Rounding(step, up=False)
        return release_scalar(self.ledger, "constant", question, best, down, most)

    @cached_property
    def family(self) -> bytes:
        """A digest of what a cut is a minorant of: the rows as they are read, and the loss.

        Of the ball only what a mean loss depends on, the price of labels where they move.
        """
        cost = self.oracle.ball.label_cost if self.oracle.labels_move else None
        about = repr((self.oracle.loss, cost)).encode()
        return hashlib.sha256(meaning_of(self.oracle.rows) + about).digest()

    def _new(self, question: bytes, w: Array, b: float) -> Message:
        oracle, ledger, rows = self.oracle, self.ledger, self.oracle.rows
        k, norm = ledger.k, oracle.ball.norm.dual(w)
        z = self._arguments(w, b)
        sign = rows.y if oracle.is_margin else np.ones_like(z)
        slopes, lam = Slopes.fixed(oracle.loss, z, sign), oracle.fixed_multiplier(norm)[0]
        if oracle.labels_move:
            share, lam = flip(oracle, z, norm, k, dither(ledger.secret, question, "multiplier"))
            price = oracle.ball.label_cost * lam
            slopes = Slopes(oracle.loss, z, sign, share, oracle.loss.slope(-z), price)
        at = np.concatenate([[1.0, lam], w, [b]])
        best, value = self._best_old(at)
        dual = fresh_dual(slopes, ledger.leverage, self._lattice, self._centres, value)
        arrays: dict[str, NDArray[Any]] = {
            "cut": best,
            "family": np.frombuffer(self.family, np.uint8),
        }
        if dual is not None:
            fresh = self._cut(slopes, dual, question)
            # An old cut that is nearly as good costs no rank.
            if float(fresh @ at) > value + self._units.floor(w, b, value, k / rows.n_rows):
                arrays |= {"cut": fresh, "weights": slopes.weights(dual)}
                value = float(fresh @ at)
        excess = self._mean_loss(z, lam) - value
        ratio = FRESH if "weights" in arrays else STALE
        floor, shift = (
            self._units.floor(w, b, value, k / rows.n_rows),
            dither(ledger.secret, question, "value"),
        )
        upper = value + class_above(excess, floor, ratio, shift)
        return ledger.write(ANSWER, question, arrays | {"numbers": np.array([upper, lam])})

    def _arguments(self, w: Array, b: float) -> Array:
        rows = self.oracle.rows
        return self.oracle.arguments(rows.scores(w, b), rows.y)

    def _mean_loss(self, z: Array, lam: float) -> float:
        loss, oracle = self.oracle.loss, self.oracle
        losses = loss.value(z)
        if oracle.labels_move:
            losses = losses + np.maximum(flip_gain(loss, z) - oracle.ball.label_cost * lam, 0.0)
        return oracle.rows.mean(losses)

    def _cut(self, slopes: Slopes, dual: DualPoint, question: bytes) -> Array:
        """The cut of a dual; what of it is no linear sum of weights is rounded down."""
        oracle, rows, secret = self.oracle, self.oracle.rows, self.ledger.secret
        part = self.ledger.k / rows.n_rows
        step = part**2 * self._units.of_constant
        budget = oracle.ball.radius / oracle.ball.label_cost
        cost, mass = float(slopes.conjugate(dual).mean()), float(dual.share.mean())
        if mass > 0.0:
            told = grid_above(mass, part**2, dither(secret, question, "mass"))
            # The whole budget is a public number.
            mass = budget if mass <= budget < told else told
        weights, constant = slopes.weights(dual), -cost
        if not oracle.is_margin:
            constant -= float(weights @ rows.y) / rows.n_rows
        constant = grid_below(constant, step, dither(secret, question, "constant"))
        slope = -oracle.ball.label_cost * mass if mass > 0.0 else 0.0
        gb, *g = self._lattice.told(weights)
        return np.array([constant, slope, *g, gb])

    @cached_property
    def _units(self) -> Units:
        return Units.of(self.oracle.rows, self.oracle.loss)

    @cached_property
    def _centres(self) -> Centres:
        A, y = self._lattice.A, self.oracle.rows.y
        hats = A[:, :0] if self.curves is None else self.curves.hats(A[:, 1:])
        targets = y[:, None][:, : not self.oracle.is_margin]  # numbers are in the constants
        return Centres(np.hstack([A, hats, targets]), self.ledger.k)

    @cached_property
    def _lattice(self) -> Lattice:
        return Lattice.of(self.oracle.rows, self.oracle.loss.lipschitz)

    def _best_old(self, at: Array) -> tuple[Array, float]:
        """The highest of the cuts sent so far, 0 among them, since no loss is negative."""
        best, value = np.zeros_like(at), 0.0
        for entry in self.ledger.entries:
            if "weights" not in entry.arrays or entry.kind != ANSWER:
                continue
            if entry.arrays["family"].tobytes() == self.family:
                here = float(entry.arrays["cut"] @ at)
                if here > value:
                    best, value = entry.arrays["cut"], here
        return best, value
