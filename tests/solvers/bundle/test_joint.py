"""Several classes at once: the whole method against an independent judge, and identities."""

import numpy as np
import pytest

import drfl
from drfl.client import Policy
from drfl.privacy import Guard
from kit.joint_referee import JointReferee

NORMS = ("l1", "l2", "linf")


def rows(rng, K, n, N, spread=1.0):
    y = rng.integers(0, K, N)
    y[: min(K, N)] = np.arange(min(K, N))  # every class has a row somewhere
    X = rng.normal(size=(N, n)) + spread * np.eye(K, n)[y]
    return X, y.astype(float)


def solved(problem, data, **options):
    clients = [drfl.Client(name, X, y) for name, (X, y) in data.items()]
    return drfl.solve(problem, clients, **{"tol": 1e-6, "max_rounds": 100} | options)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("label_cost", [np.inf, 1.0])
@pytest.mark.sampled(2)
def test_the_referee_finds_nothing_wrong(norm, loss, label_cost):
    rng = np.random.default_rng(len(norm) + len(loss))
    data = {f"c{s}": rows(rng, 3, 2, 12) for s in range(2)}
    ball = drfl.Ball(0.1, norm, label_cost)
    problem = drfl.Problem(loss, ball, drfl.Mixture("uniform", 0.3, 1), classes=3)
    result = solved(problem, data)
    assert result.status.kind == "certified"
    referee = JointReferee.of(problem, data)
    best = referee.optimum()
    assert referee.judge(result, 1e-6, best) == []
    np.testing.assert_allclose(result.objective, best, rtol=2e-6)
    assert result.lower_bound <= best * (1.0 + 1e-6)


def drawn(seed):
    """A problem with its data: scales from 0.001 to 1000, clients of one class, copies of rows."""
    rng = np.random.default_rng(seed)
    K, n, S = (int(rng.integers(low, high)) for low, high in ((2, 5), (1, 5), (1, 4)))
    scale = 10.0 ** rng.integers(-3, 4)
    data = {}
    for s in range(S):
        X, y = rows(rng, K, n, int(rng.integers(max(4, K), 20)), rng.choice([0.0, 2.0]))
        if s and rng.random() < 0.4:
            y = np.full(len(y), float(s % K))
        if rng.random() < 0.2:
            X[1:] = X[:1]
        data[f"c{s}"] = (scale * X, y)
    ball = drfl.Ball(
        scale * float(rng.choice([0.001, 0.01, 0.1, 1.0])),
        str(rng.choice(NORMS)),
        scale * float(rng.choice([np.inf, 0.3, 3.0])),
    )
    mixture = drfl.Mixture("uniform", float(rng.choice([0.0, 0.1, 1.0, np.inf])), 1)
    loss = str(rng.choice(["logistic", "hinge"]))
    return drfl.Problem(loss, ball, mixture, classes=K), data


def is_right(seed):
    problem, data = drawn(seed)
    result = solved(problem, data)
    wrong = JointReferee.of(problem, data).judge(result, 1e-6)
    assert wrong == [], (seed, wrong)
    return result.status.kind == "certified"


def test_random_problems_are_judged_right():
    assert np.mean([is_right(seed) for seed in range(8)]) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 1000, 250))
