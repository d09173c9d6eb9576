r"""The server's half that both ADMMs share: rounds, multipliers, missing replies, certificate.

A round: the server sends its point (w, z_s), every client answers with the nearest point
:math:`(\hat w_s,\pi_s)` of its epigraph, both update the client's multipliers, and the server
moves. Every few rounds the clients also evaluate w exactly; who misses that is asked again in the
next rounds. A client that does not answer is represented by its last answer and keeps its
multipliers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Handler
from drfl.solvers.admm.certify import Certifier
from drfl.solvers.admm.client import HANDLERS, KIND, RECALL_KIND, REPLY
from drfl.solvers.admm.multipliers import Multipliers, Penalties
from drfl.solvers.base import Assignment, Session, Solver, Standing, Status, require_few_columns
from drfl.solvers.bundle.stacks import Stack
from drfl.wire import Message, WireError, reply_kind, validate

PATIENCE = 10  # rounds to wait for a first answer


class AdmmSession(Session):
    """Rounds of an ADMM; what the server does with the answers is the subclass's part.

    Attributes
    ----------
    w, z : arrays of shape (d,) and (S,)
        The server's point.
    multipliers : Multipliers
        The clients' multipliers and last answers.
    average : array of shape (d,)
        The mean of all w so far, the k-th one counted k times.
    """

    step_at_once: ClassVar[bool]  # whether the first round has a step already

    settings: AdmmSolver

    def __init__(self, settings: AdmmSolver, task: Assignment) -> None:
        self.certifier, self.task, self.names = Certifier(task), task, task.names
        self.round = 0
        self._rejected: dict[str, str] = {}
        self._status: Status | None = None
        self._info: dict[str, float] = {}
        self.settings = settings
        S, d = len(self.names), self.certifier.dimension
        self.w, self.z = np.zeros(d), np.zeros(S)
        self.multipliers = Multipliers(S, d, settings.batch_size or 0, settings.seed)
        self.average, self.total = np.zeros(d), 0.0
        self.prepare()

    # ------------------------------------------------------------------ the subclass's part
    @abstractmethod
    def prepare(self) -> None:
        """Set the server's own variables, before anybody was asked."""

    @property
    @abstractmethod
    def penalty(self) -> Penalties:
        """The penalties in force."""

    @abstractmethod
    def begin(self) -> None:
        """Everyone has introduced itself: the mixture is known, and the values at w = 0."""

    @abstractmethod
    def move(self) -> None:
        """Update the server's variables and its point (w, z) from the answers."""

    # ------------------------------------------------------------------ questions
    def propose(self) -> dict[str, Message]:
        return {self.names[s]: self._message(s) for s in self._asked()}

    def recall(self) -> dict[str, Message]:
        told = self.multipliers.repetitions(self.penalty)
        return {self.names[s]: Message(RECALL_KIND, self.round, steps) for s, steps in told.items()}

    @property
    def dual(self) -> Array:
        """The multipliers (psi_s, zeta_s), (S, d + 1)."""
        return self.multipliers.dual

    @property
    def last(self) -> Array:
        """The last answers (w_hat_s, pi_s), (S, d + 1)."""
        return self.multipliers.last

    @property
    def _steps(self) -> bool:
        return self.certifier.begun or self.step_at_once

    def _message(self, s: int) -> Message:
        arrays: dict[str, NDArray[Any]] = {"x": self.w}
        if self._steps:
            arrays["z"] = np.array(self.z[s])
            arrays |= self.multipliers.news(s, self.penalty)
        request = self.certifier.request(s)
        if request is not None:
            here = int(np.array_equal(request.points[0], self.w))
            ask = request.message(self.round).arrays
            arrays |= {"id": ask["id"], "plan": ask["plan"]}
            if len(request.points) > here:
                arrays["also"] = request.points[here:]
        return Message(KIND, self.round, arrays)

    # ------------------------------------------------------------------ answers
    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        steps, cuts = self._read(replies)
        if self._steps:
            for s in self._asked():
                self.multipliers.take(s, np.append(self.w, self.z[s]), steps.get(s), self.penalty)
        first = not self.certifier.begun
        if cuts:
            self.certifier.take(cuts)
        if self.certifier.begun:
            if first:
                self.begin()
            if cuts:
                self.certifier.bound(self.task.tol)
            apart = float(np.abs(self.last[:, :-1] - self.w).max())
            self._info = {"disagreement": apart, **self._objectives()}
            self._average()
            self.move()
        self.round += 1
        if self.certifier.begun and self.round % self.settings.certify_every == 0:
            averaged = [self.average] if self.settings.batch_size else []
            self.certifier.open([self.w, *averaged])
        self._judge()

    def _average(self) -> None:
        self.total += self.round
        if self.total > 0.0:
            self.average = self.average + self.round / self.total * (self.w - self.average)

    def _read(self, replies: Mapping[str, Message]) -> tuple[dict[int, Array], dict[int, Stack]]:
        """The usable answers; a bad one counts as missing, with its reason."""
        steps: dict[int, Array] = {}
        cuts: dict[int, Stack] = {}
        self._rejected = {}
        for s in self._asked():
            name = self.names[s]
            try:
                if name in replies:
                    step, cut = self._read_one(s, replies[name])
                    steps |= {} if step is None else {s: step}
                    cuts |= {} if cut is None else {s: cut}
            except WireError as error:
                self._rejected[name] = str(error)
        return steps, cuts

    def _read_one(self, s: int, reply: Message) -> tuple[Array | None, Stack | None]:
        validate(reply, reply_kind(KIND), self.round, REPLY, {"d": len(self.w)})
        arrays, step = dict(reply.arrays), None
        model, pi = arrays.pop("model", None), arrays.pop("pi", None)
        if self._steps:
            if model is None or pi is None:
                raise WireError("its step is missing")
            if pi < 0.0:
                raise WireError("its value is negative, which no worst-case loss is")
            step = np.append(model, pi)
        cut = None if self.certifier.request(s) is None else self.certifier.read(s, arrays)
        return step, cut

    @property
    def standing(self) -> Standing:
        certifier, best = self.certifier, self.certifier.best
        shared, weights = self.task.problem.shared_intercept, np.full(len(self.names), np.nan)
        if best.complete:
            weights = certifier.server.mixture.worst_weights(best.values)
        return Standing(
            self._status,
            best.x[: self.task.n],
            float(best.x[self.task.n]) if shared else 0.0,
            certifier.upper,
            certifier.lower,
            certifier.at_zero,
            weights,
            best.values,
            best.multipliers,
            self._rejected,
            self._info,
            certifier.within,
        )

    # ------------------------------------------------------------------ the end
    def _asked(self) -> list[int]:
        """Everyone; at first, whoever has not introduced itself."""
        everyone = range(len(self.names))
        if self.certifier.begun:
            return list(everyone)
        return [s for s in everyone if s not in self.certifier.introductions]

    def _judge(self) -> None:
        """Stop on the proved gap, or with the rounds."""
        if not self.certifier.begun:
            if self.round >= min(PATIENCE, self.task.max_rounds):
                missing = [self.names[s] for s in self._asked()]
                self._status = Status.unintroduced(missing, self._rejected)
            return
        self._status = self._verdict()
        if self._status is None and self.round >= self.task.max_rounds:
            self._status = Status.max_rounds(
                self.certifier.gap, self.task.tol, self.certifier.within
            )

    def _verdict(self) -> Status | None:
        """What can be said once the gap is small enough."""
        if self.certifier.gap > self.task.tol:
            return None
        proof = self.certifier.proof
        return (
            Status.certified(self.certifier.gap)
            if proof.everywhere
            else proof.local(self.certifier.gap)
        )

    def _objectives(self) -> dict[str, float]:
        """The objective at the last w that was evaluated, and at the average, once known."""
        found = self.certifier.objectives
        names = zip(self.certifier.opened, ("at_iterate", "at_average"), strict=False)
        return {name: found[i] for i, name in names if i in found}


class AdmmSolver(Solver):
    """What both ADMMs are to everyone else."""

    handlers: ClassVar[Mapping[str, Handler]] = HANDLERS
    shared_ball: ClassVar[bool] = True
    session: ClassVar[type[AdmmSession]]
    certify_every: int  # rounds
    batch_size: int | None = None  # rows of a step; None: all
    seed: int = 0

    def start(self, task: Assignment) -> Session:
        require_few_columns(self.name, task)
        return self.session(self, task)
