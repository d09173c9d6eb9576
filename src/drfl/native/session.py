"""What the server halves share: introductions, evaluations, the way of a round, and its end.

Where the user gives no step size, it is made of the loss and the clients' moments.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.native.client import FACTS, VALUE, Arrays, LocalSteps
from drfl.native.settings import Native
from drfl.solvers.base import Assignment, Session, Standing, Status, StatusKind
from drfl.uncertainty import Mixture
from drfl.wire import Message, WireError, reply_kind, validate

# A network's steps where the user gives none.
NETWORK_STEP = 0.1


@dataclass(frozen=True)
class StepSizes:
    """The steps of a method on these clients."""

    method: Native  # what the user set
    loss: Loss  # that of the problem
    largest: Array  # (S,), the largest eigenvalues of the second moments of the clients' rows
    traces: Array  # (S,), their traces
    network: bool  # whether the loss is that of a network, of which nothing is known beforehand

    @property
    def smoothness(self) -> float:
        """The largest curvature of a client's loss, or of a batch of its rows; 0 with kinks."""
        if self.network:
            return 1.0 / NETWORK_STEP
        if self.loss.kinks:
            return 0.0
        size = self.largest
        if self.method.batch_size:
            size = size + self.traces / self.method.batch_size
        bend = float(self.loss.curvature(np.linspace(-8.0, 8.0, 1601)).max())
        return bend * float(size.max())

    @property
    def steepness(self) -> float:
        """A bound of the clients' gradients."""
        return self.loss.lipschitz * math.sqrt(float(self.traces.max()))

    @property
    def decay(self) -> float:
        """The power with which steps fade."""
        if self.method.decay is not None:
            return self.method.decay
        noise = self.method.noisy or bool(self.method.batch_size)
        return 0.0 if self.smoothness > 0.0 and not noise else 0.5

    def fading(self, t: int) -> float:
        """The factor of the steps after t of them."""
        return float((1.0 + t) ** -self.decay)

    def local(self, steps: int, t: int, extra: float = 0.0, shorter: float = 1.0) -> LocalSteps:
        """Local steps after t rounds of them; see `drfl.native.session.NativeSession.local`."""
        size, method = self.method.step_size, self.method
        if size is None and self.smoothness > 0.0:
            size = 1.0 / (shorter * self.smoothness + extra)
        elif size is None:
            size = 1.0 / (self.steepness * math.sqrt(steps) + extra) if self.steepness else 1.0
        return LocalSteps(steps, size * self.fading(t), method.batch_size or 0, method.seed)


PATIENCE = 3  # so many times first answers are asked for
SILENCE = 10  # so many rounds without any usable answer end the run
# A multiple of the objective of the zero model that only steps which are too long lead to.
HOPELESS = 1e6

M = TypeVar("M", bound=Native)


