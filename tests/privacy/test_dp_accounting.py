"""zCDP against known formulas, and the ledger of a budget."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import drfl
from drfl.privacy import SpentError
from drfl.privacy.dp import DifferentialPrivacy, Spending, delta_of, epsilon_of, rho_of

PROBLEM = drfl.Problem("logistic", drfl.Ball(0.01, "l2"))


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact delta of one Gaussian release (Balle and Wang, 2018)."""
    mu = math.sqrt(2.0 * rho)
    first = norm.cdf(mu / 2.0 - epsilon / mu)
    return float(first - math.exp(epsilon) * norm.cdf(-mu / 2.0 - epsilon / mu))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_a_budget_lies_between_the_classical_one_and_that_of_exact_gaussians(epsilon, delta):
    log = math.log(1.0 / delta)
    classical = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2  # rho + 2 sqrt(rho log) = epsilon
    exact = brentq(lambda rho: gaussian_delta(rho, epsilon) - delta, 1e-9, 100.0)
    rho = rho_of(epsilon, delta)
    assert 1.05 * classical < rho < exact
    assert delta_of(rho, epsilon) <= delta < delta_of(1.0001 * rho, epsilon)
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-9)


def test_delta_is_the_least_of_the_formula_over_a_grid_of_orders():
    alpha = 1.0 + np.logspace(-3, 4, 200_001)
    for rho, epsilon in ((0.02, 1.0), (0.2, 3.0), (1.0, 1.0)):
        log = (alpha - 1.0) * (alpha * rho - epsilon) - np.log(alpha - 1.0)
        log += alpha * np.log1p(-1.0 / alpha)
        assert delta_of(rho, epsilon) == pytest.approx(min(1.0, math.exp(log.min())), rel=1e-6)


def test_nothing_spent_promises_everything():
    assert delta_of(0.0, 0.5) == 0.0
    assert epsilon_of(0.0, 1e-6) == 0.0
    assert delta_of(1e-12, 1.0) == 0.0 or delta_of(1e-12, 1.0) < 1e-300


def test_releases_add_up_and_nothing_is_computed_beyond_the_budget(tmp_path):
    spending, made = Spending(tmp_path / "a.ledger"), []

    def compute():
        made.append(1)
        return {"slope": np.ones(2)}

    for k in range(4):
        spending.release(bytes([k]) * 32, 0.25, 1.0, compute)
    assert spending.spent == 1.0
    assert len(made) == 4
    with pytest.raises(SpentError):
        spending.release(b"x" * 32, 1e-6, 1.0, compute)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(SpentError):
            spending.release(b"y" * 32, bad, 1.0, compute)
    assert len(made) == 4  # refused before any work
    assert spending.left(1.0) == 0.0


def test_a_repeated_question_gets_the_stored_answer_and_costs_nothing(tmp_path):
    path = tmp_path / "a.ledger"
    first = Spending(path).release(b"q" * 32, 0.5, 1.0, lambda: {"slope": np.arange(3.0)})
    again = Spending(path)
    stored = again.release(b"q" * 32, 0.5, 1.0, lambda: {"slope": np.zeros(3)})
    assert stored["slope"].tolist() == first["slope"].tolist() == [0.0, 1.0, 2.0]
    assert again.spent == 0.5
    assert path.stat().st_mode & 0o077 == 0


def test_two_who_hold_the_same_file_see_what_the_other_spends(tmp_path):
    one = Spending(tmp_path / "a.ledger")
    two = pickle.loads(pickle.dumps(one))
    one.release(b"a" * 32, 0.7, 1.0, lambda: {})
    with pytest.raises(SpentError):
        two.release(b"b" * 32, 0.7, 1.0, lambda: {})
    assert two.left(1.0) == pytest.approx(0.3)


def test_another_kind_of_ledger_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 1)), np.where(rng.random(80) < 0.5, 1.0, -1.0)
    path = tmp_path / "guard.ledger"
    drfl.Client("a", X, y, guard=drfl.privacy.Guard(ledger=path))
    with pytest.raises(ValueError, match="not the ledger of a privacy budget"):
        Spending(path)
    other = tmp_path / "dp.ledger"
    Spending(other)
    with pytest.raises(ValueError, match="is not a ledger"):
        drfl.Client("a", X, y, guard=drfl.privacy.Guard(ledger=other))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon of differential privacy must be"),
        ({"epsilon": math.nan}, "epsilon of differential privacy must be"),
        ({"epsilon": "1"}, "epsilon of differential privacy must be a number"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta of differential privacy must be"),
        ({"epsilon": 1.0, "norm": -1.0}, "norm of differential privacy must be"),
        ({"epsilon": 1.0, "target": 0.0}, "target of differential privacy must be"),
        ({"epsilon": 1.0, "ledger": 3}, "ledger of differential privacy must be a path"),
        ({"epsilon": 1.0, "draw": 3}, "draw of differential privacy must be callable"),
    ],
)
def test_bad_settings_are_one_sentence(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        DifferentialPrivacy(**settings)
    assert "\n" not in str(caught.value)
