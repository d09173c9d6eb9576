"""The guard: valid bounds, what is refused, what the ledger remembers, what may be told."""

import math

import numpy as np
import pytest

import drfl
from drfl.client import Site
from drfl.engines import SerialEngine
from drfl.losses import make_loss
from drfl.norms import LInf, Norm
from drfl.privacy import (
    Guard,
    Keeper,
    Leverage,
)
from drfl.privacy.release.lattice import Lattice, bits_of
from drfl.rows import Rows
from drfl.selection.client_half import scores
from drfl.selection.client_half.folds import BALL, PART, Part, on_parts
from drfl.solvers import StatusKind
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.messages import CutRequest
from drfl.wire import Message
from drfl.worst_case import make_oracle

N, n = 200, 4
LOSSES = ("hinge", "smooth_hinge", "logistic", "huber", "epsilon_insensitive", "pinball")


def data(seed=0, regression=False, rows=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n))
    score = X @ np.array([1.0, -0.5, 0.3, 0.0]) + 0.5 * rng.normal(size=rows)
    return X, score if regression else np.where(score > 0.0, 1.0, -1.0)


def is_regression(loss):
    return make_loss(loss).task == "regression"


def clients(loss="hinge", guard=None, count=2):
    return [drfl.Client(f"c{s}", *data(s, is_regression(loss)), guard=guard) for s in range(count)]


def problem(loss="hinge", label_cost=math.inf, radius=0.05, **ball):
    ball = drfl.Ball(radius, "l2", label_cost, **ball)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.2, p=1), intercept="shared")


