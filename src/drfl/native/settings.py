"""What can be set: the settings that methods share, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from drfl import checks
from drfl.native.client import REQUEST, Answer, Step, checked
from drfl.problem import Problem
from drfl.solvers.base import Assignment, Session, Solver
from drfl.wire import Schema

if TYPE_CHECKING:
    from drfl.native.session import NativeSession


@dataclass(frozen=True, kw_only=True)
class Native(Solver):
    r"""Settings that all methods have.

    Parameters
    ----------
    step_size : float, optional
        :math:`\eta`. By default :math:`1/(cM)` for a smooth loss whose curvature is at most c,
        where M is the largest eigenvalue of a client's second moments, the largest of all clients
        (with batches of B rows plus the trace over B); else one over the Lipschitz constant times
        the root of the largest trace.
    decay : float, optional
        The t-th step is :math:`\eta\,t^{-decay}`: by default 0 for a smooth loss on all rows, else
        1/2.
    batch_size : int, optional
        Rows of a gradient, drawn anew for every one; by default all.
    seed : int
        Of all that is drawn.
    evaluate_every : int
        All clients are asked for their loss at the model in every so many rounds, and in the
        first ones; the model of the last such round is returned.
    stop_change : float
        Stop when the objective changed by less than this, relatively, since so many rounds
        before; 0: never.
    """

    step_size: float | None = None
    decay: float | None = None
    batch_size: int | None = None
    seed: int = 0
    evaluate_every: int = 5
    stop_change: float = 0.0

    networks: ClassVar[bool] = True
    robust: ClassVar[bool] = False
    """Whether it minimises the worst mixture of the losses, rather than that of the centre."""
    problem: ClassVar[str] = "erm"
    """The problem that it solves, by its name in `drfl.named_problems`."""
    noisy: ClassVar[bool] = False
    """Whether the method draws what its steps depend on, so that they fade by default."""
    client_steps: ClassVar[Mapping[int, Step]]
    """The client half: its steps, numbered from 1."""
    replies: ClassVar[Mapping[int, Schema]]
    """What a client answers to each of them."""
    asked: ClassVar[Schema] = {}
    """What requests hold beside that of all methods."""
    session: ClassVar[type[NativeSession[Any]]]
    """The server half."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "client_steps" in vars(cls):
            half = checked(Answer(cls.client_steps), {**REQUEST, **cls.asked}, cls.replies)
            cls.handlers = {cls.name: half}

    def __post_init__(self) -> None:
        checks.optional(checks.number, "step_size", self.step_size, above=0.0)
        checks.optional(checks.number, "decay", self.decay, least=0.0)
        checks.optional(checks.whole, "batch_size", self.batch_size, least=1)
        checks.whole("seed", self.seed, least=0)
        checks.whole("evaluate_every", self.evaluate_every, least=1)
        checks.number("stop_change", self.stop_change, least=0.0)

    def start(self, task: Assignment) -> Session:
        self.refuse(task.problem, task.names)
        return self.session(self, task)

    def refuse(self, problem: Problem, names: Sequence[str]) -> None:
        """Raise unless the problem is one of this method."""
        moved = any(problem.ball_of(name).radius > 0.0 for name in names)
        if moved and problem.network is None:
            raise ValueError(
                f"{self.name} trusts the clients' rows: take balls of radius 0, or solver='bundle'"
            )
        if problem.mixture.radius > 0.0 and not self.robust:
            raise ValueError(
                f"{self.name} minimises the mean at the center of the mixture: take a mixture of "
                "radius 0, or one of afl, drfa, scaff_pd and bundle"
            )


@dataclass(frozen=True, kw_only=True)
class LocalMethod(Native):
    """Settings of methods whose clients make several steps in a round.

    Parameters
    ----------
    local_steps : int
        E.
    participation : float
        The share of the clients that take part in a round, drawn anew in every one; at least one.
    """

    local_steps: int = 5
    participation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("local_steps", self.local_steps, least=1)
        checks.number("participation", self.participation, above=0.0, most=1.0)
