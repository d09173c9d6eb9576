"""What a client makes of messages: handlers, codes instead of errors, and nothing of its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from drfl.client.party import Client, RefusedError
from drfl.differentiable import ClientLoss
from drfl.privacy import SpentError, require_answerable
from drfl.privacy.dp import require_known
from drfl.privacy.ramps import require_ramps
from drfl.problem import Problem
from drfl.wire import Failure, Message, Schema, WireError, validate, validate_arrays


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
    name, rows, policy, guard, ledger, privacy, spending, reading
        Those of the client; with curves the rows are ramps of its columns.
    problem : Problem
        The problem.
    raw : Rows
        The client's rows as they are, without ramps.
    oracle : Oracle
        Its worst-case loss :math:`F_s`; for a network there is ``network`` instead.
    shared_intercept, n_features, dimension
        The model is (w, b) with ``dimension`` = n + 1 numbers, or w with n; with K classes at once
        (W, b) with K(n + 1).
    memory : dict
        Caches of the handlers; a handler must be able to rebuild what it does not find.
    """

    def __init__(self, client: Client, problem: Problem, *, debug: bool = False) -> None:
        self.name, self.rows, self.policy = client.name, client.rows, client.policy
        self.problem, self.raw = problem, client.rows
        self.guard, self.ledger = client.guard, client.ledger
        self.privacy, self.spending = client.privacy, client.spending
        self.reading = client.reading
        try:
            if problem.curves is not None:
                self.rows = client.rows.ramped(problem.curves)
            if client.guard is not None:
                require_answerable(problem, client.name, self.rows)
                if problem.curves is not None:
                    assert client.ledger is not None
                    known = client.ledger, client.columns
                    require_ramps(client.rows, problem.curves, client.guard, *known)
            if client.privacy is not None:
                require_known(problem, client.name)
            ball = problem.ball_of(client.name)
            self.network: ClientLoss | None = None
            if problem.network is None:
                self.oracle = problem.bounding_oracle(self.rows, client.name)
            else:
                self.network = problem.network.at(client.rows, ball, client.name)
        except ValueError as error:
            raise ValueError(f"client {client.name!r}: {error}") from error
        self.shared_intercept = problem.shared_intercept
        self.n_features = self.rows.n_features
        self.shared_ball = problem.shared_ball
        self.dimension = problem.dimension(self.n_features * (problem.classes or 1))
        self.memory: dict[str, Any] = {}
        self.debug = debug

    @property
    def sizes(self) -> dict[str, int]:
        """The lengths that a schema may speak of; the number of rows is not among them."""
        d, classes = self.dimension, self.problem.classes
        free = d if classes is None else d - d // classes  # against the first class
        triangles = {"t": d * (d + 1) // 2, "u": free * (free + 1) // 2}
        return {"n": self.n_features, "d": d, "f": free, "C": classes or 1, **triangles}

    def answer(self, message: Message, handlers: Mapping[str, Handler]) -> Message:
        """Reply to a message; whatever goes wrong becomes a code without a word of the data."""
        try:
            if message.kind not in handlers:
                return Failure.UNKNOWN_KIND.message(message.round)
            handler = handlers[message.kind]
            if self.guard is not None and not getattr(handler, "guarded", False):
                raise RefusedError(f"{message.kind!r} does not know how to answer under a guard")
            if self.privacy is not None and not getattr(handler, "private", False):
                raise RefusedError(f"{message.kind!r} has no noise: it would break the promise")
            return self._reply(message, handler(self, message))
        except Exception as error:
            if self.debug:
                raise
            guarded = self.guard is not None or self.privacy is not None
            return code_of(error, guarded=guarded).message(message.round)

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
    private: bool = False
    """Whether it pays from the budget of a client with differential privacy; the same holds."""

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


def code_of(error: Exception, *, guarded: bool = False) -> Failure:
    """What may be told of an error: nothing that it says.

    With a guard, not even which of several things was wrong with the rows: whatever depends on
    them has one code.
    """
    if guarded:
        return Failure.BAD_REQUEST if isinstance(error, WireError) else Failure.REFUSED
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
