r"""The problem of one client, as those who have no method of its own would solve it.

With margins :math:`m_i = y_i(\langle w,x_i\rangle + b)` the worst-case loss on the whole space is

.. math::
    \min_{w,b,\lambda}\; \rho\lambda + \tfrac1N\sum_i \max\{L(m_i),\, L(-m_i) - \kappa\lambda\},
    \qquad \|w\|_* \le \lambda .

``compact`` names the margins once, so that the data appear in one constraint; without label flips
the hinge needs no variable per row but those that cvxpy makes. ``paper`` is Theorem 4.3 with its
corollaries: a bound :math:`\alpha_i` per row, :math:`\langle w,x_i\rangle` written out in every
constraint, and on a box 4n multipliers per row. HiGHS gets the dual of the linear program,

.. math::
    \max\; \sum_i (u_i+v_i):\quad \Big\|\sum_i (u_i-v_i)y_ix_i\Big\|_1 + \kappa\sum_i v_i \le \rho,
    \;\; \sum_i (u_i-v_i)y_i = 0,\;\; u_i+v_i \le 1/N,\;\; u,v\ge0 ,

which it solves several times faster than the primal one, by simplex as by interior points.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import drfl
from drfl.reference.client_rows import make_client
from drfl.reference.programs import client_program

LOOSE = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-4)
LIMIT = 120.0  # seconds that HiGHS gets
DUAL = {"l1": "inf", "l2": 2}


@dataclass(frozen=True)
class Model:
    """A model, and the seconds of the solver alone."""

    w: np.ndarray
    b: float
    solver_seconds: float = math.nan


def compact(problem: drfl.Problem, X: np.ndarray, y: np.ndarray) -> Model:
    """The closed form through cvxpy and Clarabel, to a gap of 1e-4."""
    import cvxpy as cp

    ball = problem.ball_of("one")
    w, b, lam = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    # Not multiply(y, X @ w): it makes cvxpy slower, and wrong for LP solvers.
    margins = (y[:, None] * X) @ w + y * b
    constraints = [cp.norm(w, DUAL[ball.norm.name]) <= lam]
    flips, hinge = math.isfinite(ball.label_cost), problem.loss.name == "hinge"
    if hinge and not flips:
        loss = cp.pos(1.0 - margins)
    else:
        m, loss = cp.Variable(len(y)), cp.Variable(len(y))
        constraints += [m == margins]
        for z, discount in ((m, 0.0), (-m, ball.label_cost * lam))[: 1 + flips]:
            value = 1.0 - z if hinge else cp.logistic(-z)
            constraints += [value - discount <= loss]
        constraints += [loss >= 0.0] if hinge else []
    return _clarabel(ball.radius * lam + cp.sum(loss) / len(y), constraints, w, b)


def paper(problem: drfl.Problem, X: np.ndarray, y: np.ndarray) -> Model:
    """The paper's program through cvxpy and Clarabel, to a gap of 1e-4."""
    import cvxpy as cp

    ball = problem.ball_of("one")
    settings = (ball.radius, ball.label_cost, ball.norm, ball.support)
    client = make_client(problem.loss, X, y, None, *settings)
    w, b, z = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    value, constraints = client_program(client, problem.loss, w, b, "paper")
    return _clarabel(z, [value <= z, *constraints], w, b)


def _clarabel(objective: Any, constraints: list[Any], w: Any, b: Any) -> Model:
    import cvxpy as cp

    program = cp.Problem(cp.Minimize(objective), constraints)
    program.solve(solver=cp.CLARABEL, **LOOSE)
    if program.status != cp.OPTIMAL:
        raise RuntimeError(f"Clarabel ended with {program.status}")
    return Model(w.value, float(b.value), program.solver_stats.solve_time)


def simplex(problem: drfl.Problem, X: np.ndarray, y: np.ndarray) -> Model:
    """HiGHS's dual simplex method."""
    return _highs(problem, X, y, {"solver": "simplex"})


