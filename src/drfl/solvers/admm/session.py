r"""The server's half that both ADMMs share: rounds, multipliers, missing replies, certificate.

A round: the server sends its point (w, z_s), every client answers with the nearest point
:math:`(\hat w_s,\pi_s)` of its epigraph, both update the client's multipliers, and the server
moves. Every few rounds the clients also evaluate w exactly. A client that does not answer is
represented by its last answer and keeps its multipliers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.problem import Problem
from drfl.solvers.admm.certify import Certifier
from drfl.solvers.admm.exchange import KIND, REPLY, Penalty, State
from drfl.solvers.base import Session, Status
from drfl.solvers.bundle.exchange import KIND as CUTS
from drfl.solvers.bundle.exchange import Reply
from drfl.wire import Message, WireError, reply_kind, validate

PATIENCE = 10  # rounds to wait for a first answer


class AdmmSession(Session):
    """Rounds of an ADMM; what the server does with the answers is the subclass's part.

    Attributes
    ----------
    w, z : arrays of shape (d,) and (S,)
        The server's point.
    dual, last : arrays of shape (S, d + 1)
        The multipliers (psi_s, zeta_s) and the last answers (w_hat_s, pi_s).
    """

    step_at_once: bool  # whether the first round has a step already

    def __init__(
        self,
        problem: Problem,
        names: Sequence[str],
        n_features: int,
        *,
        tol: float,
        max_rounds: int,
        certify_every: int,
        batch: tuple[int, int] = (0, 0),
    ) -> None:
        self.problem, self.names, self.n = problem, tuple(names), n_features
        self.tol, self.max_rounds = tol, max_rounds
        self.certify_every, self.batch = certify_every, batch
        self.certifier = Certifier(problem, names, n_features)
        S, d = len(self.names), self.certifier.dimension
        self.w, self.z = np.zeros(d), np.zeros(S)
        self.dual, self.last = np.zeros((S, d + 1)), np.zeros((S, d + 1))
        self.informed: list[Penalty | None] = [None] * S  # what each client knows; None: nothing
        self.average, self.total = np.zeros(d), 0.0
        self.round = 0
        self._rejected: dict[str, str] = {}
        self._status: Status | None = None

    # ------------------------------------------------------------------ the subclass's part
    @property
    @abstractmethod
    def penalty(self) -> Penalty:
        """The penalties in force."""

    @abstractmethod
    def begin(self) -> None:
        """Everyone has introduced itself: the mixture is known, and the values at w = 0."""

    @abstractmethod
    def move(self) -> None:
        """Update the server's variables and its point (w, z) from the answers."""

    # ------------------------------------------------------------------ a round
    def propose(self) -> dict[str, Message]:
        return {self.names[s]: self._message(s) for s in self._asked()}

    def _asked(self) -> list[int]:
        """Everyone; at first, whoever has not introduced itself."""
        first = not self.certifier.begun
        known = self.certifier.introductions if first else {}
        return [s for s in range(len(self.names)) if s not in known]

    @property
    def _steps(self) -> bool:
        return self.certifier.begun or self.step_at_once

    @property
    def _evaluates(self) -> bool:
        return not self.certifier.begun or self.round % self.certify_every == 0

    @property
    def _points(self) -> Array:
        """The points that are evaluated: w and, if steps are of batches, the average."""
        averaged = self.batch[0] and self.total > 0.0
        return np.array([self.w, self.average] if averaged else [self.w])

    def _message(self, s: int) -> Message:
        arrays: dict[str, NDArray[Any]] = {"x": self.w}
        if self._steps:
            arrays["z"] = np.array(self.z[s])
            if self.informed[s] is None:
                arrays["duals"] = np.array([self.dual[s, :-1], self.last[s, :-1]])
                arrays["pair"] = np.array([self.dual[s, -1], self.last[s, -1]])
                if self.batch[0]:
                    arrays["batch"] = np.array(self.batch)
            if self.informed[s] != self.penalty:
                p = self.penalty
                arrays["penalty"] = np.array([p.model, p.value, p.relaxation])
        if self._evaluates:
            arrays["plan"] = np.array([1, not self.certifier.begun], dtype=np.uint8)
            if len(self._points) > 1:
                arrays["also"] = self._points[1]
        return Message(KIND, self.round, arrays)

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        steps, cuts = self._read(replies)
        for s in self._asked() if self._steps else ():
            if s in steps:
                self._take_step(s, steps[s])
            else:  # its answer may have been lost on the way: then it counts differently
                self.informed[s] = None
        if not self.certifier.begun:
            self.certifier.introductions.update(cuts)
            if self.certifier.begun:
                self.certifier.begin()
                self.begin()
                self._certify_and_move()
        else:
            if self._evaluates:
                self.certifier.take(self._points, cuts)
            self._certify_and_move()
        self.round += 1
        self._judge()

    def _certify_and_move(self) -> None:
        if self._evaluates:
            self.certifier.bound(self.tol)
        # Later iterates are better: the k-th counts k times.
        weight = float(self.round)
        self.total += weight
        if self.total > 0.0:
            self.average = self.average + weight / self.total * (self.w - self.average)
        self.move()

    def _take_step(self, s: int, answer: Array) -> None:
        state, point = State(self.dual[s], self.last[s]), np.append(self.w, self.z[s])
        target = state.target(point, self.penalty)
        after = state.after(target, answer, self.penalty)
        self.dual[s], self.last[s] = after.dual, after.last
        self.informed[s] = self.penalty

    def _read(self, replies: Mapping[str, Message]) -> tuple[dict[int, Array], dict[int, Reply]]:
        """The usable answers; a bad one counts as missing, with its reason."""
        steps: dict[int, Array] = {}
        cuts: dict[int, Reply] = {}
        self._rejected = {}
        for s in self._asked():
            name = self.names[s]
            if name in replies:
                try:
                    step, cut = self._read_one(s, replies[name])
                except WireError as error:
                    self._rejected[name] = str(error)
                    continue
                if step is not None:
                    steps[s] = step
                if cut is not None:
                    cuts[s] = cut
        return steps, cuts

    def _read_one(self, s: int, reply: Message) -> tuple[Array | None, Reply | None]:
        validate(reply, reply_kind(KIND), self.round, REPLY, {"d": len(self.w)})
        arrays = dict(reply.arrays)
        model, pi = arrays.pop("model", None), arrays.pop("pi", None)
        if self._steps and (model is None or pi is None):
            raise WireError("its step is missing")
        step = np.append(model, pi) if self._steps else None
        if step is not None and step[-1] < 0.0:
            raise WireError("its value is negative, which no worst-case loss is")
        if not self._evaluates:
            return step, None
        inner = Message(reply_kind(CUTS), self.round, arrays)
        cut = self.certifier.read(s, inner, self.certifier.request(self._points))
        if not self.certifier.begun and cut.about is None:
            raise WireError("its introduction is missing")
        return step, cut

    def _judge(self) -> None:
        """Stop on the proved gap; the last round always has a say."""
        if not self.certifier.begun:
            if self.round >= min(PATIENCE, self.max_rounds):
                self._status = Status.failed(self._silence())
        elif self.gap <= self.tol:
            self._status = self.certifier.success()
        elif self.round >= self.max_rounds:
            self._status = Status.max_rounds(self.gap, self.tol)

    def _silence(self) -> str:
        reasons = [
            f"{self.names[s]}: {self._rejected.get(self.names[s], 'no answer')}"
            for s in self._asked()
        ]
        return f"no usable first answer from {'; '.join(reasons)}"

    # ------------------------------------------------------------------ what everyone reads
    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def _best(self) -> Array:
        return self.certifier.best.x if self.certifier.begun else np.zeros(len(self.w))

    @property
    def coef(self) -> Array:
        return self._best[: self.n]

    @property
    def intercept(self) -> float:
        return float(self._best[self.n :].sum())

    @property
    def objective(self) -> float:
        return self.certifier.upper

    @property
    def lower_bound(self) -> float:
        return self.certifier.lower

    @property
    def gap(self) -> float:
        return self.certifier.gap

    @property
    def weights(self) -> Array:
        if not self.certifier.begun:
            return np.full(len(self.names), np.nan)
        return self.certifier.terms.mixture.worst_weights(self.client_losses)

    @property
    def client_losses(self) -> Array:
        known = self.certifier.begun
        return self.certifier.best.values if known else np.full(len(self.names), np.nan)

    @property
    def client_multipliers(self) -> Array:
        known = self.certifier.begun
        return self.certifier.best.multipliers if known else np.full(len(self.names), np.nan)

    @property
    def rejected(self) -> Mapping[str, str]:
        return self._rejected

    @property
    def info(self) -> Mapping[str, Any]:
        found = self.certifier.objectives
        out: dict[str, Any] = {"disagreement": float(np.abs(self.last[:, :-1] - self.w).max())}
        if found:
            out["at_iterate"] = found[0]
        if len(found) > 1:
            out["at_average"] = found[1]
        return out
