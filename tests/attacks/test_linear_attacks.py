"""Linear algebra on cuts: differences, sums with signs, and everything that any server could do."""

import numpy as np
import pytest
from attack_kit import (
    Server,
    distinct,
    guard,
    leverages,
    make_client,
    make_problem,
    pair_differences,
    rows_among,
    sign_combinations,
)

K = 5
ROWS = {13: 150, 100: 1010}


def overheard(n, guarded, rounds=40, **problem):
    """An honest run with a curious server."""
    client = make_client(ROWS[n], n, guard(K) if guarded else None)
    server = Server(client, make_problem(**problem))
    server.listen(rounds=rounds)
    return server


def probed(n, guarded):
    """A malicious server: between two neighbouring points on a line one row changes sides."""
    rng = np.random.default_rng(1)
    start, direction = 0.3 * rng.normal(size=(2, n + 1))
    server = Server(make_client(ROWS[n], n, guard(K) if guarded else None), make_problem())
    for t in np.linspace(0.0, 150 / ROWS[n], 150):
        server.ask(start + t * direction)
    return server


@pytest.fixture(scope="module", params=["honest 13", "line 13", "line 100"])
def transcripts(request):
    """What was heard without a guard, and with one."""
    how, n = request.param.split()
    listen = overheard if how == "honest" else probed
    return listen(int(n), False), listen(int(n), True)


@pytest.mark.slow
def test_differences_of_two_cuts(transcripts, table):
    found = [rows_among(pair_differences(s.slopes), s.client) for s in transcripts]
    assert found[0]
    assert not found[1]
    attack = "differences of two cuts, of an honest run and along a line of 150 probes"
    table(attack, *map(len, found), "rows")


def test_sums_with_signs_of_up_to_four_cuts(transcripts, table):
    found = []
    for server in transcripts:
        last = distinct(server.slopes)[-16:]
        sums = [sign_combinations(last, size) for size in (2, 3, 4)]
        found.append(rows_among(np.vstack(sums), server.client))
    assert found[0]
    assert not found[1]
    table("sums with signs of up to four cuts", *map(len, found), "rows")


def test_any_linear_combination(transcripts, table):
    exact, guarded = transcripts
    assert (leverages(exact.weights) > 1.0 - 1e-9).any()
    h = leverages(guarded.weights)
    assert len(guarded.weights) > 4
    assert h.max() <= 1.0 / K + 1e-9
    assert h.max() == pytest.approx(guarded.client.ledger.leverage.h.max(), abs=1e-7)
    exact = leverages(exact.weights).max()
    table("any linear combination: the largest leverage, by an SVD of its own", exact, h.max())


@pytest.mark.slow
def test_any_linear_combination_of_an_honest_run_in_many_dimensions():
    assert (leverages(overheard(100, False, rounds=150).weights) > 1.0 - 1e-9).any()
    assert leverages(overheard(100, True, rounds=150).weights).max() <= 1.0 / K + 1e-9


@pytest.mark.parametrize(
    ("loss", "label_cost"),
    [("smooth_hinge", np.inf), ("logistic", np.inf), ("logistic", 1.0), ("hinge", 1.0)],
)
@pytest.mark.sampled(3)
def test_other_losses_keep_the_leverage(loss, label_cost):
    server = overheard(13, True, loss=loss, label_cost=label_cost)
    assert len(server.weights) > 3
    assert leverages(server.weights).max() <= 1.0 / K + 1e-9
    assert not rows_among(pair_differences(server.slopes), server.client)


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive", "pinball"])
@pytest.mark.sampled(3)
def test_regression_keeps_the_leverage(loss):
    client = make_client(150, 13, guard(K), regression=True)
    server = Server(client, make_problem(loss))
    rng = np.random.default_rng(5)
    for t in np.linspace(0.0, 1.0, 40):
        server.ask(t * np.arange(14.0) / 14.0 + 1e-3 * rng.normal(size=14))
    sent = [e.arrays["weights"] for e in client.ledger.entries if "weights" in e.arrays]
    assert leverages(np.array([np.ones(150), *sent])).max() <= 1.0 / K + 1e-9
