"""Numbers that come from elsewhere: lost, spoilt and impossible answers, and bad requests."""

import numpy as np
import pytest
from native_kit import SIMPLEX, Listening, clients, model_of, problem, run

from drfl.client import Site
from drfl.engines import SerialEngine
from drfl.native import AFL, METHODS, FedADMM, FedAvg, FedProx, Scaffold
from drfl.solvers import StatusKind
from drfl.wire import Failure, Message


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.sampled(2)
def test_lost_answers_are_survived(name):
    engine = Listening(lambda name, round: (int(name[1]) + 3 * round) % 7 == 1 or round == 12)
    result = run(METHODS[name](), "logistic", None, 40, engine)
    assert any(record.failures for record in result.history)
    assert result.objective < 0.97 * result.history[2].objective
    assert np.isfinite(model_of(result)).all()


def test_silence_at_the_beginning_ends_the_run():
    result = run(FedAvg(), max_rounds=20, engine=Listening(lambda name, round: name == "c2"))
    assert result.status.kind is StatusKind.FAILED
    assert "c2: no answer" in result.status.message
    assert result.rounds == 3


@pytest.mark.parametrize("name", METHODS)
def test_silence_of_all_ends_the_run_with_the_last_known_model(name):
    result = run(METHODS[name](), max_rounds=60, engine=Listening(lambda name, round: round > 6))
    assert result.status.kind is StatusKind.FAILED
    assert "no usable answer in 10 rounds" in result.status.message
    assert result.rounds == 17
    assert result.objective < result.history[0].objective


class Spoiling(SerialEngine):
    """One client's answers are wrong from round 3 on."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        reply = answers.replies["c1"]
        if reply.round >= 3:
            arrays = {**reply.arrays, **self.spoil(reply.arrays)}
            answers.replies["c1"] = Message(reply.kind, reply.round, arrays)
        return answers


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda a: {"model": np.full(4, np.nan)}, "NaN"),
        (lambda a: {"model": np.zeros(5)}, "shape"),
        (lambda a: {"model": np.zeros(4, dtype=np.float32)}, "float64"),
        (lambda a: {"value": np.array(-1.0)}, "negative"),
        (lambda a: {"secret": np.zeros(2)}, "not expected"),
    ],
)
def test_a_bad_answer_counts_as_missing(spoil, reason):
    result = run(FedAvg(evaluate_every=20), max_rounds=12, engine=Spoiling(spoil))
    assert reason in result.history[4].failures["c1"]
    # Its loss is unknown, so the model of which all losses are known stays.
    assert result.objective == result.history[2].objective


def test_a_negative_loss_does_not_move_the_weights():
    engine = Spoiling(lambda arrays: {"loss": np.array(-1e9)})
    result = run(AFL(), "logistic", SIMPLEX, 12, engine)
    assert "negative" in result.history[4].failures["c1"]
    assert np.isfinite(model_of(result)).all()


@pytest.mark.parametrize(
    "facts", [(0.0, 1.0, 2.0), (3.0, -1.0, 2.0), (3.0, 2.0, 1.0), (3.0, np.nan, 2.0)]
)
def test_impossible_moments_are_refused(facts):
    class Lying(SerialEngine):
        def map(self, messages, deadline):
            answers = super().map(messages, deadline)
            reply = answers.replies["c1"]
            arrays = {**reply.arrays, "facts": np.array(facts)}
            answers.replies["c1"] = Message(reply.kind, reply.round, arrays)
            return answers

    result = run(FedAvg(), max_rounds=9, engine=Lying())
    assert result.status.kind is StatusKind.FAILED
    assert "c1: " in result.status.message


# ---------------------------------------------------------------------------- what clients refuse
GOOD = {
    "plan": np.array([0, 0, 1], dtype=np.uint8),
    "x": np.zeros(4),
    "local": np.array([3, 0, 0]),
    "step": np.array(0.1),
}
EXTRA = {
    "fedprox": {"mu": np.array(1.0)},
    "scaffold": {"correction": np.zeros(4)},
    "drfa": {"stop": np.array(2)},
    "wafl": {"gamma": np.array(1.0)},
    "fedadmm": {"own": np.zeros(4), "dual": np.zeros(4), "penalty": np.array(1.0)},
    "dual_admm": {"dual": np.zeros(4), "penalty": np.array(1.0), "weight": np.array(1.0)},
}


def answer(name, arrays):
    site = Site(clients("logistic")[0], problem("logistic"))
    return Failure.of(site.answer(Message(name, 1, arrays), METHODS[name].handlers))


@pytest.mark.parametrize("name", METHODS)
def test_a_request_without_one_of_its_arrays_is_refused(name):
    request = {**GOOD, **EXTRA.get(name, {})}
    assert answer(name, request) is None
    for missing in request:
        rest = {key: array for key, array in request.items() if key != missing}
        assert answer(name, rest) is Failure.BAD_REQUEST, missing


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("fedavg", {"plan": np.array([0, 0, 9], dtype=np.uint8)}),
        ("fedavg", {"local": np.array([0, 0, 0])}),
        ("fedavg", {"local": np.array([3, -1, 0])}),
        ("fedavg", {"local": np.array([3, 0, -1])}),
        ("fedavg", {"step": np.array(0.0)}),
        ("fedavg", {"step": np.array(np.nan)}),
        ("fedavg", {"x": np.zeros(5)}),
        ("drfa", {"stop": np.array(0)}),
        ("drfa", {"stop": np.array(4)}),
        ("wafl", {"gamma": np.array(0.0)}),
    ],
)
def test_an_impossible_request_is_refused(name, change):
    assert answer(name, {**GOOD, **EXTRA.get(name, {}), **change}) is Failure.BAD_REQUEST


# ---------------------------------------------------------------------------- how runs end
def test_a_model_that_runs_away_ends_the_run():
    result = run(FedADMM(penalty=3.0, step_size=2.0), "huber", max_rounds=100)
    assert result.status.kind is StatusKind.FAILED
    assert "times that of the zero model: take shorter steps" in result.status.message
    assert result.rounds < 100


@pytest.mark.parametrize("method", [FedProx(mu=3.0, step_size=2.0), Scaffold(step_size=40.0)])
def test_a_model_worse_than_none_is_not_passed_over(method):
    result = run(method, "huber", max_rounds=40)
    assert result.status.kind is StatusKind.MAX_ROUNDS
    assert "worse than the zero model: take shorter steps" in result.status.message


def test_the_run_stops_when_nothing_changes():
    result = run(Scaffold(stop_change=1e-6), max_rounds=500)
    assert result.status.kind is StatusKind.STOPPED
    assert result.rounds < 200
    assert "changed by less than 1.0e-06" in result.status.message


def test_used_up_rounds_are_not_called_a_gap():
    result = run(FedAvg(), max_rounds=7)
    assert result.status.kind is StatusKind.MAX_ROUNDS
    assert "fedavg cannot tell" in result.status.message
    assert result.rounds == 7
