"""The two public programs: one client's worst case at a given w, and the whole problem, pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drfl.arrays import Array
from drfl.losses import Loss, make_loss
from drfl.norms import Norm
from drfl.problem import intercept_of
from drfl.reference.client_rows import make_client
from drfl.reference.programs import (
    Formulation,
    center_of,
    client_program,
    cvxpy,
    is_list,
    make_members,
    minimise,
    mixture_program,
    union_of,
    unit_of,
)
from drfl.supports import Support


@dataclass(frozen=True)
class Reference:
    """The optimum of the pooled problem.

    Attributes
    ----------
    objective : float
        The optimal value h(F(w)).
    coef : ndarray of shape (n,)
        An optimal w; there may be others.
    intercept : float
        An optimal b, the first client's if every one has its own; 0 without an intercept.
    weights : ndarray of shape (S,)
        The adversary's weights q at the saddle point.
    intercepts : ndarray of shape (S,)
        Those of the clients.
    """

    objective: float
    coef: Array
    intercept: float
    weights: Array
    intercepts: Array


def worst_case_loss(
    X: ArrayLike,
    y: ArrayLike,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    loss: str | Loss,
    radius: float,
    label_cost: float = math.inf,
    norm: str | Norm = "l1",
    support: Support | None = None,
    sample_weight: ArrayLike | None = None,
    solver: str = "CLARABEL",
    **loss_params: Any,
) -> float:
    r"""One client's worst-case expected loss F(w) at a given w, by the paper's program.

    Parameters
    ----------
    X : array of shape (N, n)
        Features; every row must lie in the support.
    y : array of shape (N,)
        Labels -1 and +1, or targets.
    coef, intercept : array of shape (n,), float
        The model.
    loss : str or Loss
        Any loss on the whole space; on a box or a polyhedron a piecewise-linear one.
    radius : float
        :math:`\rho\ge0`.
    label_cost : float
        :math:`\kappa\in(0,\infty]`: the price of a flipped label, or of moving y by 1.
    norm : str or Norm
        The ground norm of the features.
    support : Box or Polyhedron, optional
        Where rows may live; None is the whole space.
    sample_weight : array of shape (N,), optional
        Weights of the rows; only their ratios matter.
    solver : str
        A solver that cvxpy knows.
    **loss_params
        Parameters of a loss given by name.

    Returns
    -------
    float
        F(w).

    Examples
    --------
    >>> round(worst_case_loss([[1.0], [-1.0]], [1, -1], [1.0], loss="hinge", radius=0.5), 6)
    0.5
    """
    cp = cvxpy()
    loss = make_loss(loss, **loss_params)
    client = make_client(loss, X, y, sample_weight, radius, label_cost, norm, support)
    w = np.asarray(coef, dtype=float)
    if w.shape != (client.X.shape[1],):
        raise ValueError(f"coef must have shape ({client.X.shape[1]},), got {w.shape}")
    unit = unit_of([client])
    value, constraints = client_program(
        client.in_units_of(unit), loss, cp.Constant(unit * w), float(intercept), "paper"
    )
    return minimise(value, constraints, solver)


def solve(
    loss: str | Loss,
    clients: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    radius: float | Sequence[float],
    label_cost: float | Sequence[float] = math.inf,
    norm: str | Norm = "l1",
    support: Support | Sequence[Support | None] | None = None,
    sample_weight: Sequence[ArrayLike | None] | None = None,
    center: str | ArrayLike = "uniform",
    mixture_radius: float = 0.0,
    p: float = 1,
    intercept: str = "shared",
    shared: bool = False,
    formulation: Formulation = "compact",
    solver: str = "CLARABEL",
) -> Reference:
    r"""Minimise :math:`\max_{q\in Q}\sum_s q_s F_s(w)` over w and b, all data in one place.

    Parameters
    ----------
    loss : str or Loss
        As in :func:`worst_case_loss`.
    clients : sequence of (X, y)
        The rows of each client.
    radius, label_cost : float or sequence of float
        One for all clients, or one for each.
    norm : str or Norm
        The ground norm of the features.
    support : Box, Polyhedron or sequence of them, optional
        One for all clients, or one for each.
    sample_weight : sequence of arrays, optional
        Weights of each client's rows.
    center : {"uniform", "proportional"} or array of shape (S,)
        :math:`\hat q`.
    mixture_radius : float
        :math:`\theta\in[0,\infty]`.
    p : {1, 2, inf}
        The norm of the set Q.
    intercept : {"shared", "per_client", "none"}
        Whether b is a variable, or one for every client; otherwise it is 0.
    shared : bool
        One ball around the mixture :math:`\sum_s\hat q_s\hat P_s` (WAFL): one multiplier serves
        every client, and ``mixture_radius`` and ``p`` play no role.
    formulation : {"compact", "paper"}
        On a box with the l1 norm the multipliers of the sides are the same for all rows of one
        slope: "compact" shares them (O(n) of them), "paper" has them for each row (4nN for the
        hinge). The optimum is the same; every other pair has one formulation only.
    solver : str
        A solver that cvxpy knows.

    Returns
    -------
    Reference
        Objective, model and saddle-point weights.

    Examples
    --------
    >>> X, y = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])
    >>> round(solve("hinge", [(X, y)], radius=0.5).objective, 6)
    0.5
    """
    cp = cvxpy()
    if p not in (1, 2, math.inf) or not mixture_radius >= 0.0:
        raise ValueError(
            f"the set Q needs p in 1, 2, inf and radius >= 0, got {p}, {mixture_radius}"
        )
    if formulation not in ("compact", "paper"):
        raise ValueError(f"formulation must be 'compact' or 'paper', got {formulation!r}")
    if shared and any(is_list(setting) for setting in (radius, label_cost, support)):
        raise ValueError("shared=True has one ball: give one radius, label_cost and support")
    loss = make_loss(loss)
    members = make_members(loss, clients, sample_weight, radius, label_cost, norm, support)
    q = center_of(center, members)
    if shared:
        members = [union_of(members, q)]
    unit = unit_of(members)
    w = cp.Variable(members[0].X.shape[1])
    if intercept_of(intercept) == "per_client":
        b = [cp.Variable() for _ in members]
    else:
        b = [cp.Variable() if intercept == "shared" else cp.Constant(0.0)] * len(members)
    # Theorem 4.3 is convex only in a variable z above the losses, not in an expression z.
    z = cp.Variable(len(members))
    above, constraints = [], []
    for s, client in enumerate(members):
        value, needed = client_program(client.in_units_of(unit), loss, w, b[s], formulation)
        above.append(value <= z[s])
        constraints += needed
    worst = z[0] if shared else mixture_program(z, q, mixture_radius, p)
    objective = minimise(worst, above + constraints, solver)
    weights = q if shared else np.array([float(link.dual_value) for link in above])
    values = np.array([float(one.value) for one in b])
    return Reference(objective, w.value / unit, float(values[0]), weights, values)
