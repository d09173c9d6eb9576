"""A client lives where its rows live: it answers messages, and its rows never leave.

`Client` owns the data and says what it allows. `Site` is a client bound to a problem: it turns a
message into a reply through a table of handlers, the client halves of a method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from drfl.privacy import Guard, SpentError, require_known
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.wire import Failure, Message, Schema, WireError, validate, validate_arrays
from drfl.worst_case import make_oracle


@dataclass(frozen=True)
class Policy:
    """What a client allows, whatever the server asks for.

    Attributes
    ----------
    curvature : bool
        Whether second-order information may leave.
    groups : bool
        Whether cuts of groups of its rows may leave, rather than of all rows only.
    dual_cuts : bool
        Whether it answers with cuts made of the server's multipliers.
    min_rows : int
        With fewer rows it does not take part.
    """

    curvature: bool = True
    groups: bool = True
    dual_cuts: bool = True
    min_rows: int = 1

    def __post_init__(self) -> None:
        for name in ("curvature", "groups", "dual_cuts"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} of a policy must be True or False")
        if isinstance(self.min_rows, bool) or not isinstance(self.min_rows, int):
            raise TypeError("min_rows of a policy must be a whole number")
        if self.min_rows < 1:
            raise ValueError(f"min_rows of a policy must be at least 1, got {self.min_rows}")


class Client:
    """A name, rows and a policy.

    Parameters
    ----------
    name : str
        Under which the results speak of it; every client of a run has another one.
    X, y, sample_weight, shift, scale
        The rows, as `drfl.rows.Rows` takes them; X is used in place.
    policy : Policy
        What it allows.
    guard : Guard, optional
        Disclosure control; without one cuts are exact and can give rows away.

    Examples
    --------
    >>> Client("north", [[0.0], [1.0]], [-1, 1])
    <client 'north': 2 rows, 1 features>
    """

    def __init__(
        self,
        name: str,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        shift: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        guard: Guard | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a client must be a string, got {type(name).__name__}")
        if not name.strip():
            raise ValueError("the name of a client must not be empty")
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy, got {type(policy).__name__}")
        if not isinstance(guard, Guard | None):
            raise TypeError(f"guard must be a Guard or None, got {type(guard).__name__}")
        self.name, self.policy, self.guard = name, policy, guard
        self.rows = Rows(X, y, weights=sample_weight, shift=shift, scale=scale)
        if self.rows.n_rows < policy.min_rows:
            raise ValueError(
                f"client {name!r} has {self.rows.n_rows} rows, but its policy asks for at least "
                f"{policy.min_rows}: it cannot take part"
            )
        try:
            self.ledger = None if guard is None else guard.open(self.rows)
        except ValueError as error:
            raise ValueError(f"client {name!r}: {error}") from error

    def __repr__(self) -> str:
        rows = self.rows
        return f"<client {self.name!r}: {rows.n_rows} rows, {rows.n_features} features>"


class RefusedError(Exception):
    """Raised by a handler when the client's policy does not allow the answer."""


class WithheldError(Exception):
    """Raised when a reply is not of the form that may leave."""