@pytest.mark.parametrize("label_cost", [math.inf, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.sampled(7)
def test_a_guarded_run_brackets_the_optimum(loss, label_cost):
    optimum = drfl.solve(problem(loss, label_cost), clients(loss), tol=1e-8).objective
    guarded = clients(loss, Guard(5, secret=b"key"))
    result = drfl.solve(problem(loss, label_cost), guarded, engine=SerialEngine(debug=True))
    assert not any(record.failures for record in result.history)
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert result.objective >= optimum * (1.0 - 1e-7)
    assert result.gap < (0.03 if math.isinf(label_cost) or is_regression(loss) else 0.1)


@pytest.mark.parametrize("label_cost", [math.inf, 0.5, 30.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.sampled(2)
def test_bounds_and_cuts_hold_at_every_point(loss, label_cost):
    """An upper bound where it was asked, a minorant everywhere else; also stale ones."""
    client = clients(loss, Guard(3, secret=b"key"))[0]
    ball = problem(loss, label_cost).ball
    keeper = Keeper(make_oracle(client.rows, make_loss(loss), ball), client.ledger, 100)
    exact, rng = keeper.oracle, np.random.default_rng(1)
    asked = [(x[:-1], float(x[-1])) for x in rng.normal(size=(25, n + 1))]
    cuts = []
    for w, b in asked:
        told = keeper.answer(w, b)
        assert told.upper >= exact.evaluate(w, b).value
        cuts.append(told.cut)
    for w, b in [*asked, *((x[:-1], float(x[-1])) for x in 3.0 * rng.normal(size=(25, n + 1)))]:
        worst = exact.evaluate(w, b)
        parts = np.concatenate([[1.0, worst.multiplier], w, [b]])
        least = np.array(cuts) @ parts + ball.radius * worst.multiplier
        assert least.max() <= worst.value + 1e-12


def test_equally_good_models_do_not_use_up_the_ledger():
    """Without a radius the smallest of them would be sought, with all answers that there are."""
    guarded = clients("logistic", Guard(5, secret=b"key"))
    result = drfl.solve(problem("logistic", radius=0.0), guarded, tol=0.1)
    assert result.status.kind is StatusKind.CERTIFIED
    assert guarded[0].ledger.count("answer") < 40


def test_closing_restores_most_of_the_certificate():
    """The gap that the cuts prove, and what ten numbers of each client make of it."""
    gaps = []
    guarded = clients("hinge", Guard(5, secret=b"key"))
    result = drfl.solve(problem(), guarded, callbacks=[lambda record: gaps.append(record.gap)])
    scalars = guarded[0].ledger.count("scalar")
    assert scalars == 10
    assert result.gap < 0.5 * gaps[-4]  # before the three rounds of closing
    again = drfl.solve(problem(), guarded)  # the same questions
    assert again.gap == result.gap
    assert guarded[0].ledger.count("scalar") == scalars


def test_selection_does_not_pass_the_guard_by():
    """Folds of the rows would be other data, and scores exact."""
    site = Site(clients(guard=Guard(5))[0], problem())
    part = Part(0, 5, 0)
    coef, intercept = np.zeros((1, 1, n)), np.zeros((1, 1))
    asked = scores.request(part, coef, intercept, scores.EVERY_CLASS, 0.0, ["accuracy"])
    assert site.answer(asked, scores.HANDLERS).kind == "failure/refused"
    request = CutRequest(np.zeros((1, n + 1)), (0,), (False,), introduction=True).message(0)
    fold = {PART: part.array, BALL: np.array([0.05, np.inf])}
    request = Message(request.kind, 0, {**request.arrays, **fold})
    assert site.answer(request, on_parts(Bundle.handlers)).kind == "failure/refused"
    plain = Site(clients()[0], problem())
    assert plain.answer(asked, scores.HANDLERS).kind == "select_score/reply"
    assert plain.answer(request, on_parts(Bundle.handlers)).kind == "bundle/reply"


def test_leverage_is_that_of_the_projection():
    rng, leverage = np.random.default_rng(0), Leverage(40, 4)
    V = rng.normal(size=(40, 6))
    for v in V.T:
        leverage.add(v)
        leverage.add(2.0 * v)
    P = V @ np.linalg.pinv(V)
    assert leverage.rank == 6
    assert leverage.h == pytest.approx(np.diag(P), abs=1e-12)


def test_what_is_settled_may_leave_and_one_row_may_not():
    leverage, rows = Leverage(60, 5), Rows(data(rows=60)[0], np.ones(60))
    lattice = Lattice.of(rows, 1.0)
    leverage.add(np.ones(60))
    one = np.ones(60)
    one[7] = 0.0
    assert not leverage.admits(one)
    assert not leverage.admits(np.ones(60) + 1e-7 * np.eye(60)[7])  # nearly known, and one row
    assert leverage.admits(np.ones(60))
    v = np.where(np.arange(60) % 3 == 0, 1.0, 0.0)
    v[3] = 40.0
    assert not leverage.admits(v)
    settled = leverage.settle(v, np.zeros(60), np.full(60, 50.0), lattice, np.ones(60))
    assert settled is not None
    assert leverage.admits(settled)
    assert abs(settled[3] - np.delete(settled, 3).mean()) < 1.0  # as the other rows predict
    slope = lattice.A.T @ settled / 60
    assert slope / lattice.steps == pytest.approx(np.round(slope / lattice.steps), abs=1e-9)


@pytest.mark.parametrize(("n_rows", "bits"), [(50, 12), (2048, 12), (10_000, 15), (10**7, 16)])
def test_coefficients_have_12_to_16_bits(n_rows, bits):
    assert bits_of(n_rows) == bits


class Scaled(Norm):
    """The largest move in a unit of its own: the name is not all of it."""

    name = "scaled"

    def __init__(self, unit):
        self.unit = np.array([unit])

    def __call__(self, d):
        return LInf()(d) / self.unit[0]

    def dual(self, w):
        return float(self.unit[0]) * LInf().dual(w)

    def steepest(self, w):
        return self.unit * LInf().steepest(w)

    def project_ball(self, v):
        return self.unit * LInf().project_ball(v / self.unit)


def test_norms_with_other_parameters_are_asked_anew_where_labels_move():
    """What labels that flip cost depends on the norm: a stored answer is one of this norm."""
    client = clients(guard=Guard(3, secret=b"key"))[0]
    w = np.array([0.2, -0.1, 0.0, 0.1])

    def keeper(unit, label_cost):
        ball = drfl.Ball(0.05, Scaled(unit), label_cost)
        return Keeper(make_oracle(client.rows, make_loss("hinge"), ball), client.ledger, 100)

    one, same, other = (keeper(unit, 0.5) for unit in (1.0, 1.0, 5.0))
    assert one.question(w, 0.0) == same.question(w, 0.0) != other.question(w, 0.0)
    assert one.answer(w, 0.0).multiplier != other.answer(w, 0.0).multiplier
    stay, there = (keeper(unit, math.inf).question(w, 0.0) for unit in (1.0, 5.0))
    assert stay == there


def test_slopes_have_twelve_bits_whatever_the_units():
    """And one for a column that is a sum of others: two categories and the intercept."""
    X, y = data()
    wide = np.column_stack([X, X[:, 0] > 0.0, X[:, 0] <= 0.0])
    for unit in (1.0, 2.0**20, 2.0**-20):
        client = drfl.Client("a", unit * wide, y, guard=Guard(5, secret=b"key"))
        oracle = make_oracle(client.rows, make_loss("hinge"), problem().ball)
        keeper = Keeper(oracle, client.ledger, 100)
        sizes = np.append(np.sqrt((wide**2).mean(axis=0)), 1.0)
        steps = 2.0 ** (np.floor(np.log2(sizes)) - 13)  # a finer one where others explain some
        for x in np.random.default_rng(0).normal(size=(6, 7)):
            g = keeper.answer(x[:-1] / unit, float(x[-1])).cut[2:].copy()
            g[:-1] /= unit
            assert np.delete(g / steps, 5) == pytest.approx(
                np.delete(np.round(g / steps), 5), abs=1e-6
            )
            assert g[4] + g[5] == pytest.approx(g[6], abs=1e-10)
        assert client.ledger.leverage.rank > 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rows": 49}, "49 rows are too few"),
        ({"rows": 60, "columns": 20}, "21 parameters on 60 rows"),
        ({"sample_weight": np.arange(1.0, N + 1.0)}, "drop sample_weight"),
        ({"rare": 4}, "a class has 4 rows"),
    ],
)
def test_preflight_refuses_with_one_sentence(change, why):
    X, y = data(rows=change.get("rows", N))
    X = np.tile(X, (1, 9))[:, : change.get("columns", n)]
    if "rare" in change:
        y = np.where(np.arange(len(y)) < change["rare"], 1.0, -1.0)
    with pytest.raises(ValueError, match=why) as error:
        drfl.Client("a", X, y, sample_weight=change.get("sample_weight"), guard=Guard(5))
    assert "\n" not in str(error.value)


def test_other_supports_and_shared_balls_are_refused_by_name():
    box = problem(support=drfl.Box(-9.0, 9.0))
    with pytest.raises(ValueError, match="a guard does not know the support Box"):
        drfl.solve(box, clients(guard=Guard(5)))
    shared = drfl.Problem("hinge", drfl.Ball(0.1, "l2"), drfl.Mixture(), shared_ball=True)
    with pytest.raises(ValueError, match="shared_ball"):
        drfl.solve(shared, clients(guard=Guard(5)))


@pytest.mark.parametrize("bad", [{"k": 1}, {"answers": 0}, {"scalars": -1}])
def test_a_guard_refuses_bad_numbers(bad):
    with pytest.raises(ValueError, match="guard"):
        Guard(**bad)
    with pytest.raises(TypeError, match="guard"):
        Guard(2.5)
    with pytest.raises(TypeError, match="guard must be a Guard"):
        drfl.Client("a", *data(), guard=5)


def test_a_grid_for_more_columns_than_rows():
    """Constant columns are not parameters: there may be many of them, before and after others."""
    rng = np.random.default_rng(0)
    some = rng.normal(size=(40, 2))
    X = np.column_stack([np.zeros((40, 30)), some, np.zeros((40, 30))])
    lattice = Lattice.of(Rows(X, np.ones(40)), 1.0)
    wanted = Lattice.of(Rows(some, np.ones(40)), 1.0)
    varied = [0, 31, 32]
    assert np.flatnonzero(lattice.steps).tolist() == varied
    assert lattice.steps[varied].tolist() == wanted.steps.tolist()
