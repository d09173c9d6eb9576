r"""Between the oracle and the wire: what a guarded client answers at a point.

Two things leave: a valid cut that need not touch, and an upper bound of the value. The cut is made
of weights that the leverage audit admits, or it is an old one. The bound is the cut at the point
plus the excess of the true value, rounded up to a class.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.privacy.errors import SpentError
from drfl.privacy.flips import Flipped, flip
from drfl.privacy.ledger import Ledger
from drfl.privacy.preflight import is_linear
from drfl.privacy.rounding import FRESH, STALE, class_above, dither, floor_of, grid_above
from drfl.privacy.scalars import REFUSED
from drfl.privacy.weights import Slopes, fresh_slopes
from drfl.wire import Message
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

ANSWER = "answer"


@dataclass(frozen=True)
class Answer:
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
    """

    oracle: WholeSpaceOracle
    ledger: Ledger
    answers: int

    def answer(self, w: Array, b: float) -> Answer:
        """The stored answer of a point that has been asked before, or a new one, now stored."""
        family, question = self._digests(w, b)
        with self.ledger.journal.locked():
            self.ledger.refresh()
            entry = self.ledger.stored(question)
            if entry is None and self.ledger.count(ANSWER) < self.answers:
                entry = self._new(family, question, w, b)
            if entry is None:
                self.ledger.write(REFUSED, question, {})
        if entry is None or entry.kind == REFUSED:
            raise SpentError(f"the ledger has given its {self.answers} answers")
        upper, lam = entry.arrays["numbers"].tolist()
        if not self.oracle.labels_move:  # the entry serves every radius, norm and label cost
            lam = self.oracle.fixed_multiplier(self.oracle.ball.norm.dual(w))[0]
        return Answer(upper + self.oracle.ball.radius * lam, lam, entry.arrays["cut"])

    def _digests(self, w: Array, b: float) -> tuple[bytes, bytes]:
        """Of what a cut is a minorant of, and of the question."""
        oracle, rows = self.oracle, self.oracle.rows
        moves = oracle.labels_move
        sha = hashlib.sha256(
            repr((oracle.loss, oracle.ball.label_cost if moves else None)).encode()
        )
        for fold in (rows.shift, rows.scale):
            sha.update(b"-" if fold is None else fold.tobytes())
        family = sha.digest()
        # A zero with a sign is the same question.
        sha.update((np.append(w, b) + 0.0).tobytes())
        sha.update(repr((oracle.ball.norm.name, oracle.ball.radius) if moves else None).encode())
        return family, sha.digest()

    def _new(self, family: bytes, question: bytes, w: Array, b: float) -> Message:
        oracle, ledger, rows = self.oracle, self.ledger, self.oracle.rows
        k, norm = ledger.k, oracle.ball.norm.dual(w)
        floor = floor_of(k, rows.n_rows)
        z = oracle.arguments(rows.scores(w, b), rows.y)
        sign = rows.y if oracle.is_margin else np.ones_like(z)
        flipped = Flipped(oracle.fixed_multiplier(norm)[0], 0.0, np.zeros_like(z))
        if oracle.labels_move:
            flipped = flip(oracle, z, norm, k, dither(ledger.secret, question, "multiplier"))
        slopes = flipped.slopes(oracle, z, sign)
        lam = flipped.multiplier
        at = np.concatenate([[1.0, lam], w, [b]])
        best, value = self._best_old(family, at)
        v = fresh_slopes(slopes, ledger.leverage, k, value - flipped.touch(oracle, z))
        arrays: dict[str, NDArray[Any]] = {"cut": best, "family": np.frombuffer(family, np.uint8)}
        if v is not None:
            fresh = self._cut(slopes, flipped, v, question)
            # An old cut that is nearly as good costs no rank.
            if float(fresh @ at) > value + floor:
                weights = slopes.weights(v)
                arrays |= {"cut": fresh, "weights": weights}
                value = float(fresh @ at)
        excess = self._mean_loss(z, lam) - value
        ratio, shift = (
            FRESH if "weights" in arrays else STALE,
            dither(ledger.secret, question, "value"),
        )
        upper = value + class_above(excess, floor, ratio, shift)
        return ledger.write(ANSWER, question, arrays | {"numbers": np.array([upper, lam])})

    def _mean_loss(self, z: Array, lam: float) -> float:
        loss, oracle = self.oracle.loss, self.oracle
        losses = loss.value(z)
        if oracle.labels_move:
            losses = losses + np.maximum(flip_gain(loss, z) - oracle.ball.label_cost * lam, 0.0)
        return oracle.rows.mean(losses)

    def _cut(self, slopes: Slopes, flipped: Flipped, v: Array, question: bytes) -> Array:
        """The cut of slopes v; what of its constant is no linear sum of weights is rounded."""
        oracle, rows = self.oracle, self.oracle.rows
        loss, N = oracle.loss, rows.n_rows
        conjugate = slopes.beta * loss.conjugate(v)
        if flipped.mass > 0.0:
            conjugate += flipped.share * loss.conjugate(loss.slope(-slopes.z))
        cost = float(conjugate.mean())
        if flipped.mass > 0.0 or not is_linear(loss):
            shift = dither(self.ledger.secret, question, "constant")
            cost = grid_above(cost, floor_of(self.ledger.k, N), shift)
        weights = slopes.weights(v)
        constant = -cost
        if not oracle.is_margin:
            constant -= float(weights @ rows.y) / N
        slope = -oracle.ball.label_cost * flipped.mass if flipped.mass > 0.0 else 0.0
        g, gb = rows.combine(weights / N)
        return np.concatenate([[constant, slope], g, [gb]])

    def _best_old(self, family: bytes, at: Array) -> tuple[Array, float]:
        """The highest of the cuts sent so far, 0 among them, since no loss is negative."""
        best, value = np.zeros_like(at), 0.0
        for entry in self.ledger.entries:
            if "weights" in entry.arrays and entry.arrays["family"].tobytes() == family:
                here = float(entry.arrays["cut"] @ at)
                if here > value:
                    best, value = entry.arrays["cut"], here
        return best, value