class NativeSession(Session, Generic[M]):
    """The server half of a method: the subclass says whom to ask what, and what to make of it.

    The first round is an introduction at x = 0, or at the first parameters of a network. In every
    later one some clients make a step and, when it is due, all tell their loss at the model that
    would be returned. Where one of these losses is missing, the model before stays, and all are
    asked again in the next round.
    """

    at_zero: float = math.inf
    steps: StepSizes  # when all are known

    def __init__(self, method: M, task: Assignment) -> None:
        self.problem, self.names = task.problem, task.names
        self.method, self.max_rounds = method, task.max_rounds
        network = task.problem.network
        self.d = task.dimension
        self.n = task.n if network is None else self.d  # its coefficients are the whole model
        self.mixture: Mixture | None = None  # resolved when all are known
        self.losses = np.full(len(task.names), np.nan)
        self._objective = math.inf
        self._rejected: dict[str, str] = {}
        self._status: Status | None = None
        self.x = np.zeros(self.d) if network is None else network.start(method.seed)
        self.returned = self.x
        self.round = self.t = 0  # t: steps of the method that were made
        self.known: dict[int, Arrays] = {}  # introductions
        self._due, self._silent = False, 0
        self._before = (0, math.inf)  # round and objective with which the next one is compared
        self._sent: dict[int, int] = {}  # the step asked of each client in this round

    # ------------------------------------------------------------------ the subclass's part
    def begin(self) -> None:
        """Everyone has introduced itself: ``center``, ``steps`` and ``losses`` at 0 are known."""

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

    # ------------------------------------------------------------------ what it may use
    def local(self, steps: int, extra: float = 0.0, shorter: float = 1.0) -> LocalSteps:
        """The local steps of this round.

        ``extra`` is curvature that the method adds to the loss, and ``shorter`` how many times
        shorter than one over the curvature steps are.
        """
        return self.steps.local(steps, self.t, extra, shorter)

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
        first, step, requests = self.mixture is None, 0, dict[int, dict[str, NDArray[Any]]]()
        if first:
            asked = [s for s in range(len(self.names)) if s not in self.known]
        else:
            every = self.method.evaluate_every
            self._due |= self.round <= every or (self.round + 1) % every == 0
            step, requests = self.requests()
            asked = list(range(len(self.names))) if self._due else sorted(requests)
        wanted = first or self._due  # the losses at the model that would be returned
        self._candidate = self.x if first else self.model
        self._sent = {s: step if s in requests else 0 for s in asked}
        made = {}
        for s, wished in self._sent.items():
            own = {**requests.get(s, {}), **self.constants}
            if wanted and not ("x" in own and np.array_equal(own["x"], self._candidate)):
                own["point"] = self._candidate
            own["plan"] = np.array([first, wanted, wished], dtype=np.uint8)
            made[self.names[s]] = Message(self.method.name, self.round, own)
        return made

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        answers = self._read(replies)
        self._silent = 0 if answers else self._silent + 1
        if self.mixture is None:
            self.known.update(answers)
            if len(self.known) == len(self.names):
                self._begin()
        else:
            if self._due and len(answers) == len(self.names):
                self._evaluate(answers)
            self.update({s: answers[s] for s, step in self._sent.items() if step and s in answers})
        self.round += 1
        self._end()

    def _begin(self) -> None:
        everyone = [self.known[s] for s in range(len(self.names))]
        totals, largest, traces = np.array([arrays["facts"] for arrays in everyone]).T
        self.mixture = self.problem.mixture.resolve(totals)
        network = self.problem.network is not None
        self.steps = StepSizes(self.method, self.problem.loss, largest, traces, network)
        self.losses = np.array([float(arrays["value"]) for arrays in everyone])
        self._objective = self.at_zero = self.value(self.losses)
        self._before = (self.round, self._objective)
        self.begin()

    def _evaluate(self, answers: Mapping[int, Arrays]) -> None:
        self.losses = np.array([float(answers[s]["value"]) for s in range(len(self.names))])
        self.returned, self._due = self._candidate, False
        self._objective = self.value(self.losses)
        rounds, before = self.round - self._before[0], self._before[1]
        if rounds >= self.method.evaluate_every:
            self._before = (self.round, self._objective)
            if abs(before - self._objective) < self.method.stop_change * abs(before):
                self._status = Status(
                    StatusKind.STOPPED,
                    f"the objective changed by less than {self.method.stop_change:.1e} (relative) "
                    f"in {rounds} rounds; how far the optimum is, {self.method.name} cannot tell",
                )
        if self._objective > HOPELESS * self.at_zero > 0.0:
            factor = self._objective / self.at_zero
            self._status = Status.failed(
                f"the objective is {factor:.1e} times that of the zero model: take shorter steps"
            )

    def _end(self) -> None:
        """Say why the run ends, if it does."""
        if self._status is not None:
            return
        if self.mixture is None and self.round >= PATIENCE:
            missing = [name for s, name in enumerate(self.names) if s not in self.known]
            self._status = Status.unintroduced(missing, self._rejected)
        elif self._silent >= SILENCE:
            told = "".join(f"; {name}: {reason}" for name, reason in self._rejected.items())
            self._status = Status.failed(f"no usable answer in {self._silent} rounds{told}")
        elif self.round >= self.max_rounds:
            advice = "allow more rounds"
            advice += (
                "" if self.problem.network is not None else ", or compare with solver='bundle'"
            )
            told = f"how far the optimum is, {self.method.name} cannot tell: {advice}"
            if self._objective > self.at_zero:
                told = "the model is worse than the zero model: take shorter steps"
            self._status = Status(StatusKind.MAX_ROUNDS, f"all rounds were made; {told}")

    def _read(self, replies: Mapping[str, Message]) -> dict[int, Arrays]:
        """The usable answers; a bad one counts as missing, with its reason."""
        first = self.mixture is None
        common = {**(FACTS if first else {}), **(VALUE if first or self._due else {})}
        kind, good = reply_kind(self.method.name), dict[int, Arrays]()
        self._rejected = {}
        for s, step in self._sent.items():
            name, schema = self.names[s], {**common, **(self.method.replies[step] if step else {})}
            if name in replies:
                try:
                    validate(replies[name], kind, self.round, schema, {"d": self.d})
                    _refuse_impossible(replies[name].arrays)
                    good[s] = replies[name].arrays
                except WireError as error:
                    self._rejected[name] = str(error)
        return good

    # ------------------------------------------------------------------ what everyone reads
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
    def weights(self) -> Array:
        """The weights q (S,) of the clients in the objective, once the mixture is known."""
        return self.mix.worst_weights(self.losses)

    @property
    def standing(self) -> Standing:
        known, unknown = self.mixture is not None, np.full(len(self.names), np.nan)
        return Standing(
            self._status,
            self.returned[: self.n],
            float(self.returned[self.n :].sum()),
            self._objective,
            0.0,  # no loss is negative; these methods prove no more
            self.at_zero,
            self.weights if known else unknown,
            self.losses,
            np.zeros(len(self.names)),  # nothing is transported
            self._rejected,
            {"worst_loss": float(self.losses.max())} if known else {},
        )


def _refuse_impossible(arrays: Arrays) -> None:
    """Raise if no rows have such losses and moments."""
    if any(arrays[name] < 0.0 for name in ("value", "loss") if name in arrays):
        raise WireError("its loss is negative, which no mean loss is")
    if "facts" in arrays:
        total, largest, trace = arrays["facts"]
        if not (total > 0.0 and 0.0 <= largest <= trace):
            raise WireError("its moments are impossible")


def weighted_mean(vectors: Mapping[int, Array], weights: Array) -> Array:
    """Mean of the vectors of some clients, with their shares of the given weights (S,)."""
    chosen = list(vectors)
    share = weights[chosen]
    share = share / share.sum() if share.any() else np.full(len(chosen), 1.0 / len(chosen))
    return np.asarray(share @ np.array([vectors[s] for s in chosen]))
