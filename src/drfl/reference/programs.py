"""The convex programs of one client, and the support function of the set Q, in cvxpy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.losses import Huber, Logistic, Loss, SmoothHinge
from drfl.norms import L1, L2, LInf, Norm
from drfl.reference.client_rows import ClientRows, Halfspaces, make_client

T = TypeVar("T")


def cvxpy() -> Any:
    """Return the module, or say how to get it."""
    try:
        import cvxpy as cp
    except ImportError:
        raise ImportError("drfl.reference needs cvxpy: pip install 'drfl[oracle]'") from None
    return cp


def minimise(objective: Any, constraints: list[Any], solver: str) -> float:
    """Return the minimum; the variables then have values."""
    cp = cvxpy()
    problem = cp.Problem(cp.Minimize(objective), constraints)
    for options in _PRECISE if solver == "CLARABEL" else [{}]:
        try:
            with warnings.catch_warnings():  # of inaccuracy: the options say how much is accepted
                warnings.simplefilter("ignore")
                problem.solve(solver=solver, **options)
        except cp.SolverError:
            continue
        if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            return float(problem.value)
    raise RuntimeError(f"{solver} found no optimum: scale the data, or try another solver")


def _precision(aim: float, accept: float) -> dict[str, float]:
    """Return settings of Clarabel: the tolerance to aim at, and the one to make do with."""
    kinds = ("gap_abs", "gap_rel", "feas")
    aims = {f"tol_{kind}": aim for kind in kinds}
    return aims | {f"reduced_tol_{kind}": accept for kind in kinds}


# A yardstick for 1e-6 has to be better than that; where rounding stops it, less must do.
_PRECISE = [_precision(1e-10, 1e-8), _precision(1e-8, 1e-7)]


def make_members(
    loss: Loss, clients: Sequence[tuple[ArrayLike, ArrayLike]], *settings: Any
) -> list[ClientRows]:
    """Every client with its own settings, each given once or once per client."""
    S = len(clients)
    if S == 0:
        raise ValueError("there is no client: give at least one pair (X, y)")
    each = []
    for setting in settings:
        if is_list(setting) and len(setting) != S:
            raise ValueError(f"a setting has {len(setting)} entries for {S} clients: give 1 or {S}")
        each.append(list(setting) if is_list(setting) else [setting] * S)
    members = [
        make_client(loss, X, y, *own)
        for (X, y), own in zip(clients, zip(*each, strict=True), strict=True)
    ]
    if len({client.X.shape[1] for client in members}) > 1:
        raise ValueError("the clients have different numbers of features: give all the same")
    return members


def is_list(setting: Any) -> bool:
    """Whether a setting is given once per client."""
    return isinstance(setting, list | tuple | np.ndarray)


def center_of(center: str | ArrayLike, members: list[ClientRows]) -> Array:
    """The centre of Q as weights, one per client."""
    if isinstance(center, str):
        if center not in ("uniform", "proportional"):
            raise ValueError(f"center must be 'uniform', 'proportional' or weights, got {center!r}")
        sizes = [client.size if center == "proportional" else 1.0 for client in members]
        return np.array(sizes) / sum(sizes)
    q = np.asarray(center, dtype=float)
    if q.shape != (len(members),) or not (q >= 0.0).all() or abs(q.sum() - 1.0) > 1e-9:
        raise ValueError("center must hold one weight >= 0 per client, and they must sum to 1")
    return q


def union_of(members: list[ClientRows], q: Array) -> ClientRows:
    """All rows in one ball: the mixture's empirical distribution."""
    return replace(
        members[0],
        X=np.vstack([client.X for client in members]),
        y=np.concatenate([client.y for client in members]),
        share=np.concatenate([q_s * client.share for q_s, client in zip(q, members, strict=True)]),
        size=sum(client.size for client in members),
    )


def unit_of(members: list[ClientRows]) -> float:
    """Return the unit of the features: solvers fail where w is far from 1.

    Neither a margin nor the price rho ||w||_* of robustness is far from 1 at a sensible w.
    """
    return max(max(float(np.abs(c.X).max()), c.radius) for c in members) or 1.0


