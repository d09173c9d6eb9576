r"""What clients tell for standard errors: both halves of one message.

At a point :math:`x=(w,b)`, with :math:`a_i=(x_i,1)` and the masses :math:`p_i` of the rows:

.. math:: g_s=\sum_ip_iL'_ia_i,\qquad H_s=\sum_ip_iL''_ia_ia_i^T,\qquad
          J_s=\sum_ip_i^2L_i'^2a_ia_i^T

Where every client has an intercept of its own, x is w alone: b is the client's best one at w, and
:math:`a_i=x_i-\sum_jp_jL''_jx_j/\sum_jp_jL''_j`, which is what the best b leaves of a column. So H
and J are those of a regression with a column for every client, without these columns.

Of K classes at once, with :math:`\theta_k` against the first class (`drfl.inference.classes`), the
probabilities :math:`\pi_i` and slopes :math:`v_i=\pi_i-e_{y_i}` without the first:

.. math:: H_s=\sum_ip_i(\mathrm{diag}\,\pi_i-\pi_i\pi_i^T)\otimes a_ia_i^T,\qquad
          J_s=\sum_ip_i^2\,v_iv_i^T\otimes a_ia_i^T.

J is asked for once, at the end. Both matrices tell more of rows than cuts do: a client with a guard
or with differential privacy does not answer, nor does one whose policy allows no curvature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Client, Party, RefusedError, Site
from drfl.engines import Engine, make_engine
from drfl.inference.classes import parameters
from drfl.inference.estimate import Estimate, InferenceError, ModelPieces, corrected
from drfl.losses.joint import softmax
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.uncertainty import Ball
from drfl.wire import Failure, Field, Message, Tally, WireError, reply_kind, validate
from drfl.wire.schema import triangle_of, unpack_triangle
from drfl.worst_case.joint import JointOracle
from drfl.worst_case.joint_intercepts import own_intercepts
from drfl.worst_case.own_intercept import middle_intercept

KIND = "inference"
NOTHING = 1e-10  # relative: a curvature in intercepts that is smaller is rounding
REQUEST = {"x": Field("float64", ("f",)), "outer": Field("int64")}
REPLY = {
    "total": Field("float64"),
    "squares": Field("float64"),
    "loss": Field("float64"),
    "moments": Field("float64", (2,)),
    "gradient": Field("float64", ("f",)),
    "hessian": Field("float64", ("u",)),
    "outer": Field("float64", ("u",), optional=True),
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
    x, outer = message.arrays["x"], bool(int(message.arrays["outer"]))
    at = _at_classes(site, x) if isinstance(site.oracle, JointOracle) else _at_score(site, x)
    rows, f = site.rows, len(x)
    p = np.broadcast_to(np.asarray(rows.mass()), (rows.n_rows,))
    H = at.matrix(p, at.bend)
    taken = _following(H, at.coefficients, own=site.problem.own_intercepts)
    reply = {
        "total": np.array(float(rows.total)),
        "squares": np.array(float(np.square(p).sum())),
        "loss": np.array(rows.mean(at.value)),
        "moments": np.array([rows.mean(np.square(at.slope).sum(axis=0)), rows.mean(at.spread)]),
        "gradient": at.gradient(p)[:f],
        "hessian": triangle_of((taken @ H @ taken.T)[:f, :f]),
    }
    if outer:
        J = at.matrix(np.square(p), lambda j, k: at.slope[j] * at.slope[k])
        reply["outer"] = triangle_of((taken @ J @ taken.T)[:f, :f])
    return reply


@dataclass(frozen=True, eq=False)
class _Rowwise:
    """Losses (N,), slopes in M free scores (M, N), and the bend of two of them (N,)."""

    rows: Rows
    value: Array
    slope: Array
    bend: Callable[[int, int], Array]

    @property
    def coefficients(self) -> int:
        """How many coefficients there are, without intercepts."""
        return len(self.slope) * int(self.rows.n_features)

    @property
    def spread(self) -> Array:
        """The bends of single scores, added up (N,)."""
        return np.asarray(sum(self.bend(k, k) for k in range(len(self.slope))))

    def gradient(self, p: Array) -> Array:
        """All coefficients, then the intercepts."""
        sums = [self.rows.combine(p * slope) for slope in self.slope]
        return np.append(np.concatenate([g for g, _ in sums]), [gb for _, gb in sums])

    def matrix(self, weight: Array, of: Callable[[int, int], Array]) -> Array:
        """Sums of rows (x, 1) with themselves, a block for two scores, in that order."""
        M, size = len(self.slope), self.rows.n_features + 1
        H = np.zeros((M, size, M, size))
        for j in range(M):
            for k in range(j + 1):
                block = _signed_gram(self.rows, weight * of(j, k))
                H[j, :, k], H[k, :, j] = block, block
        place = np.arange(M * size).reshape(M, size)
        order = np.append(place[:, :-1].ravel(), place[:, -1])
        return np.asarray(H.reshape(M * size, M * size)[np.ix_(order, order)])


def _signed_gram(rows: Rows, weight: Array) -> Array:
    above, below = np.maximum(weight, 0.0), np.maximum(-weight, 0.0)
    if not below.any():
        return rows.gram(above)
    return rows.gram(above) - rows.gram(below) if above.any() else -rows.gram(below)


def _at_score(site: Site, x: Array) -> _Rowwise:
    rows, loss = site.rows, site.oracle.loss
    w, b = x[: site.n_features], float(x[-1]) if site.shared_intercept else 0.0
    if site.problem.own_intercepts:
        b = middle_intercept(site.oracle, w)
    at = site.oracle.arguments(rows.scores(w, b), rows.y)
    value, slope = loss.value_and_slope(at)
    slope, bend = rows.y * slope if site.oracle.is_margin else slope, loss.curvature(at)
    return _Rowwise(rows, value, slope[None], lambda j, k: bend)


def _at_classes(site: Site, x: Array) -> _Rowwise:
    rows, oracle = site.rows, site.oracle
    assert isinstance(oracle, JointOracle)
    K, n = oracle.classes, site.n_features
    W = np.vstack([np.zeros(n), x[: (K - 1) * n].reshape(K - 1, n)])
    b = np.append(0.0, x[(K - 1) * n :]) if site.shared_intercept else np.zeros(K)
    if site.problem.own_intercepts:
        b = own_intercepts(oracle, W)
    z = rows.scores_many(W, b)
    p = softmax(z)
    slope = p[1:].copy()
    slope[oracle.y[oracle.y > 0] - 1, np.flatnonzero(oracle.y > 0)] -= 1.0
    return _Rowwise(
        rows,
        oracle.loss.value(z, oracle.y),
        slope,
        lambda j, k: p[j + 1] * (float(j == k) - p[k + 1]),
    )


def _following(H: Array, n: int, *, own: bool) -> Array:
    """What rows (x, 1) are multiplied by, so that own intercepts follow the coefficients."""
    if not own:
        return np.eye(len(H))
    if not np.diag(H)[n:].max() > 0.0:
        raise RefusedError("no row counts at the model")
    # A class without rows here has an intercept that moves nothing.
    inverse = np.linalg.pinv(H[n:, n:], rcond=NOTHING, hermitian=True)
    return np.hstack([np.eye(n), -H[:n, n:] @ inverse])


HANDLERS = {KIND: Checked(answer, REQUEST, REPLY)}


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
        still = replace(
            problem,
            ball=Ball(norm=problem.norm if curves is None else "l1"),
            curves=None if curves is None else curves.free(),
            shared_ball=False,  # nothing moves
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

    def estimate(
        self,
        coef: Array,
        intercept: float | Array,
        weights: Mapping[str, float],
        names: list[str] | None = None,
    ) -> Estimate:
        """The unpenalised estimate that a robust model leads to; see `corrected`."""
        problem, x = self.problem, parameters(self.problem, coef, intercept)
        own = (problem.classes or 2) - 1 if problem.own_intercepts else 0
        return corrected(self.ask, problem.loss, x, weights, names=names, own_intercepts=own)

    def _read(self, name: str, reply: Message, outer: bool) -> ModelPieces:
        n, classes = self.problem.coefficients(self.clients[0].n_features), self.problem.classes
        d = n + self.problem.intercepts
        d -= 0 if classes is None else d // classes
        validate(reply, reply_kind(KIND), self.rounds, REPLY, {"f": d, "u": d * (d + 1) // 2})
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
            hessian=unpack_triangle(told["hessian"], d),
            outer=unpack_triangle(told["outer"], d) if outer else None,
        )