def interior(problem: drfl.Problem, X: np.ndarray, y: np.ndarray) -> Model:
    """HiGHS's interior points to a gap of 1e-4; no crossover, which would make a vertex of it."""
    loose = {"solver": "ipm", "ipm_optimality_tolerance": 1e-4, "run_crossover": "off"}
    return _highs(problem, X, y, loose)


def _highs(problem: drfl.Problem, X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> Model:
    """The hinge with the l1 norm as a linear program; the model is the dual solution."""
    import highspy

    ball, (N, n) = problem.ball_of("one"), X.shape
    data = sp.csc_array(np.vstack([(y[:, None] * X).T, y, np.zeros(N)]))
    slack = np.vstack([np.eye(n), np.zeros((1, n)), np.ones((1, n))])
    back = np.vstack([-np.eye(n), np.zeros((1, n)), np.ones((1, n))])
    blocks, flips = [data], math.isfinite(ball.label_cost)
    if flips:
        blocks += [sp.csc_array(np.vstack([-(y[:, None] * X).T, -y, np.full(N, ball.label_cost)]))]
    A = sp.hstack([*blocks, sp.csc_array(slack), sp.csc_array(back)])
    low, high = np.append(np.zeros(n + 1), -math.inf), np.append(np.zeros(n + 1), ball.radius)
    if flips:
        both = sp.hstack([sp.eye_array(N), sp.eye_array(N), sp.csc_array((N, 2 * n))])
        A = sp.vstack([A, both])
        low, high = np.append(low, np.full(N, -math.inf)), np.append(high, np.full(N, 1.0 / N))
    A, masses = sp.csc_array(A), N * len(blocks)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = A.shape
    lp.col_cost_ = np.append(np.full(masses, -1.0), np.zeros(2 * n))
    lp.col_lower_ = np.zeros(A.shape[1])
    lp.col_upper_ = np.append(np.full(masses, 1.0 / N), np.full(2 * n, math.inf))
    lp.row_lower_, lp.row_upper_ = low, high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    solver = highspy.Highs()
    for name, value in (
        {"output_flag": False, "threads": 1, "time_limit": LIMIT} | settings
    ).items():
        solver.setOptionValue(name, value)
    solver.passModel(lp)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
        raise TimeoutError(f"no optimum in {LIMIT:g} s")
    x = -np.array(solver.getSolution().row_dual[: n + 1])
    return Model(x[:n], float(x[n]), solver.getRunTime())


def dro(problem: drfl.Problem, X: np.ndarray, y: np.ndarray) -> Model:
    """The package dro: its ``eps``, ``p`` and ``kappa`` are radius, ground norm and label cost.

    It offers no tolerance, so Clarabel runs to its own, 1e-8.
    """
    ball = problem.ball_of("one")
    name = {"hinge": "svm", "logistic": "logistic"}[problem.loss.name]
    model = wasserstein_dro()(input_dim=X.shape[1], model_type=name, solver="CLARABEL")
    kappa = ball.label_cost if math.isfinite(ball.label_cost) else "inf"
    model.update({"eps": ball.radius, "p": {"l1": 1, "l2": 2}[ball.norm.name], "kappa": kappa})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return Model(np.asarray(model.theta), float(model.b))


def wasserstein_dro() -> Any:
    """Its class, without its packages' ``__init__``: those import torch, xgboost and lightgbm."""
    for name in ("dro", "dro.linear_model"):
        if name not in sys.modules:
            spec = importlib.util.find_spec(name)
            if spec is None:
                raise ImportError("dro is not installed")
            sys.modules[name] = package = types.ModuleType(name)
            package.__path__ = list(spec.submodule_search_locations or ())
    return importlib.import_module("dro.linear_model.wasserstein_dro").WassersteinDRO


WAYS: dict[str, Callable[[drfl.Problem, np.ndarray, np.ndarray], Model]] = {
    way.__name__: way for way in (compact, paper, simplex, interior, dro)
}
