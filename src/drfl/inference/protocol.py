r"""What clients tell for standard errors: both halves of one message.

At a point :math:`x=(w,b)`, with :math:`a_i=(x_i,1)` and the masses :math:`p_i` of the rows:

.. math:: g_s=\sum_ip_iL'_ia_i,\qquad H_s=\sum_ip_iL''_ia_ia_i^T,\qquad
          J_s=\sum_ip_i^2L_i'^2a_ia_i^T

Where every client has an intercept of its own, x is w alone: b is the client's best one at w, and
:math:`a_i=x_i-\sum_jp_jL''_jx_j/\sum_jp_jL''_j`, which is what the best b leaves of a column. So H
and J are those of a regression with a column for every client, without these columns.

J is asked for once, at the end. Both matrices tell more of rows than cuts do: a client with a guard
or with differential privacy does not answer, nor does one whose policy allows no curvature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Client, Party, RefusedError, Site
from drfl.engines import Engine, make_engine
from drfl.inference.estimate import InferenceError, ModelPieces
from drfl.problem import Problem
from drfl.uncertainty import Ball
from drfl.wire import Failure, Field, Message, Tally, WireError, reply_kind, validate
from drfl.worst_case.own_intercept import middle_intercept

KIND = "inference"
REQUEST = {"x": Field("float64", ("d",)), "outer": Field("int64")}
REPLY = {
    "total": Field("float64"),
    "squares": Field("float64"),
    "loss": Field("float64"),
    "moments": Field("float64", (2,)),
    "gradient": Field("float64", ("d",)),
    "hessian": Field("float64", ("t",)),
    "outer": Field("float64", ("t",), optional=True),
}
REFUSED = (
    "no standard errors: client {name!r} refuses the matrices that they need, which tell more of "
    "its rows than its guard or its policy allows; docs/inference.md says what is possible instead"
)


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    if not site.policy.curvature:
        raise RefusedError("the policy allows no second-order information")
    if site.network is not None:
        raise RefusedError("a network has no such matrices")
    rows, loss, d = site.rows, site.oracle.loss, site.dimension
    x, own = message.arrays["x"], site.problem.own_intercepts
    b = float(x[-1]) if site.shared_intercept else 0.0
    if own:
        b = middle_intercept(site.oracle, x)
    z = rows.scores(x[: site.n_features], b)
    margin = loss.task == "classification"
    at = rows.y * z if margin else z - rows.y
    value, slope = loss.value_and_slope(at)
    bend, p = loss.curvature(at), np.broadcast_to(np.asarray(rows.mass()), z.shape)
    g, gb = rows.combine(p * (rows.y * slope if margin else slope))
    H = rows.gram(p * bend)
    taken = _following(H, site.n_features, own=own)
    reply = {
        "total": np.array(float(rows.total)),
        "squares": np.array(float(np.square(p).sum())),
        "loss": np.array(rows.mean(value)),
        "moments": np.array([rows.mean(np.square(slope)), rows.mean(bend)]),
        "gradient": np.append(g, gb)[:d],
        "hessian": packed((taken @ H @ taken.T)[:d, :d]),
    }
    if int(message.arrays["outer"]):
        J = rows.gram(np.square(p * slope))
        reply["outer"] = packed((taken @ J @ taken.T)[:d, :d])
    return reply


def _following(H: Array, n: int, *, own: bool) -> Array:
    """What rows (x, 1) are multiplied by, so that an own intercept follows the coefficients."""
    if not own:
        return np.eye(n + 1)
    if not H[n, n] > 0.0:
        raise RefusedError("no row counts at the model")
    return np.hstack([np.eye(n), -H[:n, n:] / H[n, n]])


HANDLERS = {KIND: Checked(answer, REQUEST, REPLY)}


def packed(H: Array) -> Array:
    """The lower triangle of a symmetric matrix, (d(d+1)/2,)."""
    return np.asarray(H[np.tril_indices(len(H))])


def unpacked(triangle: Array, d: int) -> Array:
    """Undo `packed`.

    Examples
    --------
    >>> unpacked(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    H, (i, j) = np.zeros((d, d)), np.tril_indices(d)
    H[i, j] = H[j, i] = triangle
    return H


@dataclass
class Inquiry:
    """The server's half: asks all clients for their pieces at a point.

    Parameters
    ----------
    problem : Problem
        Whose loss and intercept are meant; nothing is moved here.
    clients : sequence of Party
        Who holds the rows.
    engine : str or Engine
        What carries messages; it is closed at the end.

    Attributes
    ----------
    tally : Tally
        What was sent.
    rounds : int
        How often they were asked.
    """

    problem: Problem
    clients: Sequence[Party]
    engine: str | Engine = "serial"

    def __post_init__(self) -> None:
        self.tally, self.rounds = Tally(), 0
        self.bytes_down = 0
        self._engine = make_engine(self.engine)

    def __enter__(self) -> Self:
        for client in self.clients:
            if isinstance(client, Client) and (client.guard or client.privacy):
                raise InferenceError(REFUSED.format(name=client.name))
        problem, curves = self.problem, self.problem.curves
        still = Problem(
            problem.loss,
            Ball(norm=problem.norm if curves is None else "l1"),
            problem.mixture,
            intercept=problem.intercept,
            curves=None if curves is None else curves.free(),
        )
        try:
            self._engine.start(self.clients, still, HANDLERS)
        except ValueError as error:
            self._engine.close()
            raise InferenceError(f"no standard errors: {error}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.close()

    def ask(self, x: Array, outer: bool) -> dict[str, ModelPieces]:
        """Everybody's pieces at x, in client order; with J if ``outer``."""
        message = Message(KIND, self.rounds, {"x": x, "outer": np.array(int(outer))})
        messages = {client.name: message for client in self.clients}
        answers = self._engine.map(messages, None)
        for name, code in answers.failures.items():
            if code in (Failure.REFUSED, Failure.UNKNOWN_KIND):
                raise InferenceError(REFUSED.format(name=name))
            raise InferenceError(
                f"no standard errors: client {name!r} did not answer: {Failure(code).sentence}"
            )
        self.tally.add(answers.replies)
        self.bytes_down += message.nbytes * len(messages)
        try:
            found = {n: self._read(n, reply, outer) for n, reply in answers.replies.items()}
        except WireError as error:
            raise InferenceError(f"no standard errors: {error}") from error
        self.rounds += 1
        return found

    def _read(self, name: str, reply: Message, outer: bool) -> ModelPieces:
        n = self.problem.coefficients(self.clients[0].n_features)
        d = n + self.problem.shared_intercept
        validate(reply, reply_kind(KIND), self.rounds, REPLY, {"d": d, "t": d * (d + 1) // 2})
        told = reply.arrays
        if not float(told["total"]) > 0.0 or not 0.0 < float(told["squares"]) <= 1.0 + 1e-9:
            raise WireError(f"client {name!r} told impossible weights of its rows")
        if outer != ("outer" in told):
            raise WireError(f"client {name!r} did not tell what it was asked for")
        return ModelPieces(
            total=float(told["total"]),
            squares=float(told["squares"]),
            loss=float(told["loss"]),
            moments=told["moments"],
            gradient=told["gradient"],
            hessian=unpacked(told["hessian"], d),
            outer=unpacked(told["outer"], d) if outer else None,
        )
