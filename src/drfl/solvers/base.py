"""What a solver is: a frozen record of settings with a client half and a server half."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from drfl.arrays import Array
from drfl.client import Handler
from drfl.problem import Problem
from drfl.wire import Message

# Sums of losses are exact to about this share of them.
ROUNDING = 1e-9


class StatusKind(StrEnum):
    """Why a run ended; LOCAL: optimal, but proved in a region only, which the sentence names.

    PRIVATE: the privacy budget is used; the sentence says what the noise leaves proved.
    """

    CERTIFIED = "certified"
    LOCAL = "local"
    PRIVATE = "private"
    PARTIAL = "partial"
    MAX_ROUNDS = "max_rounds"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Status:
    """Why a run ended, with a sentence that says what was proved and what to do.

    Examples
    --------
    >>> print(Status.certified(3e-7))
    certified: the objective is proved to be within 3.0e-07 (relative) of the optimum
    """

    kind: StatusKind
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", StatusKind(self.kind))

    @classmethod
    def certified(cls, gap: float) -> Status:
        """The proved gap is within the tolerance, for every w and b."""
        return cls(
            StatusKind.CERTIFIED,
            f"the objective is proved to be within {gap:.1e} (relative) of the optimum",
        )

    @classmethod
    def local(cls, gap: float, radius: float) -> Status:
        """The proved gap holds in a region around the model only."""
        return cls(
            StatusKind.LOCAL,
            f"no model whose coefficients differ by at most {radius:.3g} is better by more than "
            f"{gap:.1e} (relative); with radius 0 nothing is proved beyond",
        )

    @classmethod
    def partial(cls, absence: str, gap: float, within: float = math.inf) -> Status:
        """Clients are missing; what is proved then."""
        return cls(StatusKind.PARTIAL, f"{absence}; {_proved(within)} {gap:.1e} (relative)")

    @classmethod
    def max_rounds(cls, gap: float, tol: float, within: float = math.inf) -> Status:
        """The rounds are used up."""
        return cls(StatusKind.MAX_ROUNDS, f"{_short_of(gap, tol, within)}: allow more rounds")

    @classmethod
    def stalled(cls, gap: float, tol: float, within: float = math.inf) -> Status:
        """Floating-point arithmetic allows no further progress."""
        return cls(
            StatusKind.STALLED,
            f"no progress any more, {_short_of(gap, tol, within)}: scale the features or raise tol",
        )

    @classmethod
    def failed(cls, reason: str) -> Status:
        """The run could not go on."""
        return cls(StatusKind.FAILED, f"the run could not go on: {reason}")

    @classmethod
    def unintroduced(cls, names: Iterable[str], rejected: Mapping[str, str]) -> Status:
        """Clients gave no usable first answer; why, as far as it is known."""
        reasons = "; ".join(f"{name}: {rejected.get(name, 'no answer')}" for name in names)
        return cls.failed(f"no usable first answer from {reasons}")

    @classmethod
    def contradiction(cls, upper: float, lower: float) -> Status:
        """The bounds have crossed: one of them is wrong, and nobody can say which."""
        return cls.failed(
            f"the lower bound {lower:.6g} is above the objective {upper:.6g}, which cannot be: "
            "values or cuts of a client are wrong, or the loss is not what it states"
        )

    @classmethod
    def stopped(cls, gap: float, within: float = math.inf, unheard: Iterable[str] = ()) -> Status:
        """A callback wanted it; of whom nothing is known is left out of bounds and gap."""
        names = ", ".join(unheard)
        without = f", of the problem without {names}" if names else ""
        said = f"stopped by callback: {_proved(within)} {gap:.1e}{without}"
        return cls(StatusKind.STOPPED, said)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def _short_of(gap: float, tol: float, within: float) -> str:
    return f"{_proved(within)} {gap:.1e}, not yet {tol:.1e}"


def _proved(within: float) -> str:
    """Whose gap it is: that of all models, or of those so near."""
    if math.isinf(within):
        return "the proved gap is"
    return f"the gap proved among models whose coefficients differ by at most {within:.3g} is"


@dataclass(frozen=True)
class Assignment:
    """What a solver is given at the start of a run: the problem, for whom, and when it may end.

    The columns are agreed upon beforehand. The sizes that a proportional mixture needs are the
    clients' to tell, in their first replies.

    Attributes
    ----------
    problem : Problem
        What is minimised.
    names : tuple of str
        The clients, in the order of every result and every sum.
    n : int
        How many coefficients w has: one per column, if there are no curves and no classes.
    tol : float
        The relative gap that is to be proved.
    max_rounds : int
        After so many rounds the run is over.
    """

    problem: Problem
    names: tuple[str, ...]
    n: int
    tol: float
    max_rounds: int

    @property
    def dimension(self) -> int:
        """The length of x: coefficients, an intercept, a multiplier that all clients share."""
        return self.problem.dimension(self.n)


class Solver(ABC):
    """A method: settings (a frozen dataclass), a client half and a server half.

    Attributes
    ----------
    name : str
        The registered name.
    handlers : mapping of str to Handler
        The client half: who answers which kind of message. Module-level functions, so that an
        engine can hand them to other processes.
    shared_ball : bool
        Whether it solves problems with one ball around the mixture.
    max_weight : bool
        Whether it knows mixtures with a largest weight.
    curves : bool
        Whether it knows additive models.
    own_intercepts : bool
        Whether its clients find their own intercepts.
    joint : bool
        Whether it knows several classes at once.
    gauges : bool
        Whether it asks the problem for its gauge; others take the dual norm of one score.
    networks : bool
        Whether values and gradients are all that it asks of a loss.
    private : bool
        Whether its handlers keep the promise of clients with differential privacy.
    """

    name: ClassVar[str]
    handlers: ClassVar[Mapping[str, Handler]]
    shared_ball: ClassVar[bool] = False
    max_weight: ClassVar[bool] = False
    curves: ClassVar[bool] = False
    own_intercepts: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    gauges: ClassVar[bool] = False
    networks: ClassVar[bool] = False
    private: ClassVar[bool] = False

    @abstractmethod
    def start(self, task: Assignment) -> Session:
        """Return the server half of a run, before its first round."""

    def under_guards(self) -> Solver:
        """The same for clients of whom some have guards; they answer what keeps to their ledger."""
        return self


class Session(ABC):
    """The server half of one run, with explicit state; it never touches rows."""

    @abstractmethod
    def propose(self) -> dict[str, Message]:
        """The messages of this round by client name; a client without one is not asked."""

    @abstractmethod
    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """Take in the answers to the last proposal; both mappings are in client order.

        Replies come as they were sent: the session validates them (`drfl.wire.validate`) and
        treats a bad one as missing, with its reason in `Standing.rejected`.
        """

    def recall(self) -> dict[str, Message]:
        """Messages that let clients rebuild what they remember, after a run was resumed.

        Nothing for methods whose clients are stateless; the answers are not read.
        """
        return {}

    @property
    @abstractmethod
    def standing(self) -> Standing:
        """Where the run stands after the answers absorbed so far."""


@dataclass(frozen=True, eq=False)
class Standing:
    """Where a run stands: the best model so far, and what is proved of it.

    Arrays by client are in the order of `Assignment.names`; NaN where a client has not answered.

    Attributes
    ----------
    status : Status or None
        Why the run ends; None while it should go on.
    coef : array of shape (n,)
        w of the best model so far, or W (K, n) of K classes at once.
    intercept : float or array
        Its b, or (K,) of K classes at once; 0 without an intercept.
    objective : float
        The objective there, an upper bound of the optimum; inf before it is known.
    lower_bound : float
        A proven lower bound of the optimum; -inf where there is none.
    at_zero : float
        The objective at w = 0, the scale of the gap; inf or NaN before it is known.
    weights : array of shape (S,)
        The worst weights q there.
    client_losses : array of shape (S,)
        F_s there.
    client_multipliers : array of shape (S,)
        The clients' prices of transport there.
    rejected : mapping of str to str
        The replies of this round that were refused, with the reason, by client name.
    info : mapping of str to object
        What the method likes to record of this round: numbers and strings.
    within : float
        The lower bound is one of models whose coefficients differ by at most so much; inf: of all.
    """

    status: Status | None
    coef: Array
    intercept: float | Array
    objective: float
    lower_bound: float
    at_zero: float
    weights: Array
    client_losses: Array
    client_multipliers: Array
    rejected: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    within: float = math.inf

    @property
    def gap(self) -> float:
        """`relative_gap` of the two bounds."""
        return relative_gap(self.objective, self.lower_bound, self.at_zero)


# Clients tell curvature of so many coefficients: 50 MB in memory, up to 25 MB in a message, for
# every client. Without it a method of cuts gets nowhere with so many.
MOST_CURVED = 2500
MOST_COLUMNS = 8000  # matrices of columns x columns then have half a gigabyte each


def require_few_columns(
    name: str, task: Assignment, advice: str = "", most: int = MOST_COLUMNS
) -> None:
    """Refuse, before any work, what would end in a lack of memory or take forever."""
    if task.n > most:
        lines = task.problem.curves is None and task.problem.classes is None
        what, size = "columns" if lines else "coefficients", 8.0 * task.n**2 / 1e9
        those = "those" if lines else "those of columns"
        raise ValueError(
            f"{task.n} {what} are too many for solver={name!r}: it keeps matrices of {what} "
            f"times {what}, {size:.2g} GB each; {advice}give at most {most} {what}, "
            f"for example {those} that most rows have"
        )


def relative_gap(upper: float, lower: float, at_zero: float) -> float:
    r"""How far from the optimum the model can be at most, relative to its objective.

    .. math:: \frac{UB - LB}{\max(|UB|,\ 10^{-3}\,UB_0)}

    The floor keeps it meaningful where the optimum is 0. It is infinite as long as a bound is
    missing, and where the bounds contradict each other (`crossed`): then nothing is proved.

    Parameters
    ----------
    upper, lower : float
        The bounds UB and LB.
    at_zero : float
        :math:`UB_0`, the objective at w = 0; left out of account unless it is finite.

    Examples
    --------
    >>> relative_gap(2.0, 1.0, 1.0)
    0.5
    >>> relative_gap(0.0, 0.0, 0.0), relative_gap(math.inf, 0.0, 1.0)
    (0.0, inf)
    >>> relative_gap(1.0, 1.1, 1.0)
    inf
    """
    if not (math.isfinite(upper) and math.isfinite(lower)):
        return math.inf
    if lower >= upper:
        return math.inf if crossed(upper, lower, at_zero) else 0.0
    scale = gap_scale(upper, at_zero)
    return (upper - lower) / scale if scale > 0.0 else math.inf


def gap_scale(upper: float, at_zero: float) -> float:
    r"""What a gap is relative to, :math:`\max(|UB|,\ 10^{-3}\,UB_0)`; see `relative_gap`."""
    return max(abs(upper), 1e-3 * at_zero if math.isfinite(at_zero) else 0.0)


def crossed(upper: float, lower: float, at_zero: float) -> bool:
    """Whether the lower bound is above the objective by more than the rounding of their sums.

    Both cannot be true then, and neither is to be trusted. Sums of losses are rounded relative to
    the largest of them, of which the objective at w = 0 is a measure.
    """
    if not (math.isfinite(upper) and math.isfinite(lower)):
        return False
    scale = max(abs(upper), abs(lower), at_zero if math.isfinite(at_zero) else 0.0)
    return lower - upper > ROUNDING * scale
