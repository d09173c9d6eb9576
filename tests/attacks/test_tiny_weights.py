"""Slopes so small that an audit with absolute tolerances takes them for nothing."""

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem, pair_differences, rows_among

import drfl
from drfl.losses import make_loss
from drfl.privacy import Keeper, Leverage, audit_ledger
from drfl.worst_case import make_oracle

N, n, K = 270, 6, 5


UNIT = 1e18  # of the target, so that the losses are no smaller than others


def client(settings=None):
    plain = make_client(N, n, regression=True)
    return drfl.Client("a", plain.rows.take(slice(None)), UNIT * plain.rows.y, guard=settings)


def probes():
    """Points of a line."""
    rng = np.random.default_rng(1)
    start, direction = 0.3 * rng.normal(size=(2, n + 1))
    return UNIT * (start + np.linspace(0.0, 2.0, 150)[:, None] * direction)


def differences(scale, client):
    """What differs between two points of a line, with Huber's slopes of this size.

    Straight from the keeper, as if its bounds on losses were not there.
    """
    oracle = make_oracle(client.rows, drfl.losses.Huber(scale), drfl.Ball(0.01, "l1"))
    keeper = Keeper(oracle, client.ledger, 150)
    slopes = np.array([keeper.answer(x[:-1], float(x[-1])).cut[2:] for x in probes()])
    return pair_differences(slopes / scale)


@pytest.mark.parametrize(
    "scale", [1e-14, *(pytest.param(scale, marks=pytest.mark.slow) for scale in (1e-13, 1e-5)), 1.0]
)
@pytest.mark.slow
def test_small_weights_are_audited_like_large_ones(scale, table):
    """Below 1e-12 an audit in absolute numbers let 34 of 270 rows through and knew of none."""
    guarded = client(guard(K))
    assert not rows_among(differences(scale, guarded), guarded)
    sent = [e.arrays["weights"] for e in guarded.ledger.entries if "weights" in e.arrays]
    assert len(sent) > 3
    units = np.array([np.ones(N), *sent])
    units /= np.linalg.norm(units, axis=1)[:, None]
    U, s, _ = np.linalg.svd(units.T, full_matrices=False)
    largest = (U[:, s > 1e-9 * s[0]] ** 2).sum(axis=1).max()
    assert largest <= 1.0 / K + 1e-9
    assert f"{largest:.4f} of" in audit_ledger(guarded.ledger)
    plain = Server(client(), make_problem(drfl.losses.Huber(scale)))
    for x in probes():
        plain.ask(x)
    without = rows_among(pair_differences(plain.slopes / scale), plain.client)
    assert without
    if scale < 1e-12:
        table(f"Huber with epsilon {scale:g}, whose weights are as small", len(without), 0, "rows")


@pytest.mark.parametrize("scale", [1e-14, 1e-7, 1.0, 1e9])
def test_one_row_does_not_pass_at_any_scale(scale):
    leverage = Leverage(60, 5)
    leverage.add(scale * np.ones(60))
    assert leverage.rank == 1
    assert leverage.admits(3.0 * scale * np.ones(60))
    assert not leverage.admits(scale * (np.ones(60) + 1e-6 * np.eye(60)[7]))
    assert not leverage.admits(scale * np.eye(60)[7])


@pytest.mark.parametrize("label_cost", [1e-9, 1e12])
def test_label_costs_are_bounded(label_cost):
    client = make_client(N, n, guard(K))
    with pytest.raises(ValueError, match="a guard knows label costs"):
        Server(client, make_problem(label_cost=label_cost))


@pytest.mark.parametrize(
    ("loss", "parameters"),
    [
        ("huber", {"epsilon": 1e-14}),
        ("huber", {"epsilon": 1e14}),
        ("epsilon_insensitive", {"epsilon": 1e3}),
        ("pinball", {"quantile": 1e-9}),
    ],
)
def test_parameters_of_losses_are_bounded(loss, parameters):
    client = make_client(N, n, guard(K), regression=True)
    with pytest.raises(ValueError, match="a guard knows"):
        Server(client, make_problem(make_loss(loss, **parameters)))
