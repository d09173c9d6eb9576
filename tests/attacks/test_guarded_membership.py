"""Membership by values at large models: is a person whose features are known among the rows?

The attacker turns w so that the person is far beyond nearly all others, asks for the value just
before and behind that place, and looks for the bend of one row; b is its own to choose.
"""

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem, told_value
from scipy.stats import mannwhitneyu

N, n, K = 150, 4, 5
STEP, PEOPLE = 0.02, 25


def bend(server, person, label, size):
    """The second difference of the value where this person's loss has its kink, in rows."""
    w = size * person / (person @ person)  # the person scores ``size``, others as they are like it
    values = []
    for side in (-1.0, 0.0, 1.0):
        place = size * (1.0 + side * STEP)
        values.append(told_value(server, np.append(w, label - place)))
    return N * (values[0] - 2.0 * values[1] + values[2]) / (size * STEP)


def auc(settings, size):
    rng = np.random.default_rng(5)
    plain = make_client(N, n)
    X, y = plain.rows.take(slice(None)), plain.rows.y
    far = np.argsort(-np.linalg.norm(X, axis=1))[:PEOPLE]
    scores = {True: [], False: []}
    for place in far:
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        for person, member in ((X[place], True), (turn @ X[place], False)):
            server = Server(make_client(N, n, settings), make_problem())
            scores[member].append(bend(server, person, y[place], size))
    wins = mannwhitneyu(scores[True], scores[False]).statistic
    return wins / PEOPLE**2


@pytest.mark.parametrize("size", [1e2, 1e6])
def test_a_guard_leaves_little_of_it(size, table):
    """A coin has an AUC of 0.5, and with so few people one between 0.3 and 0.7."""
    exact, guarded = auc(None, size), auc(guard(K), size)
    assert exact > 0.9
    assert abs(guarded - 0.5) < 0.25
    table("membership by scalars at w of 10² to 10⁶: AUC (a coin: 0.5)", exact, guarded)
