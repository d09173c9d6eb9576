"""What the server halves share: introductions, evaluations, and the way of a round."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array, Loss
from drfl.mixture import Mixture
from drfl.native.local import FACTS, VALUE, Arrays, Local
from drfl.native.settings import Native
from drfl.problem import Problem
from drfl.solvers.base import Session, Status, StatusKind, relative_gap
from drfl.wire import Message, WireError, reply_kind, validate

# First answers are asked for so many times before the run is given up.
PATIENCE = 3


M = TypeVar("M", bound=Native)


class Moments(NamedTuple):
    """What step sizes are made of, by client: largest eigenvalues and traces."""

    largest: Array
    trace: Array


class NativeSession(Session, Generic[M]):
    """The server half of a method: the subclass says whom to ask what, and what to make of it.

    The first round is an introduction at x = 0. In every later one some clients make a step and,
    when it is due, all tell their loss at the model that would be returned. Where one of these
    losses is missing, the model before stays, and all are asked again in the next round.
    """

    def __init__(self, method: M, problem: Problem, names: Sequence[str], n_features: int) -> None:
        self.method, self.problem, self.names = method, problem, tuple(names)
        self.n, self.d = n_features, n_features + problem.fit_intercept
        self.x = np.zeros(self.d)
        self.round = self.t = 0  # t: steps of the method that were made
        self.known: dict[int, Arrays] = {}  # introductions
        self.mixture: Mixture | None = None  # resolved when all are known
        self.returned, self._objective, self.at_zero = np.zeros(self.d), math.inf, math.inf
        self.losses = np.full(len(names), np.nan)
        self._due = False
        self._before = (0, math.inf)  # round and objective with which the next one is compared
        self._sent: dict[int, int] = {}  # the step asked of each client in this round
        self._rejected: dict[str, str] = {}
        self._status: Status | None = None

    # ------------------------------------------------------------------ the subclass's part
    def begin(self) -> None:
        """Everyone has introduced itself: ``center``, ``moments`` and ``losses`` at 0 are known."""

    @abstractmethod
    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        """The number of the method's step, and what it says to the clients that are asked."""

    @abstractmethod
    def update(self, replies: dict[int, Arrays]) -> None:
        """Make a step of those answers that came, perhaps none; ``t`` is the caller's."""

    @property
    def constants(self) -> dict[str, NDArray[Any]]:
        """What every message says beside."""
        return {}

    @property
    def model(self) -> Array:
        """What the method would return now."""
        return self.x

    def value(self, losses: Array) -> float:
        """The objective, from the losses of all clients."""
        return float(self.mix.support(losses))

    # ------------------------------------------------------------------ what is known
    @property
    def mix(self) -> Mixture:
        """The mixture with the weights of these clients."""
        assert self.mixture is not None
        return self.mixture

    @property
    def center(self) -> Array:
        r""":math:`\hat q` (S,)."""
        return self.mix.weights

    @property
    def moments(self) -> Moments:
        """Largest eigenvalue and trace of every client's second moments."""
        facts = np.array([self.known[s]["facts"] for s in range(len(self.names))])
        return Moments(facts[:, 1], facts[:, 2])

    @property
    def smoothness(self) -> float:
        """The largest curvature of a client's loss, or of a batch of its rows; 0 with kinks."""
        size = self.moments.largest
        if self.method.batch_size:
            size = size + self.moments.trace / self.method.batch_size
        return smoothness(self.problem.loss) * float(size.max())

    @property
    def steepness(self) -> float:
        """A bound of the clients' gradients."""
        return self.problem.loss.lipschitz * math.sqrt(float(self.moments.trace.max()))

    def local(self, steps: int, extra: float = 0.0, shorter: float = 1.0) -> Local:
        """The local steps of this round; ``extra`` is curvature that the method adds."""
        size, method = self.method.step_size, self.method
        if size is None and self.smoothness > 0.0:
            size = 1.0 / (shorter * self.smoothness + extra)
        elif size is None:
            size = 1.0 / (self.steepness * math.sqrt(steps) + extra) if self.steepness else 1.0
        return Local(steps, size * self.fading, method.batch_size or 0, method.seed)

    @property
    def decay(self) -> float:
        """The power with which steps fade."""
        if self.method.decay is not None:
            return self.method.decay
        return 0.0 if self.smoothness > 0.0 and not self.method.batch_size else 0.5

    @property
    def fading(self) -> float:
        """The factor of the steps of this round."""
        return float((1.0 + self.t) ** -self.decay)

    def drawn(self, share: float) -> list[int]:
        """The clients of this round, each equally likely."""
        S = len(self.names)
        size = max(1, round(share * S))
        return sorted(self.rng.choice(S, size, replace=False).tolist())

    @property
    def rng(self) -> np.random.Generator:
        """The server's draws of this round."""
        return np.random.default_rng([self.method.seed, self.round])

    # ------------------------------------------------------------------ a round
    def propose(self) -> dict[str, Message]:
        S = len(self.names)
        if self.mixture is None:
            self._sent = {s: 0 for s in range(S) if s not in self.known}
            arrays: dict[int, dict[str, NDArray[Any]]] = {s: {"point": self.x} for s in self._sent}
            return self._messages(arrays, facts=True, value=True)
        every = self.method.evaluate_every
        self._due |= self.round <= every or (self.round + 1) % every == 0
        step, requests = self.requests()
        asked = range(S) if self._due else sorted(requests)
        self._sent = {s: step if s in requests else 0 for s in asked}
        arrays = {s: requests.get(s, {}) for s in asked}
        if self._due:
            self._candidate = self.model
            for own in arrays.values():
                if not ("x" in own and np.array_equal(own["x"], self._candidate)):
                    own["point"] = self._candidate
        return self._messages(arrays, facts=False, value=self._due)

    def _messages(
        self, arrays: Mapping[int, Mapping[str, NDArray[Any]]], *, facts: bool, value: bool
    ) -> dict[str, Message]:
        made = {}
        for s, own in arrays.items():
            plan = np.array([facts, value, self._sent[s]], dtype=np.uint8)
            content = {**own, **self.constants, "plan": plan}
            made[self.names[s]] = Message(self.method.name, self.round, content)
        return made

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        answers = self._read(replies)
        if self.mixture is None:
            self.known.update(answers)
            if len(self.known) == len(self.names):
                self._begin()
        else:
            if self._due:
                self._evaluate(answers)
            self.update({s: answers[s] for s, step in self._sent.items() if step and s in answers})
        self.round += 1
        if self.mixture is None and self.round >= PATIENCE:
            self._status = Status.failed(self._silence())

    def _begin(self) -> None:
        facts = np.array([self.known[s]["facts"] for s in range(len(self.names))])
        self.mixture = self.problem.mixture.resolve(facts[:, 0])
        self.losses = np.array([float(self.known[s]["value"]) for s in range(len(self.names))])
        self._objective = self.at_zero = self.value(self.losses)
        self._before = (self.round, self._objective)
        self.begin()

    def _evaluate(self, answers: Mapping[int, Arrays]) -> None:
        if len(answers) < len(self.names):
            return
        self.losses = np.array([float(answers[s]["value"]) for s in range(len(self.names))])
        self.returned, self._due = self._candidate, False
        self._objective = self.value(self.losses)
        since, before = self._before
        if self.round - since >= self.method.evaluate_every:
            change = abs(before - self._objective)
            self._before = (self.round, self._objective)
            if change < self.method.stop_change * abs(before):
                self._status = Status(
                    StatusKind.STOPPED,
                    f"the objective changed by less than {self.method.stop_change:.1e} "
                    f"(relative) in {self.round - since} rounds; how far the optimum is, "
                    f"{self.method.name} cannot tell",
                )

    def _read(self, replies: Mapping[str, Message]) -> dict[int, Arrays]:
        """The usable answers; a bad one counts as missing, with its reason."""
        answers: dict[int, Arrays] = {}
        self._rejected = {}
        for s, step in self._sent.items():
            name = self.names[s]
            if name in replies:
                try:
                    answers[s] = self._read_one(replies[name], step)
                except WireError as error:
                    self._rejected[name] = str(error)
        return answers

    def _read_one(self, reply: Message, step: int) -> Arrays:
        schema = dict(self.method.replies[step]) if step else {}
        if self.mixture is None:
            schema |= FACTS
        if self.mixture is None or self._due:
            schema |= VALUE
        validate(reply, reply_kind(self.method.name), self.round, schema, {"d": self.d})
        if "value" in reply.arrays and reply.arrays["value"] < 0.0:
            raise WireError("its loss is negative, which no mean loss is")
        if "facts" in reply.arrays:
            total, largest, trace = reply.arrays["facts"]
            if not (total > 0.0 and 0.0 <= largest <= trace):
                raise WireError("its moments are impossible")
        return reply.arrays

    def _silence(self) -> str:
        reasons = [
            f"{name}: {self._rejected.get(name, 'no answer')}"
            for s, name in enumerate(self.names)
            if s not in self.known
        ]
        return f"no usable first answer from {'; '.join(reasons)}"

    # ------------------------------------------------------------------ what everyone reads
    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def coef(self) -> Array:
        return self.returned[: self.n]

    @property
    def intercept(self) -> float:
        return float(self.returned[self.n :].sum())

    @property
    def objective(self) -> float:
        return self._objective

    @property
    def lower_bound(self) -> float:
        return 0.0  # no loss is negative; these methods prove no more

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.lower_bound, self.at_zero)

    @property
    def weights(self) -> Array:
        known = self.mixture is not None
        return self.mix.worst_weights(self.losses) if known else np.full(len(self.names), np.nan)

    @property
    def client_losses(self) -> Array:
        return self.losses

    @property
    def client_multipliers(self) -> Array:
        return np.zeros(len(self.names))  # nothing is transported

    @property
    def rejected(self) -> Mapping[str, str]:
        return self._rejected

    @property
    def info(self) -> Mapping[str, Any]:
        known = self.mixture is not None
        return {"worst_loss": float(self.losses.max())} if known else {}


def smoothness(loss: Loss) -> float:
    """A bound of the second derivative of a loss; 0 if it has kinks."""
    return 0.0 if loss.kinks else float(loss.curvature(np.linspace(-8.0, 8.0, 1601)).max())


def weighted_mean(vectors: Mapping[int, Array], weights: Array) -> Array:
    """Mean of the vectors of some clients, with their shares of the given weights."""
    chosen = list(vectors)
    share = weights[chosen]
    share = share / share.sum() if share.any() else np.full(len(chosen), 1.0 / len(chosen))
    return np.asarray(share @ np.array([vectors[s] for s in chosen]))
