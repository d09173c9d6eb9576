"""On the rails: every loss, every engine, short messages, draws, batches, kinds of rows."""

import inspect

import numpy as np
import pytest
from native_kit import LOSSES, SIMPLEX, SIZES, Listening, clients, make_data, model_of, problem, run
from scipy import sparse

import drfl
from drfl.client import Policy
from drfl.engines import ProcessesEngine, SerialEngine
from drfl.native import METHODS, FedAvg, Scaffold
from drfl.solvers import StatusKind


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
@pytest.mark.sampled(2)
def test_a_run_is_repeated_bit_for_bit_and_messages_do_not_betray_rows(name):
    # In debug mode messages are encoded, and an axis as long as the client has rows is an error.
    plain = run(small(name), max_rounds=15)
    same(plain, run(small(name), max_rounds=15, engine=SerialEngine(debug=True)))
    other = METHODS[name](**{**vars(small(name)), "seed": 12})
    assert not np.array_equal(model_of(plain), model_of(run(other, max_rounds=15)))


QUICK = ("scaffold", "drfa")  # the others start as many processes, and are slow for it


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in METHODS]
)
@pytest.mark.sampled(2)
def test_other_processes_give_the_same_numbers(name):
    result = run(small(name), max_rounds=12, engine=ProcessesEngine(workers=2))
    same(run(small(name), max_rounds=12), result)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.sampled(2)
def test_every_method_takes_every_loss(name, loss):
    result = run(METHODS[name](), loss, None, 15)
    assert result.status.kind is StatusKind.MAX_ROUNDS
    assert result.objective < 0.98 * result.history[0].objective
    assert not any(record.failures for record in result.history)


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


def test_a_share_of_the_clients_is_at_least_one():
    engine = Listening()
    run(FedAvg(participation=0.01, evaluate_every=4), max_rounds=12, engine=engine)
    assert len(engine.rounds[5][0]) == 1


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


# ---------------------------------------------------------------------------- kinds of rows
def solved(rows, method, **options):
    sites = [drfl.Client(f"c{s}", X, y, **options) for s, (X, y) in enumerate(rows)]
    return model_of(drfl.solve(problem("logistic"), sites, solver=method, max_rounds=12))


@pytest.mark.parametrize("name", ["scaffold", "wafl"])
@pytest.mark.parametrize("batch_size", [None, 9])
def test_sparse_rows_are_rows(name, batch_size):
    method, data = METHODS[name](batch_size=batch_size), make_data("classification")
    sparse_data = [(sparse.csr_array(X), y) for X, y in data]
    assert solved(sparse_data, method) == pytest.approx(solved(data, method), rel=1e-10)


@pytest.mark.parametrize("batch_size", [None, 9])
def test_rows_may_be_standardised_on_the_way(batch_size):
    method, data = Scaffold(batch_size=batch_size), make_data("classification")
    shift, scale = np.array([0.1, -0.2, 0.3]), np.array([2.0, 0.5, 1.5])
    written = [((X - shift) / scale, y) for X, y in data]
    folded = solved(data, method, shift=shift, scale=scale)
    assert folded == pytest.approx(solved(written, method), rel=1e-10)


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


def test_without_an_intercept_b_is_0():
    for name, kind in METHODS.items():
        mixture = SIMPLEX if kind.robust else None
        stated = problem("logistic", mixture, intercept="none")
        result = drfl.solve(stated, clients("logistic"), solver=kind(), max_rounds=8)
        assert result.intercept == 0.0, name
        assert result.objective < 0.98 * result.history[0].objective


@pytest.mark.parametrize("name", METHODS)
def test_one_client_and_one_row_do(name):
    stated = problem("hinge", SIMPLEX if METHODS[name].robust else None)
    alone = [drfl.Client("a", [[2.0, -1.0]], [1.0])]
    result = drfl.solve(stated, alone, solver=METHODS[name](), max_rounds=40)
    assert result.objective < 0.2
