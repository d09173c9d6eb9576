"""Several problems on one ledger: what was told of one is no answer to another."""

from itertools import product

import numpy as np
import pytest
from attack_kit import guard

import drfl

N, K = 200, 5
TARGETS, COLUMNS = ("ill", "old"), ([0, 1, 2], [1, 2, 3], [3, 2, 0])
KINDS = list(product(TARGETS, range(len(COLUMNS)), (1.0, -1.0), ("hinge", "logistic")))
UNITS = ((0.0, 1.0), (0.5, 2.0))


def table():
    """Columns of a file, and two targets that have little to do with each other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    scores = {"ill": X @ [2.0, -1.0, 0.5, 0.0], "old": X @ [-1.0, 0.5, 0.0, 2.0]}
    return X, {name: np.where(s > rng.normal(size=N), 1.0, -1.0) for name, s in scores.items()}


def trained(kind, ledger, settings):
    """A training of one problem under a ledger, and the same without a guard."""
    target, columns, positive, loss = kind[:4]
    shift, scale = kind[4] if len(kind) > 4 else UNITS[0]
    ball = kind[5] if len(kind) > 5 else drfl.Ball(0.05, "l2")
    X, y = table()
    chosen = X[:, COLUMNS[columns]]
    units = {"shift": np.full(3, shift), "scale": np.full(3, scale)}
    problem = drfl.Problem(loss, ball, fit_intercept=True)
    client = drfl.Client("a", chosen, positive * y[target], guard=settings, ledger=ledger, **units)
    result = drfl.solve(problem, [client], max_rounds=12)
    plain = drfl.Client("a", chosen, positive * y[target], **units)
    truth = drfl.solve(problem, [plain], tol=1e-8)
    value = drfl.client.Site(plain, problem).oracle.evaluate(result.coef, result.intercept).value
    return result, truth.objective, value


def holds(result, optimum, value):
    """Whether what a result says of itself is true."""
    slack = 1e-7 * optimum
    return result.lower_bound <= optimum + slack and value <= result.objective + slack


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1]], ids=["forth", "back"])
def test_every_pair_of_problems_on_one_ledger(kinds):
    """In both orders, so that each comes before and after each other one."""
    settings = guard(K, answers=10**4, scalars=10**4)
    ledger = settings.begin(b"a file", N)
    assert all(holds(*trained(kind, ledger, settings)) for kind in kinds)


def test_other_units_and_balls_on_one_ledger():
    settings = guard(K, answers=10**4, scalars=10**4)
    ledger = settings.begin(b"a file", N)
    balls = [
        drfl.Ball(radius, norm, cost)
        for radius, norm, cost in product((0.02, 0.2), ("l1", "linf"), (np.inf, 1.0))
    ]
    kinds = [("ill", 0, 1.0, "hinge", units, ball) for units, ball in product(UNITS, balls)]
    assert all(holds(*trained(kind, ledger, settings)) for kind in kinds)
