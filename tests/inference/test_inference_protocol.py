"""What clients tell for standard errors, who refuses it, and what a lying client can do."""

from dataclasses import replace

import numpy as np
import pytest

from drfl import Ball, Client, Mixture, Policy, Problem
from drfl.engines import SerialEngine
from drfl.inference import HANDLERS, InferenceError, Inquiry, corrected
from drfl.losses import Huber, Logistic
from drfl.privacy import Guard
from drfl.privacy.dp import DifferentialPrivacy

WEIGHTS = {"a": 0.25, "b": 0.75}


def clients(loss, rows=(37, 61), **more):
    rng = np.random.default_rng(5)
    made = []
    for name, N in zip("ab", rows, strict=True):
        X = rng.normal(size=(N, 2))
        z = X @ [1.0, -0.5] + 0.3 + rng.logistic(size=N)
        y = np.where(z > 0, 1.0, -1.0) if loss.task == "classification" else z
        made.append(Client(name, X, y, sample_weight=rng.uniform(1, 2, N), **more))
    return made


def mean_loss(client, loss, x):
    z = client.rows.X @ x[:2] + x[2]
    at = client.rows.y * z if loss.task == "classification" else z - client.rows.y
    return float(client.rows.p @ loss.value(at))


@pytest.mark.parametrize("loss", [Logistic(), Huber(1.0)])
def test_pieces_are_derivatives_and_sums_over_rows(loss):
    here, x = clients(loss), np.array([0.3, 0.2, -0.1])
    with Inquiry(Problem(loss), here, SerialEngine(debug=True)) as inquiry:
        found = inquiry.ask(x, True)
    for client in here:
        told, p = found[client.name], client.rows.p
        assert told.total == pytest.approx(client.rows.total)
        assert told.squares == pytest.approx(np.sum(p**2))
        assert told.loss == pytest.approx(mean_loss(client, loss, x))
        by_hand = [
            (mean_loss(client, loss, x + h) - mean_loss(client, loss, x - h)) / 2e-6
            for h in 1e-6 * np.eye(3)
        ]
        assert told.gradient == pytest.approx(by_hand, abs=1e-8)
        A = np.column_stack([client.rows.X, np.ones(len(p))])
        at = A @ x * client.rows.y if loss.task == "classification" else A @ x - client.rows.y
        scores = A * (loss.slope(at) * p)[:, None]
        assert np.allclose(told.outer, scores.T @ scores)
        assert np.allclose(told.hessian, (A * (loss.curvature(at) * p)[:, None]).T @ A)
    assert [(s.client, s.message, s.count) for s in inquiry.tally.sent] == [
        ("a", "inference/reply", 1),
        ("b", "inference/reply", 1),
    ]


def test_the_estimate_is_the_minimum_whatever_the_start_and_the_engine():
    loss, starts = Logistic(), ([0.0, 0.0, 0.0], [4.0, 4.0, -6.0], [0.9, -0.5, 0.2])
    points = []
    for engine, start in zip(("serial", "processes", "serial"), starts, strict=True):
        with Inquiry(Problem(loss), clients(loss), engine) as inquiry:
            found = corrected(inquiry.ask, loss, np.array(start), WEIGHTS)
            pieces = inquiry.ask(found.point, False)
        points.append(found.point)
        total = sum(q * pieces[name].gradient for name, q in WEIGHTS.items())
        assert np.abs(total).max() < 1e-8
        assert found.robust.tolist() == start
        # J is asked for once, at the end.
        assert inquiry.rounds == found.steps + 3 or start[0] == 4.0
    assert np.allclose(points[0], points[1], atol=1e-8)
    assert np.allclose(points[0], points[2], atol=1e-8)


def test_replies_have_no_axis_of_rows():
    for rows in ((37, 61), (370, 610)):
        with Inquiry(Problem("logistic"), clients(Logistic(), rows), "serial") as inquiry:
            inquiry.ask(np.zeros(3), True)
        shapes = {s.message: s.arrays for s in inquiry.tally.sent}
        assert shapes["inference/reply"] == {
            "gradient": (3,),
            "hessian": (6,),
            "outer": (6,),
            "loss": (),
            "moments": (2,),
            "squares": (),
            "total": (),
        }


@pytest.mark.parametrize(
    "why",
    [
        {"policy": Policy(curvature=False)},
        {"guard": Guard(k=3)},
        {"privacy": DifferentialPrivacy(1.0, 1e-6, 2.0)},
    ],
)
def test_who_guards_rows_refuses(why):
    loss = Logistic()
    made = clients(loss, (400, 500))
    bare = [Client(c.name, c.rows.X, c.rows.y, **why) for c in made]
    with (
        pytest.raises(InferenceError, match="client 'a' refuses the matrices"),
        Inquiry(Problem(loss), bare) as inquiry,
    ):
        inquiry.ask(np.zeros(3), False)
    assert not HANDLERS["inference"].guarded
    assert not HANDLERS["inference"].private


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("hessian", np.full(6, np.nan)),
        ("hessian", np.zeros(4)),
        ("total", np.array(-1.0)),
        ("squares", np.array(2.0)),
    ],
)
def test_a_reply_of_another_form_is_a_sentence(array, value):
    class Lying(SerialEngine):
        def map(self, messages, deadline):
            answers = super().map(messages, deadline)
            arrays = {**answers.replies["b"].arrays, array: value}
            answers.replies["b"] = replace(answers.replies["b"], arrays=arrays)
            return answers

    with (
        pytest.raises(InferenceError, match=r"no standard errors: .*"),
        Inquiry(Problem("logistic"), clients(Logistic()), Lying()) as inquiry,
    ):
        inquiry.ask(np.zeros(3), False)


def test_weights_of_a_doubted_mixture_are_those_that_were_found():
    import drfl

    made = clients(Logistic())
    problem = Problem("logistic", Ball(radius=0.1), Mixture(radius=0.5))
    result = drfl.solve(problem, made)
    x = np.append(result.coef, result.intercept)
    with Inquiry(problem, made) as inquiry:
        found = corrected(inquiry.ask, problem.loss, x, result.weights)
    assert found.weights == pytest.approx(result.weights)
    assert result.weights["a"] != pytest.approx(0.5)
