"""Membership inference against noisy slopes: whose row is it that was used?

The attacker knows every row but one, chooses the model at which the two candidates for that row
differ most, and spends the whole budget on one slope: the likelihood ratio is then a projection.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import drfl
from drfl.client import RemoteClient, Site
from drfl.curves import Curves
from drfl.privacy.dp import DifferentialPrivacy, Spending
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.federation import bind_message, binding_of
from drfl.protocols.station import Station
from drfl.solvers import solver_class
from drfl.solvers.private import Private
from drfl.wire import Failure, Message

RUNS, N = 400, 200
PROBLEM = drfl.Problem("logistic", drfl.Ball(0.01, "l2"))


def site_client(row, label, epsilon: float, seed: int) -> drfl.Client:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[0], y[0] = row, label
    draw = np.random.default_rng((seed, int(label > 0))).standard_normal
    made = DifferentialPrivacy(epsilon, norm=2.0, draw=draw)
    return drfl.Client("a", X, y, privacy=made)


def site_with(row, label, epsilon: float, seed: int) -> Site:
    return Site(site_client(row, label, epsilon, seed), drfl.Problem("logistic"))


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
@pytest.mark.sampled(2)
def test_with_noise_the_attacker_hardly_does_better_than_a_coin(epsilon, most, table):
    """At epsilon 1 no attacker of this budget has an AUC above 0.563; the rest is sampling."""
    found = auc(epsilon)
    assert found < most
    attack = f"differential privacy, ε = {epsilon:g}: whose row of two is it, all others known: AUC"
    table(attack, "1 with ε = 400", found)


def clients_of(path: Path, *, flip: bool = False) -> list[drfl.Client]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0)
    made = DifferentialPrivacy(2.0, norm=2.0, ledger=path, draw=rng.standard_normal)
    return [drfl.Client("a", X, -y if flip else y, privacy=made)]


def test_jobs_share_one_budget_whatever_they_ask(tmp_path, table):
    """Another job, another label, a restart: what is spent is spent."""
    path = tmp_path / "a.ledger"
    half = drfl.solvers.make_solver("private")
    half = type(half)(share=0.5)
    first = drfl.solve(PROBLEM, clients_of(path), solver=half)
    assert first.status.kind in ("private", "local")
    budget = clients_of(path)[0].privacy.budget
    assert Spending(path).spent == pytest.approx(budget / 2)
    # Other labels are other questions: they cost what is left.
    second = drfl.solve(PROBLEM, clients_of(path, flip=True), solver="private")
    assert second.status.kind in ("private", "local")
    assert Spending(path).spent == pytest.approx(budget)
    assert second.coef.tobytes() != first.coef.tobytes()
    third = drfl.solve(PROBLEM, clients_of(path), solver="private")
    assert third.status.kind == "failed"
    assert "nothing left of its privacy budget" in third.status.message
    assert Spending(path).spent == pytest.approx(budget)
    table("differential privacy: a second job after the budget is spent", "–", "refused")


def spent_on(folder: Path, victim: float, column: str, high: float) -> float:
    """What two readings of a file cost together: 0 to 1 of a column, and this."""
    label = [int(k % 2 == 0) for k in range(60)]
    rows = [f"{victim if k == 0 else 0.0},0.0,{y}" for k, y in enumerate(label)]
    path = folder / "a.csv"
    path.write_text("\n".join(["dose,none,ill", *rows]) + "\n")
    ledger = folder / f"{victim}.ledger"
    station = Station("a", path, privacy=DifferentialPrivacy(1.0, norm=2.0, ledger=ledger))
    for name, most in (("dose", 1.0), (column, high)):
        request = DataRequest("ill", missing="mean", ranges={name: (0.0, most)}, classes=("0", "1"))
        found = preflight(request, ["a"], lambda m: {"a": station.handle(m["a"])})
        binding = binding_of(found, 1, folds=False)
        station.handle(bind_message(RemoteClient("a", found.features, "a", 0, binding), PROBLEM))
        asked = {"x": np.zeros(2), "rho": np.array(1e-3)}
        assert Failure.of(station.answer(Message("private_slope", 0, asked))) is None
    return Spending(ledger).spent


@pytest.mark.parametrize(("column", "high"), [("dose", 2.0), ("none", 1.0)])
def test_that_an_answer_is_an_old_one_tells_nothing(tmp_path, table, column, high):
    """Two readings of a column that is 0 but for the victim, or of two such columns.

    Where the victim is 0 as well the numbers are the same: an answer that costs nothing then would
    tell, without any noise.
    """
    spent = {victim: spent_on(tmp_path, victim, column, high) for victim in (0.0, 1.0)}
    assert spent[0.0] == spent[1.0] == pytest.approx(2e-3)
    attack = "differential privacy: whether two readings of a file are the same, by what they cost"
    table(attack, "–", "always paid")


@pytest.mark.parametrize("solver", ["bundle", "local", "admm", "ad_lpmm"])
def test_a_client_answers_no_other_method_whatever_a_server_sends(solver):
    """A server that is not this program does not ask `drfl.solve` what it may."""
    site = site_with(np.zeros(3), 1.0, 1.0, 0)
    handlers = solver_class(solver).handlers
    for kind in handlers:
        for arrays in ({}, {"x": np.zeros(4)}):
            reply = site.answer(Message(kind, 0, arrays), handlers)
            assert Failure.of(reply) is Failure.REFUSED
    assert site.spending.spent == 0.0


@pytest.mark.parametrize("row", [np.zeros(3), np.array([1.4, -1.4, 0.0])])
def test_questions_that_overflow_are_refused_whatever_the_rows(row):
    """Where a sum overflows depends on the rows: its failure would be an answer without noise."""
    site = site_with(row, 1.0, 1.0, 0)
    far, region = np.array([1.7e308, 1.7e308, 0.0, 0.0]), np.full((4, 4), 1.7e308)
    price = {1: np.array(1e-4), 3: np.full(3, 1e-4)}
    messages = [
        Message("private_slope", 0, {"x": far, "rho": price[1]}),
        Message("private_close", 0, {"x": far, "region": np.eye(4), "rho": price[3]}),
        Message("private_close", 0, {"x": np.zeros(4), "region": region, "rho": price[3]}),
    ]
    for message in messages:
        assert Failure.of(site.answer(message, Private.handlers)) is Failure.REFUSED
    assert site.spending.spent == 0.0


@pytest.mark.parametrize(
    "changes",
    [{"curves": Curves([[-1.0, 0.0, 1.0], [], []])}, {"classes": 2}, {"intercept": "per_client"}],
    ids=["curves", "classes", "intercepts"],
)
def test_rows_are_clipped_as_a_model_sees_them(changes):
    """Ramps of a row are longer than the row: noise for the row would be too small for them."""
    x = np.zeros((1, 3))
    assert np.linalg.norm(Curves([[-1.0, 0.0, 1.0], [], []]).expand(x)) > np.linalg.norm(x)
    ramps, one = "may be longer than its noise is for", "one slope and one intercept of all clients"
    with pytest.raises(ValueError, match=ramps if "curves" in changes else one):
        Site(site_client(np.zeros(3), 1.0, 1.0, 0), drfl.Problem("logistic", **changes))