Formulation = Literal["compact", "paper"]


class Variables(NamedTuple):
    """The cvxpy variables or constants of one client's program."""

    w: Any
    b: Any
    lam: Any
    alpha: Any


def client_program(
    client: ClientRows, loss: Loss, w: Any, b: Any, formulation: Formulation
) -> tuple[Any, list[Any]]:
    """Return an expression and constraints: the minimum over their own variables is F(w)."""
    cp = cvxpy()
    v = Variables(w, b, cp.Variable(nonneg=True), cp.Variable(len(client.y)))
    mean = client.share @ v.alpha
    if client.radius == 0.0:  # the ball is one point, and lam would want to be infinite
        return mean, _epigraph(loss, _score(client, loss, v), v.alpha)
    if client.support is None:
        constraints = _whole_space(client, loss, v)
    else:
        constraints = _polyhedral(client, client.support, loss, v, formulation)
    return client.radius * v.lam + mean, constraints


def _score(client: ClientRows, loss: Loss, v: Variables) -> Any:
    """Return the argument z of the loss for every row: margin or residual."""
    X, y = client.X, client.y
    if loss.task == "regression":
        return X @ v.w + v.b - y
    # Not multiply(y, X @ w): cvxpy 1.9 hands its positive part to LP solvers wrongly.
    return (y[:, None] * X) @ v.w + y * v.b


def _whole_space(client: ClientRows, loss: Loss, v: Variables) -> list[Any]:
    """The paper's corollaries on R^n: features stay where they are once lam >= Lip ||w||_*."""
    z = _score(client, loss, v)
    constraints = _epigraph(loss, z, v.alpha)
    slope = loss.lipschitz * _dual_norm(client.norm, v.w)
    constraints.append(slope <= client.feature_cost * v.lam)
    if math.isfinite(client.label_cost):
        if loss.task == "classification":
            constraints += _epigraph(loss, -z, v.alpha + client.label_cost * v.lam)
        else:
            # ||(w,-1)||_* of the paper, read as the dual of the metric: max(||w||_*, 1/kappa).
            constraints.append(loss.lipschitz <= client.label_cost * v.lam)
    return constraints


def _polyhedral(
    client: ClientRows, support: Halfspaces, loss: Loss, v: Variables, formulation: Formulation
) -> list[Any]:
    """The paper's corollaries on a polyhedron: a constraint per linear piece, label and row."""
    classification = loss.task == "classification"
    labels = (1.0, -1.0) if classification and math.isfinite(client.label_cost) else (1.0,)
    # In a box with the l1 norm the best multipliers depend on a row through its slope alone.
    share = support.is_box and isinstance(client.norm, L1) and formulation == "compact"
    constraints = []
    for piece in loss.pieces:
        if piece.slope == 0.0:  # no move gains, and a flip costs: the row stays
            constraints.append(piece.constant <= v.alpha)
            continue
        for label in labels:
            slope = piece.slope * (label * client.y if classification else np.ones(len(client.y)))
            flip = client.label_cost * v.lam if label < 0.0 else 0.0
            groups = [slope == s for s in np.unique(slope)] if share else [slope != 0.0]
            for rows in groups:
                value, needed = _moved(client, support, loss, slope, rows, share, v)
                constraints += [*needed, value + piece.constant - flip <= v.alpha[rows]]
    return constraints


