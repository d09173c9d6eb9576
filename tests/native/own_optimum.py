"""The optimum of the two methods whose objective is not a mixture of mean losses."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from drfl.native import QFFL, WAFL
from drfl.native.methods.wafl import penalised


def own_optimum(method, plain):
    """The least value of q-FFL's or WAFL's objective with uniform weights."""
    if isinstance(method, QFFL):
        return _by_cones(plain, powers=method.q) if plain.loss.kinks else _powers(plain, method.q)
    assert isinstance(method, WAFL)
    price = method.gamma
    return _by_cones(plain, price=price) if plain.loss.kinks else _penalised(plain, price)


def powers_of_losses(plain, q, x):
    losses = plain.values(x)
    return (losses ** (q + 1)).mean() / (q + 1), losses**q @ plain.gradients(x) / plain.S


def penalised_losses(plain, gamma, x):
    """The mean of the clients' means of phi, and its gradient."""
    w, value, gradient = x[:-1], 0.0, np.zeros(plain.d)
    for s in range(plain.S):
        values, v = penalised(plain.loss, plain.z(s, x), float(w @ w) / gamma)
        value += values.mean() / plain.S
        slopes = v * plain.y[s] if plain.loss.task == "classification" else v
        gradient += plain.A[s].T @ slopes / len(v) / plain.S
        gradient[:-1] += w * (v**2).mean() / gamma / plain.S
    return value, gradient


def _powers(plain, q):
    return _smooth(plain, lambda x: powers_of_losses(plain, q, x))


def _penalised(plain, gamma):
    return _smooth(plain, lambda x: penalised_losses(plain, gamma, x))


def _smooth(plain, objective):
    start = np.zeros(plain.d)
    options = {"gtol": 1e-9, "maxiter": 2000}
    return minimize(objective, start, jac=True, method="BFGS", options=options).fun


def _by_cones(plain, powers=0.0, price=np.inf):
    """With kinks: a cone program over the linear pieces of the loss."""
    import cvxpy as cp

    x, terms = cp.Variable(plain.d), []
    moved = cp.sum_squares(x[:-1]) / (2.0 * price) if price < np.inf else 0.0
    for A, y in zip(plain.A, plain.y, strict=True):
        margin = plain.loss.task == "classification"
        z = (y[:, None] * A) @ x if margin else A @ x - y
        lines = [p.slope * z + p.constant + p.slope**2 * moved for p in plain.loss.pieces]
        row = cp.Variable(len(y), nonneg=True)
        terms.append((cp.sum(row) / len(y), [row >= line for line in lines]))
    value = sum(cp.power(mean, powers + 1.0) for mean, _ in terms) / (powers + 1.0) / plain.S
    found = cp.Problem(cp.Minimize(value), [c for _, group in terms for c in group])
    return found.solve(solver=cp.CLARABEL)
