"""An intercept of the client's own is the residual of one row: it stays where it is."""

from dataclasses import replace

import numpy as np
import pytest
from attack_kit import Server, guard, make_client

import drfl
from drfl.client import Site, intercept_message
from drfl.models import Model, ProofRecord
from drfl.privacy import Guard, Keeper
from drfl.privacy.release.rounding import size_above
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.evaluation import evaluate_message
from drfl.protocols.station import Station
from drfl.rows import Rows
from drfl.solvers.base import Status, StatusKind
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.messages import CutRequest
from drfl.wire import Failure, Message
from kit.program import write_csv

N, n, K = 151, 4, 5
BALL = drfl.Ball(0.01, "l1")


def test_where_an_intercept_of_the_clients_own_changes_is_no_row(monkeypatch):
    """The best one is a row's score: rounded, it would change where that row's score does."""
    asked, answer = [], Keeper.answer

    def spied(keeper, w, b, *of):
        asked.append(b)
        return answer(keeper, w, b, *of)

    monkeypatch.setattr(Keeper, "answer", spied)
    client = make_client(150, 13, guard(K))
    site = Site(client, drfl.Problem("hinge", BALL, intercept="per_client"))
    start, middles = np.linspace(-0.5, 0.5, 13), []
    for number in range(20):
        asked.clear()
        x = start + 1e-12 * number  # all the same but for what nobody needs to know
        request = CutRequest(x[None], (number,), (False,))
        assert Failure.of(site.answer(request.message(number), Bundle.handlers)) is None
        middles.append(round(np.mean(asked[:2]), 9))
    assert len(set(middles)) > 1


def own_server(settings):
    """Pinball: the best intercept is the residual of one row."""
    client = make_client(N, n, settings, regression=True)
    return Server(client, drfl.Problem("pinball", BALL, quantile=0.5, intercept="per_client"))


def told_entry(server, j, size):
    """The entry of a row in the middle, from a model beside which targets are nothing.

    Without a guard the intercept is told. With one the value at w grows by Lip (w s + b) beyond
    what is answered at all, s being the size of the column, which everybody knows.
    """
    w = np.zeros(n)
    w[j] = size
    if server.client.guard is None:
        reply = server.site.answer(
            intercept_message.request(w), {intercept_message.KIND: intercept_message.HANDLER}
        )
        return -float(reply.arrays["b"][0]) / size
    assert server.ask(w)
    value = server.values[-1][0] - BALL.radius * 0.5 * size
    return value / (0.5 * size) - size_above(float(np.sqrt(server.client.rows.moments()[1][j])))


@pytest.mark.parametrize("size", [1e6, 1e12])
def test_the_size_of_a_question_does_not_tell_an_intercept(size, table):
    """How far a large question is moved towards 0 is told: the intercept must not be in it."""
    errors = {False: [], True: []}
    for guarded, found in errors.items():
        server = own_server(guard(K) if guarded else None)
        for j, column in enumerate(server.client.rows.take(slice(None)).T):
            size_told = abs(told_entry(server, j, size))
            found.append(abs(size_told - abs(np.median(column))) / column.std())
    assert np.median(errors[False]) < 1e-5
    assert np.median(errors[True]) > 1e-2
    attack = "own intercept, by the value at w of 10⁶ to 10¹²: error of an entry"
    table(attack, *map(np.median, errors.values()), "deviations")


@pytest.fixture
def computed(monkeypatch):
    """How often anything is computed from rows."""
    calls = []

    def noted(usual):
        return lambda *arguments, **more: (calls.append(usual), usual(*arguments, **more))[1]

    for name in ("scores", "combine", "sweep"):
        monkeypatch.setattr(Rows, name, noted(getattr(Rows, name)))
    return calls


X = np.full(n, 0.3)
FLAGS = {name: np.zeros(1, np.uint8) for name in ("groups", "curved", "sample", "lifted")}


@pytest.mark.parametrize(
    "message",
    [
        CutRequest(X[None], (99,), (False,)).message(99),
        Message("bundle_close", 0, {"g": np.zeros((1, n)), "x": X}),
        Message("bundle_recall", 0, {"x": X[None], "id": np.array([99]), **FLAGS}),
    ],
    ids=lambda message: message.kind,
)
def test_a_spent_ledger_computes_nothing(computed, message):
    server, rng = own_server(guard(K, answers=4)), np.random.default_rng(0)
    while server.ask(rng.normal(size=n)):
        pass
    assert computed
    computed.clear()
    reply = server.site.answer(message, Bundle.handlers)
    assert not reply.arrays.keys() & {"value", "cuts", "constant"}
    assert not computed


# ---------------------------------------------------------------------------- evaluations
def evaluating(tmp_path, loss, settings):
    """A station that knows the rows of a model with an intercept per client, and the model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2)).round(6)
    score = x[:, 0] + rng.normal(size=1000)
    y = np.where(score > 0.0, "yes", "no") if loss == "hinge" else score.round(6)
    rows = [[*a, b] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    station = Station("a", write_csv(tmp_path / "a.csv", ["u", "v", "y"], rows), settings)
    found = preflight(DataRequest("y"), ["a"], lambda m: {"a": station.handle(m["a"])})
    station.client(found, None if found.target.classes is None else 1)
    more = {"quantile": 0.99} if loss == "pinball" else {}
    model = Model(
        found.target,
        found.columns,
        found.scale,
        found.missing,
        np.zeros((1, 2)),
        np.zeros(1),
        drfl.Problem(loss, BALL, intercept="per_client", **more),
        (ProofRecord(1.0, 1.0, 0.0, Status(StatusKind.CERTIFIED, "proved"), 1),),
        (),
        "0",
    )
    return station, model, score


def evaluated(station, model):
    return station.answer(evaluate_message(model, [0.0], 1, 0))


@pytest.mark.parametrize("loss", ["hinge", "huber"])
def test_metrics_beyond_the_budget_compute_no_intercept(tmp_path, computed, loss):
    station, model, _ = evaluating(tmp_path, loss, Guard(K, scalars=6))
    for number in range(3):
        computed.clear()
        told = evaluated(station, replace(model, coef=np.full((1, 2), float(number))))
    names = {"accuracy"} if loss == "hinge" else {"mse", "mae"}
    assert told.arrays.keys() == {"rows", *names}
    assert all(np.isnan(told.arrays[name]).all() for name in names)
    assert not computed
    again = evaluated(station, replace(model, coef=np.zeros((1, 2))))
    assert all(np.isfinite(again.arrays[name]).all() for name in names)
    assert not computed  # told before


def test_a_quantile_is_not_told_by_the_errors_of_all_rows(tmp_path, table):
    """At w = 0 the intercept is one row's target, and nearly all errors are what is below it."""
    station, model, y = evaluating(tmp_path, "pinball", Guard(K))
    told = evaluated(station, model)
    assert np.isnan(told.arrays["mae"]).all()
    assert np.isnan(told.arrays["mse"]).all()
    # Of a loss with one round corner every row moves the intercept by little.
    station, smooth, _ = evaluating(tmp_path, "huber", Guard(K))
    assert np.isfinite(evaluated(station, smooth).arrays["mae"]).all()
    mae = np.clip(np.abs(y - np.quantile(y, 0.99)) / y.std(), 0.0, 3.0).mean()
    off = abs(mae - (np.quantile(y, 0.99) - y.mean()) / y.std())
    attack = "own intercept of a 99 % quantile, by the mean error of all rows: error"
    table(attack, f"{off:.2g} deviations", "not told")