def _moved(
    client: ClientRows,
    support: Halfspaces,
    loss: Loss,
    slope: Array,
    rows: NDArray[np.bool_],
    share: bool,
    v: Variables,
) -> tuple[Any, list[Any]]:
    r"""Return the worst value of a linear piece over the support, less the transport cost.

    By conic duality, with one multiplier :math:`\phi\ge0` per side (the paper's
    :math:`\phi^\pm_{si}`, on a box :math:`\pi^\pm_{si}, \tau^\pm_{si}`),

    .. math::
        \sup_{Ax+ay\le d} s(\langle w,x\rangle + b - y) - \lambda\,d(\cdot,(x_i,y_i))
        = \min_\phi\; \langle\omega,x_i\rangle + \upsilon y_i + sb + \langle\phi,d\rangle,
        \quad \omega = sw - A^\top\phi,\; \upsilon = -s - a^\top\phi,

    subject to :math:`\|\omega\|_*\le\lambda` and :math:`|\upsilon|\le\kappa\lambda`. In
    classification there is no y and no :math:`\upsilon`.
    """
    cp = cvxpy()
    X, y, slope = client.X[rows], client.y[rows], slope[rows]
    sets = slope[:1] if share else slope  # one set of multipliers, or one per row
    phi = cp.Variable((len(sets), len(support.d)), nonneg=True)
    # A variable, not an expression: it enters two constraints, and each would copy w into it.
    omega = cp.Variable((len(sets), X.shape[1]))
    constraints = [
        omega == cp.outer(sets, v.w) - phi @ support.A,
        _dual_norm(client.norm, omega, axis=1) <= client.feature_cost * v.lam,
    ]
    value = X @ omega[0] if share else cp.sum(cp.multiply(X, omega), axis=1)
    value = value + slope * v.b + phi @ support.d
    if loss.task == "regression":
        upsilon = -sets - phi @ support.a
        value = value + cp.multiply(y, upsilon)
        if math.isfinite(client.label_cost):
            constraints.append(cp.abs(upsilon) <= client.label_cost * v.lam)
    return value, constraints


def _epigraph(loss: Loss, z: Any, bound: Any) -> list[Any]:
    """Return the constraints that say L(z) <= bound."""
    if loss.pieces:
        return [piece.slope * z + piece.constant <= bound for piece in loss.pieces]
    return [_program(loss, _CURVED)(loss, z) <= bound]


def _smooth_hinge(loss: Loss, z: Any) -> Any:
    cp = cvxpy()
    return cp.huber(cp.pos(1.0 - z), 1.0) / 2.0


def _logistic(loss: Loss, z: Any) -> Any:
    return cvxpy().logistic(-z)


def _huber(loss: Any, z: Any) -> Any:
    return cvxpy().huber(z, loss.epsilon) / 2.0  # cvxpy's is z^2 near 0, ours z^2/2


def _order(p: float | str) -> Callable[[Any, Any, int | None], Any]:
    return lambda norm, w, axis: cvxpy().norm(w, p, axis=axis)


_CURVED: dict[type, Callable[[Any, Any], Any]] = {
    SmoothHinge: _smooth_hinge,
    Logistic: _logistic,
    Huber: _huber,
}
"""L(z) of a loss and an expression."""

_DUAL: dict[type, Callable[[Any, Any, int | None], Any]] = {
    L1: _order("inf"),
    L2: _order(2),
    LInf: _order(1),
}
"""The dual norm of a norm, an expression and an axis; None: of a vector."""


def _dual_norm(norm: Norm, w: Any, axis: int | None = None) -> Any:
    return _program(norm, _DUAL)(norm, w, axis)


def _program(of: Loss | Norm, known: Mapping[type, T]) -> T:
    if type(of) not in known:
        names = listed(kind.name for kind in known)  # type: ignore[attr-defined]
        raise ValueError(f"the reference has no program for {of.name!r}: it knows {names}")
    return known[type(of)]


def mixture_program(z: Any, center: Array, radius: float, p: float) -> Any:
    r"""Return :math:`h(z) = \max_{q\in Q} q'z` as an expression (Theorem 4.3's dual).

    .. math::
        h(z) = \min_{\eta\ge0,\,\gamma}\; \langle\hat q, z+\eta\rangle
        + \theta\,\|z+\eta+\gamma e\|_{p_*}
    """
    cp = cvxpy()
    if radius == 0.0:
        return center @ z
    # The farthest point of the simplex is a corner: beyond it, Q is the whole simplex.
    if all(np.linalg.norm(corner - center, p) <= radius for corner in np.eye(len(center))):
        return cp.max(z)
    eta = cp.Variable(len(center), nonneg=True)
    gamma = cp.Variable()
    dual = {1: "inf", 2: 2, math.inf: 1}[p]
    return center @ (z + eta) + radius * cp.norm(z + eta + gamma, dual)
