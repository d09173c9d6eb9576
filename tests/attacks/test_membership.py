"""Membership inference against noisy slopes: whose row is it that was used?

The attacker knows every row but one, chooses the model at which the two candidates for that row
differ most, and spends the whole budget on one slope: the likelihood ratio is then a projection.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import drfl
from drfl.client import Site
from drfl.privacy.dp import DifferentialPrivacy
from drfl.solvers.private import Private
from drfl.wire import Message

RUNS, N = 400, 200


def site_with(row, label, epsilon: float, seed: int) -> Site:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[0], y[0] = row, label
    draw = np.random.default_rng((seed, int(label > 0))).standard_normal
    made = DifferentialPrivacy(epsilon, norm=2.0, draw=draw)
    return Site(drfl.Client("a", X, y, privacy=made), drfl.Problem("logistic"))


def auc(epsilon: float) -> float:
    """How well the attacker tells two very different people apart."""
    x, row = np.array([3.0, 0.0, 0.0, 0.0]), np.array([2.0, 0.0, 0.0])
    scores = {}
    for label, who in ((-1.0, row), (1.0, -row)):  # both misclassified at x: slopes of full length
        told = []
        for seed in range(RUNS):
            site = site_with(who, label, epsilon, seed)
            budget = np.array(site.privacy.budget)
            message = Message("private_slope", 0, {"x": x, "rho": budget})
            told.append(site.answer(message, Private.handlers).arrays["slope"])
        scores[label] = np.array(told) @ np.array([2.0, 0.0, 0.0, 1.0])
    count = mannwhitneyu(scores[-1.0], scores[1.0]).statistic
    share = count / RUNS**2
    return float(max(share, 1.0 - share))


def test_without_much_noise_the_attacker_knows():
    assert auc(400.0) > 0.99


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 0.62), (0.1, 0.56)])
def test_with_noise_the_attacker_hardly_does_better_than_a_coin(epsilon, most, table):
    """At epsilon 1 no attacker of this budget has an AUC above 0.563; the rest is sampling."""
    found = auc(epsilon)
    assert found < most
    attack = f"differential privacy, ε = {epsilon:g}: whose row of two is it, all others known: AUC"
    table(attack, "1 with ε = 400", found)
