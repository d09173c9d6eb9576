"""Several classes at once whose clients have intercepts of their own."""

import numpy as np
import pytest

import drfl
from drfl.curves import Curves
from kit.joint_referee import JointReferee

NORMS = ("l1", "l2", "linf")
SHIFTS = ([1.5, 0.0, -1.0], [-1.0, 0.0, 1.0], [0.0, 0.5, 0.0])


def shifted(seed, N=40, n=3, K=3, clients=3):
    """Rows of clients that share W, and whose classes are differently frequent."""
    rng = np.random.default_rng(seed)
    W, data = rng.normal(size=(K, n)), {}
    for s in range(clients):
        X = rng.normal(size=(N, n))
        z = X @ W.T + np.resize(SHIFTS[s % 3], K) + rng.gumbel(size=(N, K))
        data[f"c{s}"] = (X, z.argmax(axis=1).astype(float))
    return data


def solved(problem, data, **options):
    clients = [drfl.Client(name, X, y) for name, (X, y) in data.items()]
    return drfl.solve(problem, clients, **{"tol": 1e-6, "max_rounds": 100} | options)


def stated(loss="logistic", norm="l1", radius=0.05, classes=3, **more):
    mixture = drfl.Mixture("uniform", 0.3, 1)
    ball = drfl.Ball(radius, norm)
    return drfl.Problem(loss, ball, mixture, classes=classes, intercept="per_client", **more)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.sampled(2)
def test_the_referee_finds_nothing_wrong(norm, loss):
    data, problem = shifted(len(norm), 12), stated(loss, norm)
    result = solved(problem, data)
    assert result.status.kind == "certified"
    referee = JointReferee.of(problem, data)
    best = referee.optimum()
    assert referee.judge(result, 1e-6, best) == []
    np.testing.assert_allclose(result.objective, best, rtol=2e-6)


def drawn(seed):
    """Scales from 0.001 to 1000; some clients have no row of a class, or rows of one only."""
    rng = np.random.default_rng(seed)
    K, n, S = (int(rng.integers(low, high)) for low, high in ((2, 5), (1, 4), (1, 4)))
    scale, data = 10.0 ** rng.integers(-3, 4), {}
    for s, (name, (X, y)) in enumerate(shifted(seed, int(rng.integers(4, 25)), n, K, S).items()):
        if s and rng.random() < 0.3:
            y = np.full(len(y), float(s % K))
        if s == 0 and len(set(y)) == 1:  # of an optimum of 0 no share can be proved
            y[0] = (y[0] + 1.0) % K
        data[name] = (scale * X, y)
    loss, norm = str(rng.choice(["logistic", "hinge"])), str(rng.choice(NORMS))
    return stated(loss, norm, scale * float(rng.choice([0.01, 0.1, 1.0])), K), data


def is_right(seed):
    problem, data = drawn(seed)
    result = solved(problem, data)
    wrong = JointReferee.of(problem, data).judge(result, 1e-6)
    assert wrong == [], (seed, wrong)
    return result.status.kind == "certified"


def test_random_problems_are_judged_right():
    assert np.mean([is_right(seed) for seed in range(8)]) >= 0.85


@pytest.mark.slow
def test_two_hundred_certificates_hold():
    assert np.mean([is_right(seed) for seed in range(100, 300)]) >= 0.9


def test_columns_far_from_zero_do_not_silence_anyone():
    """Of one row, or of a column that hardly varies, the intercepts' curvature takes nearly all."""
    data = {name: (X[:12] + 4e5, y[:12]) for name, (X, y) in shifted(1, n=1).items()}
    data["c1"] = tuple(part[:1] for part in data["c1"])
    result = solved(stated(radius=0.5), data)
    assert not any(record.failures for record in result.history)
    assert JointReferee.of(stated(radius=0.5), data).judge(result, 1e-6) == []


def test_two_classes_are_the_logistic_loss_of_one_score():
    data = shifted(5, 30, K=2)
    joint = solved(stated(classes=2), data)
    signed = {name: (X, 2.0 * y - 1.0) for name, (X, y) in data.items()}
    one = solved(stated(classes=None), signed)
    assert joint.objective == pytest.approx(one.objective, rel=2e-6)
    for name in data:
        assert np.diff(joint.intercepts[name]) == pytest.approx(one.intercepts[name], abs=5e-3)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_classes_may_change_their_order(loss):
    data = shifted(2, 30)
    first = solved(stated(loss), data)
    turned = {name: (X, (y + 1.0) % 3.0) for name, (X, y) in data.items()}
    second = solved(stated(loss), turned)
    assert second.objective == pytest.approx(first.objective, rel=2e-6)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_an_engine_a_crash_and_less_curvature_give_the_same(loss, tmp_path):
    data, problem = shifted(4, 40), stated(loss)
    first = solved(problem, data)
    path = tmp_path / "run.ckpt"
    solved(problem, data, max_rounds=3, checkpoint=path)
    again = solved(problem, data, checkpoint=path)
    assert again.coef == pytest.approx(first.coef, abs=0.0)
    plain = [
        drfl.Client(name, X, y, policy=drfl.Policy(curvature=False, dual_cuts=False))
        for name, (X, y) in data.items()
    ]
    strict = drfl.solve(problem, plain, tol=1e-4, max_rounds=300)
    assert strict.objective == pytest.approx(first.objective, rel=2e-4)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_clients_who_all_have_one_class_lose_nothing(loss):
    rows = shifted(0).values()
    data = {f"c{s}": (X, np.full(len(y), float(s))) for s, (X, y) in enumerate(rows)}
    result = solved(stated(loss), data)
    assert result.status.kind == "certified"
    assert result.objective == pytest.approx(0.0, abs=1e-9)


def test_curves_have_own_intercepts_too():
    data = shifted(6, 40)
    knots = Curves(((-0.5, 0.5), (), (0.0,)))
    result = solved(stated(curves=knots), data)
    assert result.status.kind == "certified"
    assert result.objective < solved(stated(), data).objective + 1e-6
    clients = {name: drfl.Client(name, X, y) for name, (X, y) in data.items()}
    for name, client in clients.items():
        oracle = stated(curves=knots).oracle(client.rows, name)
        worst = oracle.evaluate(result.coef, result.intercepts[name]).value
        assert worst <= result.client_losses[name] * (1.0 + 1e-9)


def test_where_labels_move_it_is_refused():
    with pytest.raises(ValueError, match="intercepts per client only if labels stay"):
        drfl.Problem("logistic", drfl.Ball(0.1, "l1", 1.0), classes=3, intercept="per_client")