def test_a_thousand_certificates_hold(start):
    assert sum(is_right(seed) for seed in range(start, start + 250)) >= 248


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("label_cost", [np.inf, 1.0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.sampled(2)
def test_two_classes_are_the_loss_of_one_score(loss, label_cost, norm):
    rng = np.random.default_rng(5)
    data = {f"c{s}": rows(rng, 2, 3, 20) for s in range(2)}
    ball, mixture = drfl.Ball(0.1, norm, label_cost), drfl.Mixture("uniform", 0.2, 1)
    both = solved(drfl.Problem(loss, ball, mixture, classes=2), data)
    signed = {name: (X, 2.0 * y - 1.0) for name, (X, y) in data.items()}
    one = solved(drfl.Problem(loss, ball, mixture), signed)
    np.testing.assert_allclose(both.objective, one.objective, rtol=3e-6)
    np.testing.assert_allclose(both.coef[1] - both.coef[0], one.coef, atol=1e-2)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.sampled(2)
def test_the_names_of_classes_do_not_matter(loss, norm):
    rng = np.random.default_rng(6)
    data = {f"c{s}": rows(rng, 3, 2, 15) for s in range(2)}
    problem = drfl.Problem(loss, drfl.Ball(0.05, norm, 1.0), classes=3)
    turned = {name: (X, (y + 1.0) % 3) for name, (X, y) in data.items()}
    result, other = solved(problem, data), solved(problem, turned)
    np.testing.assert_allclose(result.objective, other.objective, rtol=3e-6)
    np.testing.assert_allclose(result.coef, np.roll(other.coef, -1, axis=0), atol=5e-3)
    np.testing.assert_allclose(result.coef.sum(axis=0), 0.0, atol=1e-9)


def test_a_run_is_resumed_and_written_down(tmp_path):
    rng = np.random.default_rng(7)
    data = {f"c{s}": rows(rng, 3, 2, 15) for s in range(2)}
    problem = drfl.Problem("logistic", drfl.Ball(0.05), classes=3)
    path = tmp_path / "run"
    solved(problem, data, max_rounds=3, checkpoint=path)
    resumed = solved(problem, data, checkpoint=path)
    straight = solved(problem, data)
    np.testing.assert_array_equal(resumed.coef, straight.coef)
    read = drfl.Result.from_json(resumed.to_json())
    np.testing.assert_array_equal(read.intercept, resumed.intercept)
    assert drfl.Problem.from_dict(problem.to_dict()) == problem


def test_without_a_radius_the_model_is_that_of_softmax_regression():
    rng = np.random.default_rng(8)
    X, y = rows(rng, 3, 2, 60, 0.5)
    problem = drfl.Problem("logistic", drfl.Ball(0.0), classes=3)
    result = solved(problem, {"all": (X, y)})
    from sklearn.linear_model import LogisticRegression

    plain = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(result.coef, plain.coef_ - plain.coef_.mean(axis=0), atol=2e-3)
    assert result.status.kind in ("local", "certified")


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"loss": "smooth_hinge"}, "have the losses"),
        ({"ball": drfl.Ball(0.1, support=drfl.Box(-1.0, 1.0))}, "leave out the support"),
        ({"shared_ball": True, "ball": drfl.Ball(0.1)}, "such cuts are of one score"),
        ({"classes": 1}, "classes must be None or"),
    ],
)
def test_what_has_no_closed_form_is_refused(wish, why):
    options = {"loss": "logistic", "ball": drfl.Ball(0.1), "classes": 3} | wish
    with pytest.raises(ValueError, match=why):
        drfl.Problem(options.pop("loss"), options.pop("ball"), **options)


def test_solvers_of_one_score_say_so():
    problem = drfl.Problem("logistic", drfl.Ball(0.1), classes=3)
    client = drfl.Client("a", [[0.0], [1.0], [2.0]], [0, 1, 2])
    for name in ("local", "admm", "ad_lpmm"):
        with pytest.raises(ValueError, match="several classes at once"):
            drfl.solve(problem, [client], solver=name)
    with pytest.raises(ValueError, match="labels 0 to 2"):
        drfl.solve(problem, [drfl.Client("a", [[0.0], [1.0]], [-1, 1])])


def test_guards_refuse_and_strict_clients_take_part():
    rng = np.random.default_rng(9)
    problem = drfl.Problem("logistic", drfl.Ball(0.1, "l2", 1.0), classes=3)
    X, y = rows(rng, 3, 2, 60)
    with pytest.raises(ValueError, match="a guard knows two classes"):
        drfl.solve(problem, [drfl.Client("a", X, y, guard=Guard(5))])
    strict = Policy(curvature=False, groups=False, dual_cuts=False)
    told = drfl.solve(problem, [drfl.Client("a", X, y, policy=strict)], tol=1e-3)
    free = drfl.solve(problem, [drfl.Client("a", X, y)], tol=1e-6)
    assert told.gap <= 1e-3
    assert told.lower_bound <= free.objective * (1 + 1e-9)
    np.testing.assert_allclose(told.objective, free.objective, rtol=1e-3)


def test_a_class_without_rows_anywhere_is_named():
    problem = drfl.Problem("logistic", drfl.Ball(0.1), classes=3)
    result = drfl.solve(problem, [drfl.Client("a", [[0.0], [1.0], [2.0]], [0, 1, 1])])
    assert result.status.kind == "failed"
    assert "class 2 has no rows" in result.status.message
