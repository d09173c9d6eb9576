"""On the rails: engines, checkpoints, lost answers, small messages, settings and refusals."""

import inspect

import numpy as np
import pytest
from native_kit import LOSSES, SIMPLEX, SIZES, Listening, clients, model_of, problem, run

import drfl
from drfl.client import Policy
from drfl.engines import ProcessesEngine, SerialEngine
from drfl.native import AFL, DRFA, METHODS, FedADMM, FedAvg, Scaffold, ScaffPD
from drfl.solvers import StatusKind
from drfl.wire import Message


def small(name, **settings):
    """A method with batches and, where it knows it, partial participation."""
    kind = METHODS[name]
    if "participation" in inspect.signature(kind).parameters:
        settings["participation"] = 0.5
    return kind(batch_size=9, seed=11, **settings)


def same(one, other):
    assert model_of(one).tobytes() == model_of(other).tobytes()
    assert one.objective == other.objective
    assert [r.objective for r in one.history] == [r.objective for r in other.history]
    assert one.bytes_up == other.bytes_up
    assert one.bytes_down == other.bytes_down


@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_repeated_bit_for_bit_and_messages_do_not_betray_rows(name):
    # In debug mode messages are encoded, and an axis as long as the client has rows is an error.
    plain = run(small(name), max_rounds=15)
    same(plain, run(small(name), max_rounds=15, engine=SerialEngine(debug=True)))
    other = METHODS[name](**{**vars(small(name)), "seed": 12})
    assert not np.array_equal(model_of(plain), model_of(run(other, max_rounds=15)))


def test_other_processes_give_the_same_numbers():
    engine = ProcessesEngine(workers=2)
    for name in ("scaffold", "drfa", "wafl"):
        same(run(small(name), max_rounds=15), run(small(name), max_rounds=15, engine=engine))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_method_takes_every_loss(name, loss):
    result = run(METHODS[name](), loss, None, 25)
    assert result.status.kind is StatusKind.MAX_ROUNDS
    assert result.objective < 0.97 * result.history[0].objective
    assert not any(record.failures for record in result.history)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_goes_on_from_its_checkpoint(name, tmp_path):
    whole = run(small(name), max_rounds=16)
    run(small(name), max_rounds=9, checkpoint=tmp_path / "log")
    asked = Listening()
    resumed = run(small(name), max_rounds=16, checkpoint=tmp_path / "log", engine=asked)
    same(whole, resumed)
    assert len(asked.rounds) == 16 - 9 + 1  # the rest, and an empty recall


@pytest.mark.parametrize("name", METHODS)
def test_lost_answers_are_survived(name):
    engine = Listening(lambda name, round: (int(name[1]) + 3 * round) % 7 == 1 or round == 12)
    result = run(METHODS[name](), "logistic", None, 40, engine)
    assert any(record.failures for record in result.history)
    assert result.objective < 0.97 * result.history[-40 + 2].objective
    assert np.isfinite(model_of(result)).all()


def test_silence_ends_the_run():
    result = run(FedAvg(), max_rounds=20, engine=Listening(lambda name, round: name == "c2"))
    assert result.status.kind is StatusKind.FAILED
    assert "c2: no answer" in result.status.message
    assert result.rounds == 3


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
        (lambda a: {"value": np.array(-1.0)}, "negative"),
        (lambda a: {"secret": np.zeros(2)}, "not expected"),
    ],
)
def test_a_bad_answer_counts_as_missing(spoil, reason):
    result = run(FedAvg(evaluate_every=20), max_rounds=12, engine=Spoiling(spoil))
    assert reason in result.history[4].failures["c1"]
    # Its loss is unknown, so the model of which all losses are known stays.
    assert result.objective == result.history[2].objective


def test_messages_are_short():
    d = 4
    for name, method in METHODS.items():
        engine = Listening()
        run(method(), max_rounds=8, engine=engine)
        for messages, replies in engine.rounds:
            assert all(m.payload <= 8 * (4 * d + 8) for m in messages.values()), name
            assert all(r.payload <= 8 * (2 * d + 3) for r in replies.values()), name
    assert d not in SIZES