class Site:
    """A client bound to a problem: what the handlers of a method work on.

    Parameters
    ----------
    client : Client
        The data and the policy.
    problem : Problem
        Refused here, before any round, if it does not fit the data.
    debug : bool
        For tests and for developing a method: a handler's exception is raised as it is, instead
        of becoming a code, and a reply whose shape betrays the rows raises `WithheldError`.

    Attributes
    ----------
    name, rows, policy, guard, ledger
        Those of the client.
    oracle : Oracle
        Its worst-case loss :math:`F_s`.
    fit_intercept, n_features, dimension
        The model is (w, b) with ``dimension`` = n + 1 numbers, or w with n.
    memory : dict
        Caches of the handlers; a handler must be able to rebuild what it does not find.
    """

    def __init__(self, client: Client, problem: Problem, *, debug: bool = False) -> None:
        self.name, self.rows, self.policy = client.name, client.rows, client.policy
        self.guard, self.ledger = client.guard, client.ledger
        try:
            if client.guard is not None:
                require_known(problem, client.name)
            self.oracle = make_oracle(client.rows, problem.loss, problem.ball_of(client.name))
        except ValueError as error:
            raise ValueError(f"client {client.name!r}: {error}") from error
        self.fit_intercept = problem.fit_intercept
        self.n_features = client.rows.n_features
        self.shared_ball = problem.shared_ball
        self.dimension = self.n_features + self.fit_intercept + self.shared_ball
        self.memory: dict[str, Any] = {}
        self.debug = debug

    @property
    def sizes(self) -> dict[str, int]:
        """The lengths that a schema may speak of; the number of rows is not among them."""
        return {"n": self.n_features, "d": self.dimension}

    def answer(self, message: Message, handlers: Mapping[str, Handler]) -> Message:
        """Reply to a message; whatever goes wrong becomes a code without a word of the data."""
        try:
            if message.kind not in handlers:
                return Failure.UNKNOWN_KIND.message(message.round)
            handler = handlers[message.kind]
            if self.guard is not None and not getattr(handler, "guarded", False):
                raise RefusedError(f"{message.kind!r} does not know how to answer under a guard")
            return self._reply(message, handler(self, message))
        except Exception as error:
            if self.debug:
                raise
            return _code(error).message(message.round)

    def _reply(self, message: Message, arrays: Mapping[str, NDArray[Any]]) -> Message:
        try:
            reply = message.reply(arrays)
        except WireError as error:
            raise WithheldError(str(error)) from error
        if self.debug:
            asked = {length for array in message.arrays.values() for length in array.shape}
            found = row_shaped(reply.arrays, self.rows.n_rows, {1, *self.sizes.values(), *asked})
            if found:
                raise WithheldError(f"as long as the client has rows: {', '.join(found)}")
        return reply


Handler = Callable[[Site, Message], Mapping[str, NDArray[Any]]]
"""The client half of one kind of message; at module level, so that other processes find it."""


@dataclass(frozen=True)
class Checked:
    """A handler with what may come in and what may go out.

    The request is refused and the reply withheld unless they fit their schemas. The symbols "n"
    and "d" are the site's, others are bound by the request; the number of rows has no symbol, so
    a reply whose every axis has a bound symbol or a fixed length is private by its shape.
    """

    handler: Handler
    request: Schema
    reply: Schema
    guarded: bool = False
    """Whether it keeps to the ledger of a guarded client; others do not answer there."""

    def __call__(self, site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
        sizes = validate(message, message.kind, None, self.request, site.sizes)
        arrays = self.handler(site, message)
        try:
            validate_arrays(arrays, self.reply, sizes)
        except WireError as error:
            raise WithheldError(str(error)) from error
        return arrays


def row_shaped(
    arrays: Mapping[str, NDArray[Any]], n_rows: int, legitimate: Collection[int]
) -> list[str]:
    """Names of the arrays that have an axis as long as the client has rows.

    It cannot tell such an axis from a legitimate one of the same length; a test should therefore
    give the client a number of rows that no other length of the method equals.

    Examples
    --------
    >>> import numpy as np
    >>> row_shaped({"slope": np.ones(7), "scores": np.ones(40)}, n_rows=40, legitimate={7, 8})
    ['scores']
    """
    if n_rows in legitimate:
        return []
    return [name for name, array in arrays.items() if n_rows in array.shape]


def _code(error: Exception) -> Failure:
    for kind, code in {
        RefusedError: Failure.REFUSED,
        SpentError: Failure.REFUSED,
        WithheldError: Failure.WITHHELD,
        WireError: Failure.BAD_REQUEST,
        MemoryError: Failure.MEMORY,
    }.items():
        if isinstance(error, kind):
            return code
    return Failure.ERROR
