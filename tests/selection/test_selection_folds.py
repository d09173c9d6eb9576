"""Each client splits its own rows, and methods work on a part of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from drfl import Ball, Client, Mixture, Policy, Problem, solve
from drfl.client import Site
from drfl.engines import SerialEngine
from drfl.selection.client_half.folds import BALL, PART, FoldEngine, Part, fold_numbers, on_parts
from drfl.solvers.bundle import Bundle
from drfl.wire import Failure, Message

SHELL = Problem("hinge", Ball())


@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 5))
def test_folds_are_even_wherever_one_looks(n_rows, folds, seed):
    numbers = fold_numbers(n_rows, folds, np.random.default_rng(seed))
    assert numbers.shape == (n_rows,)
    for start in range(0, n_rows, folds):
        block = numbers[start : start + folds]
        assert len(set(block)) == len(block)
        assert set(block) <= set(range(folds))


@given(st.integers(1, 40), st.integers(2, 6))
def test_every_row_is_held_out_once(n_rows, folds):
    parts = [Part(fold, folds, 3) for fold in range(folds)]
    held = np.concatenate([part.held_out(n_rows) for part in parts])
    assert sorted(held) == list(range(n_rows))
    for part in parts:
        both = [*part.held_out(n_rows), *part.training(n_rows)]
        assert sorted(both) == list(range(n_rows))


def test_one_fold_is_all_rows_on_both_sides():
    whole = Part(0, 1, 0)
    assert whole.held_out(4).tolist() == whole.training(4).tolist() == [0, 1, 2, 3]


def test_seeds_differ():
    drawn = {tuple(Part(0, 5, seed).held_out(50)) for seed in range(5)}
    assert len(drawn) == 5


def parts_of(clients):
    return {client.name: Part(1, 4, 10 + s) for s, client in enumerate(clients)}


def training(client, part):
    at, rows = part.training(client.rows.n_rows), client.rows
    weight = None if rows.p is None else rows.p[at] * rows.total
    return Client(
        client.name,
        rows.X[at],
        rows.y[at],
        sample_weight=weight,
        shift=rows.shift,
        scale=rows.scale,
    )


@pytest.mark.parametrize("form", ["dense", "sparse", "weighted", "scaled"])
def test_a_run_through_a_window_is_a_run_on_the_training_rows(placed, form):
    clients = [disguised(client, form) for client in placed]
    parts = parts_of(clients)
    problem = Problem("hinge", Ball(0.05, label_cost=0.7), Mixture("proportional", radius=0.3))
    engine = SerialEngine(debug=True)
    engine.start(clients, SHELL, on_parts(Bundle.handlers))
    seen = solve(problem, clients, engine=FoldEngine(engine, parts), tol=1e-5)
    alone = solve(problem, [training(c, parts[c.name]) for c in clients], tol=1e-5)
    np.testing.assert_array_equal(seen.coef, alone.coef)
    assert seen.objective == alone.objective
    assert seen.rounds == alone.rounds


def disguised(client, form):
    rows = client.rows
    if form == "sparse":
        return Client(client.name, sparse.csr_array(rows.X), rows.y)
    if form == "weighted":
        return Client(client.name, rows.X, rows.y, sample_weight=1.0 + np.arange(len(rows.y)) % 3)
    if form == "scaled":
        return Client(client.name, rows.X, rows.y, shift=np.full(3, 0.1), scale=np.full(3, 2.0))
    return client


def test_radius_and_label_cost_come_with_the_messages(placed):
    engine = SerialEngine()
    engine.start(placed, SHELL, on_parts(Bundle.handlers))
    window = FoldEngine(engine, {c.name: Part(0, 1, 0) for c in placed})
    balls = {c.name: Ball(0.1 * s, label_cost=1.0) for s, c in enumerate(placed)}
    seen = solve(Problem("hinge", balls), placed, engine=window)
    assert seen.objective == solve(Problem("hinge", balls), placed).objective


def request(**changes):
    arrays = {
        "id": np.array([0]),
        "plan": np.array([1, 0, 0, 0, 0, 0, 0], dtype=np.uint8),
        PART: np.array([0, 3, 1]),
        BALL: np.array([0.1, math.inf]),
    }
    return Message("bundle", 0, {**arrays, **changes})


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({}, None),
        ({PART: np.array([3, 3, 1])}, Failure.BAD_REQUEST),
        ({PART: np.array([0, 3, -1])}, Failure.BAD_REQUEST),
        ({PART: np.array([0, 3])}, Failure.BAD_REQUEST),
        ({BALL: np.array([-0.1, 1.0])}, Failure.BAD_REQUEST),
        ({BALL: np.array([math.inf, 1.0])}, Failure.BAD_REQUEST),
        ({BALL: np.array([0.1, math.nan])}, Failure.BAD_REQUEST),
        ({BALL: np.array([0.1, 0.0])}, Failure.BAD_REQUEST),
    ],
)
def test_a_part_that_cannot_be_is_refused(placed, changes, failure):
    reply = Site(placed[0], SHELL).answer(request(**changes), on_parts(Bundle.handlers))
    assert Failure.of(reply) == failure


def test_a_client_may_refuse_to_train_on_few_rows(placed):
    rows = placed[0].rows
    client = Client("strict", rows.X, rows.y, policy=Policy(min_rows=rows.n_rows))
    reply = Site(client, SHELL).answer(request(), on_parts(Bundle.handlers))
    assert Failure.of(reply) is Failure.REFUSED


def test_a_handler_without_a_schema_works_on_parts_too(placed):
    def count(site, message):
        return {"rows": np.array([site.rows.n_rows])}

    site = Site(placed[0], SHELL)
    message = Message("count", 0, {PART: Part(0, 4, 1).array, BALL: np.array([0.1, 1.0])})
    reply = site.answer(message, on_parts({"count": count}))
    assert reply.arrays["rows"].tolist() == [15]
    bare = site.answer(Message("count", 0), on_parts({"count": count}))
    assert Failure.of(bare) is Failure.BAD_REQUEST