def test_only_the_drawn_clients_are_asked():
    engine = Listening()
    run(FedAvg(participation=0.5, evaluate_every=4), max_rounds=40, engine=engine)
    for number, (messages, _) in enumerate(engine.rounds):
        due = number <= 4 or (number + 1) % 4 == 0
        assert len(messages) == (4 if due else 2)
    drawn = [
        name
        for messages, _ in engine.rounds
        for name, message in messages.items()
        if message.arrays["plan"][2]
    ]
    assert min(drawn.count(f"c{s}") for s in range(4)) > 8


def test_the_policy_keeps_the_eigenvalue_back():
    engine = Listening()
    private = clients("hinge", policy=Policy(curvature=False))
    drfl.solve(problem("hinge"), private, solver=FedAvg(), engine=engine, max_rounds=3)
    for reply in engine.rounds[0][1].values():
        _, largest, trace = reply.arrays["facts"]
        assert largest == trace
    engine = Listening()
    drfl.solve(problem("hinge"), clients("hinge"), solver=FedAvg(), engine=engine, max_rounds=3)
    for client, reply in zip(clients("hinge"), engine.rounds[0][1].values(), strict=True):
        total, largest, trace = reply.arrays["facts"]
        A = np.column_stack([client.rows.X, np.ones(client.rows.n_rows)])
        eigenvalues = np.linalg.eigvalsh(A.T @ A / len(A))
        assert total == len(A)
        assert largest == pytest.approx(eigenvalues[-1], rel=0.05)
        assert trace == pytest.approx(eigenvalues.sum(), rel=1e-12)


def test_rows_may_have_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.sign(rng.normal(size=40))
    counts = rng.integers(1, 4, size=40)
    weighted = [drfl.Client("a", X, y, sample_weight=counts)]
    repeated = [drfl.Client("a", np.repeat(X, counts, axis=0), np.repeat(y, counts))]
    results = [
        drfl.solve(problem("logistic"), c, solver=Scaffold(), max_rounds=30)
        for c in (weighted, repeated)
    ]
    assert model_of(results[0]) == pytest.approx(model_of(results[1]), rel=1e-10)


def test_the_run_stops_when_nothing_changes():
    result = run(Scaffold(stop_change=1e-6), max_rounds=500)
    assert result.status.kind is StatusKind.STOPPED
    assert result.rounds < 200
    assert "changed by less than 1.0e-06" in result.status.message


def test_an_optimum_of_0_is_not_called_certified():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    result = drfl.solve(problem("hinge"), [drfl.Client("a", X, y)], solver=FedAvg(), max_rounds=60)
    assert result.objective == 0.0
    assert result.gap == 0.0
    assert result.status.kind is StatusKind.MAX_ROUNDS


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda: FedAvg(local_steps=0), ValueError, "local_steps must be at least 1"),
        (lambda: FedAvg(local_steps=2.5), TypeError, "local_steps must be a whole number"),
        (lambda: FedAvg(participation=0.0), ValueError, "participation must be"),
        (lambda: FedAvg(participation=1.5), ValueError, "> 0 and <= 1"),
        (lambda: Scaffold(step_size=-1.0), ValueError, "step_size must be"),
        (lambda: Scaffold(batch_size=0), ValueError, "batch_size"),
        (lambda: AFL(weight_step="big"), TypeError, "weight_step must be a number or None"),
        (lambda: AFL(averaged=1), TypeError, "averaged must be True or False"),
        (lambda: FedADMM(penalty=0.0), ValueError, "penalty must be"),
        (lambda: DRFA(seed=-1), ValueError, "seed"),
        (lambda: ScaffPD(server_step=float("nan")), ValueError, "server_step"),
    ],
)
def test_settings_are_checked(make, error, why):
    with pytest.raises(error, match=why):
        make()


@pytest.mark.parametrize("name", METHODS)
def test_a_problem_with_a_radius_is_refused(name):
    stated = drfl.Problem(
        "hinge", drfl.Ball(0.1), SIMPLEX if METHODS[name].robust else drfl.Mixture()
    )
    with pytest.raises(ValueError, match=f"{name} trusts the clients' rows"):
        drfl.solve(stated, clients("hinge"), solver=METHODS[name]())


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if not kind.robust])
def test_uncertain_weights_are_refused_by_methods_without_them(name):
    with pytest.raises(ValueError, match="center of the mixture"):
        drfl.solve(problem("hinge", SIMPLEX), clients("hinge"), solver=METHODS[name]())
