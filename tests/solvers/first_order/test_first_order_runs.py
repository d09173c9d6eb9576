"""Runs of the first-order method: when it is taken, engines, lost answers, resumed runs, lies."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import drfl
from drfl.client import Site
from drfl.privacy import Guard
from drfl.selection.warm import WarmBundle
from drfl.solvers import Assignment
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.client_half.answers import answer
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.first_order import FirstOrder
from drfl.solvers.first_order.questions import REQUEST, GradientRequest
from drfl.solvers.first_order.rounds import FirstOrderSession
from drfl.wire import Message, WireError, validate
from kit.lossy import ChangingEngine, losing, with_arrays

N, COLUMNS = 60, 2500


def clients(columns=COLUMNS, S=3, **more):
    """Text-like rows: few entries each, columns as frequent as 1/rank."""
    rng = np.random.default_rng(0)
    shares = 1.0 / np.arange(1, columns + 1)
    made, truth = [], rng.normal(size=columns)
    for s in range(S):
        places = rng.choice(columns, size=(N + s, 12), p=shares / shares.sum())
        rows = np.repeat(np.arange(N + s), 12)
        X = sparse.csr_matrix((np.ones(len(rows)), (rows, places.ravel())), (N + s, columns))
        y = np.where(X @ truth + rng.normal(size=N + s) > 0.0, 1.0, -1.0)
        made.append(drfl.Client(f"c{s}", X, y, **more))
    return made


def problem(norm="linf", **mixture):
    return drfl.Problem("logistic", drfl.Ball(0.02, norm), drfl.Mixture(**mixture))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_many_columns_are_left_to_it_by_the_default_solver(norm):
    named = drfl.solve(problem(norm), clients(), solver="first_order", tol=1e-3)
    default = drfl.solve(problem(norm), clients(), tol=1e-3)
    assert named.status.kind == "certified"
    assert default.coef.tobytes() == named.coef.tobytes()


def test_rows_at_hand_are_left_to_it_where_weights_are_uncertain():
    uncertain = problem(radius=0.2)
    local = drfl.solve(uncertain, clients(), solver="local", tol=1e-2)
    named = drfl.solve(uncertain, clients(), solver="first_order", tol=1e-2)
    assert named.status.kind == "certified"
    assert local.coef.tobytes() == named.coef.tobytes()


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_rows_at_hand_have_the_same_optimum(norm):
    local = drfl.solve(problem(norm), clients(S=1), solver="local", tol=1e-3)
    alone = drfl.solve(problem(norm), clients(S=1), solver="first_order", tol=1e-3)
    assert alone.status.kind == local.status.kind == "certified"
    assert local.history[-1].info["method"] == "descent"
    assert local.lower_bound <= alone.objective
    assert alone.lower_bound <= local.objective


def test_nothing_is_as_large_as_columns_times_columns():
    """100,000 columns: a matrix of them would have 80 GB."""
    made = clients(columns=100_000)
    for norm in ("l2", "linf"):
        result = drfl.solve(problem(norm), made, tol=1e-2, max_rounds=6)
        assert result.objective < result.history[0].objective


@pytest.mark.filterwarnings("ignore::drfl.estimators.data_warnings.ScaleWarning")
def test_an_estimator_takes_it_too():
    rows = clients()
    X = sparse.vstack([c.rows.X for c in rows]).tocsr()
    y = np.concatenate([c.rows.y for c in rows])
    model = drfl.DRFLClassifier(norm="linf", radius=0.02, tol=1e-3).fit(X, y)
    assert model.status_.kind == "certified"
    parts = np.repeat([0, 1], [80, len(y) - 80])
    again = drfl.DRFLClassifier(norm="l2", radius=0.02, tol=1e-3).fit(X, y, clients=parts)
    assert again.status_.kind == "certified"


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "rounds"), [("linf", 40), ("l2", 8)])
def test_a_million_columns_in_bounded_memory(norm, rounds):
    """A hundred vectors, not a matrix: one of a million columns would have 8 TB."""
    columns = 1_000_000
    made = clients(columns, S=2)
    tracemalloc.start()
    try:
        result = drfl.solve(problem(norm), made, tol=1e-2, max_rounds=rounds)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.objective < result.history[0].objective
    assert result.status.kind == "certified" or norm == "l2"  # which takes minutes
    assert most < 150 * 8 * columns


REFUSED = {
    "smooth losses only": {"loss": "hinge"},
    "norms l2 and linf": {"norm": "l1"},
    "labels that never move": {"label_cost": 1.0},
    "positive radius": {"radius": 0.0},
    "max_weight": {"max_weight": 0.9},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_it_cannot_is_said_before_any_work(sentence):
    what = {"loss": "logistic", "norm": "l2", "label_cost": np.inf, "radius": 0.1}
    what |= REFUSED[sentence]
    ball = drfl.Ball(what["radius"], what["norm"], what["label_cost"])
    mixture = (
        drfl.Mixture(max_weight=what["max_weight"]) if "max_weight" in what else drfl.Mixture()
    )
    stated = drfl.Problem(what["loss"], ball, mixture)
    with pytest.raises(ValueError, match=sentence):
        drfl.solve(stated, clients(columns=9000), solver="first_order")
    with pytest.raises(ValueError, match=f"9000 columns are too many .*{sentence}"):
        drfl.solve(stated, clients(columns=9000))


@pytest.mark.parametrize("sentence", sorted({*REFUSED} - {"positive radius"}))
def test_what_it_cannot_stays_with_the_bundle_method_while_clients_tell_curvature(sentence):
    """One rule for the solver and for searches: as far as curvature goes, and then a sentence."""
    what = {"loss": "logistic", "norm": "l2", "label_cost": np.inf} | REFUSED[sentence]
    mixture = drfl.Mixture(max_weight=what["max_weight"]) if "max_weight" in what else None
    ball = drfl.Ball(0.1, what["norm"], what["label_cost"])
    stated = drfl.Problem(what["loss"], ball, mixture or drfl.Mixture())
    task = Assignment(stated, ("a", "b"), 2500, tol=1e-3, max_rounds=40)
    assert isinstance(Bundle().start(task), BundleSession)
    said = f"2501 columns are too many .*{sentence}.* give at most 2500 columns"
    for start in (Bundle().start, WarmBundle(Bundle()).start):
        with pytest.raises(ValueError, match=said):
            start(replace(task, n=2501))


def test_clients_tell_curvature_of_all_columns_that_are_not_refused():
    (client,) = clients(columns=2500, S=1)
    for loss, told in (("logistic", "hess"), ("hinge", "bend")):
        stated = drfl.Problem(loss, drfl.Ball(0.02, "l1"))
        session = Bundle().start(Assignment(stated, ("c0",), 2500, tol=1e-3, max_rounds=40))
        reply = answer(Site(client, stated), session.propose()["c0"])
        assert reply[told].size == 2501 * 2502 // 2


def test_a_box_is_refused():
    stated = drfl.Problem("logistic", drfl.Ball(0.1, "l1", support=drfl.Box(0.0, 9.0)))
    with pytest.raises(ValueError, match="whole space only"):
        drfl.solve(stated, clients(), solver="first_order")


def test_other_processes_give_the_same_bits():
    here = drfl.solve(problem(radius=0.2), clients(), tol=1e-3)
    there = drfl.solve(problem(radius=0.2), clients(), tol=1e-3, engine="processes")
    assert here.coef.tobytes() == there.coef.tobytes()
    assert here.lower_bound == there.lower_bound


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_resumed_run_is_the_same_run(norm, tmp_path):
    whole = drfl.solve(problem(norm), clients(), tol=1e-3)
    log = tmp_path / "run"
    first = drfl.solve(problem(norm), clients(), tol=1e-3, max_rounds=4, checkpoint=log)
    assert first.status.kind == "max_rounds"
    resumed = drfl.solve(problem(norm), clients(), tol=1e-3, checkpoint=log)
    assert resumed.coef.tobytes() == whole.coef.tobytes()
    assert resumed.rounds == whole.rounds


def test_lost_answers_cost_rounds_and_nothing_else():
    whole = drfl.solve(problem(), clients(), tol=1e-3)
    lossy = drfl.solve(problem(), clients(), tol=1e-3, engine=losing(0.3, 1))
    assert lossy.status.kind == "certified"
    assert lossy.coef.tobytes() == whole.coef.tobytes()
    assert lossy.rounds > whole.rounds


def test_a_client_that_falls_silent_leaves_a_true_statement():
    seen = []

    def change(name, reply):
        seen.append(name)
        return None if name == "c1" and seen.count("c1") > 3 else reply

    result = drfl.solve(problem("l2"), clients(), tol=1e-6, engine=ChangingEngine(change))
    best = drfl.solve(problem("l2"), clients(), tol=1e-3)
    assert result.status.kind == "partial"
    assert "c1 fell silent" in result.status.message
    assert result.lower_bound <= best.objective <= result.objective * (1.0 + 1e-3)
    nobody = ChangingEngine(lambda name, reply: None)
    assert drfl.solve(problem(), clients(), engine=nobody).status.kind == "failed"


LIES = {
    "a cut above its own value": lambda a: {"fan": a["fan"] + 0.1},
    "a value or a slope that cannot be": lambda a: {"value": -a["value"]},
    "steeper than the loss": lambda a: {"slope": 1e3 * a["slope"]},
    "not positive semidefinite": lambda a: {"diagonal": -a["diagonal"]},
    "a half of its slope is above": lambda a: {"halves": a["halves"] + 1.0},
    "how many rows": lambda a: {"total": -a["total"]},
    "shape": lambda a: {"slope": a["slope"][:-1]},
}


@pytest.mark.parametrize("reason", LIES)
def test_what_no_rows_could_give_is_refused(reason):
    def change(name, reply):
        return with_arrays(reply, **LIES[reason](reply.arrays)) if name == "c1" else reply

    result = drfl.solve(problem(), clients(), engine=ChangingEngine(change), max_rounds=2)
    assert result.status.kind in ("failed", "max_rounds")
    assert np.isinf(result.gap)
    assert reason in str(result.history[0])


def test_a_policy_without_curvature_or_groups_is_kept():
    seen = set()

    def change(name, reply):
        seen.update(reply.arrays)
        return reply

    policy = drfl.Policy(curvature=False, groups=False)
    result = drfl.solve(
        problem(), clients(policy=policy), tol=1e-2, engine=ChangingEngine(change), max_rounds=150
    )
    assert seen == {"value", "slope", "fan", "total"}
    assert result.gap <= 0.1


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.zeros(3)},
        {"x": np.ones(1), "at": np.array([5])},
        {"x": np.ones(2), "at": np.array([1, 1])},
        {"columns": np.array([4])},
        {"columns": np.array([-1])},
    ],
)
def test_a_client_refuses_what_does_not_fit(arrays):
    message = Message("first_order", 0, {"plan": np.zeros(1, np.uint8), **arrays})
    with pytest.raises(WireError):
        GradientRequest.read(message, 5, 4)


def test_a_request_travels_with_the_entries_that_are_not_zero():
    x = np.zeros(50)
    x[[3, 49]] = 1.5, -2.0
    message = GradientRequest(x, np.array([3, 7]), introduction=True).message(4)
    validate(message, "first_order", 4, REQUEST, {})
    back = GradientRequest.read(message, 50, 49)
    assert message.arrays["x"].shape == (2,)
    assert back.introduction
    np.testing.assert_array_equal(back.x, x)
    np.testing.assert_array_equal(back.columns, [3, 7])


def test_settings_are_checked():
    with pytest.raises(ValueError, match="memory"):
        FirstOrder(memory=0)
    with pytest.raises(ValueError, match="newton"):
        FirstOrder(newton=-1)


def guarded(columns):
    rng = np.random.default_rng(0)
    X, few = sparse.csr_matrix((200, columns - 3)), rng.normal(size=(200, 3))
    y = np.where(few.sum(axis=1) + rng.normal(size=200) > 0.0, 1.0, -1.0)
    rows = sparse.hstack([sparse.csr_matrix(few), X]).tocsr()
    return drfl.Client("a", rows, y, guard=Guard(5))


def test_clients_with_guards_stay_with_the_bundle_method():
    task = Assignment(problem("l2"), ("a",), 2001, tol=1e-3, max_rounds=40)
    assert isinstance(Bundle().start(task), FirstOrderSession)
    under_guards = Bundle().under_guards()
    assert isinstance(under_guards.start(task), BundleSession)
    with pytest.raises(ValueError, match=r"8001 columns are too many .* under a guard there is no"):
        under_guards.start(replace(task, n=8001))


@pytest.mark.slow
def test_a_guard_with_many_columns_proves_what_it_allows():
    """Columns that are 0 in all rows, or more columns than rows, are no hindrance."""
    plain = drfl.solve(problem("l2"), [drfl.Client("a", *rows_of(guarded(2001)))], tol=1e-3)
    result = drfl.solve(problem("l2"), [guarded(2001)], tol=1e-3, max_rounds=10)
    assert result.lower_bound <= plain.objective * (1.0 + 1e-9)
    assert plain.lower_bound * (1.0 - 1e-9) <= result.objective <= plain.objective * 1.1


def rows_of(client):
    return client.rows.X, client.rows.y


def test_a_guard_with_still_more_columns_is_refused_before_any_work():
    with pytest.raises(ValueError, match="8001 columns are too many"):
        drfl.solve(problem("l2"), [guarded(8001)])
