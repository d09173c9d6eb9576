"""A largest weight: Q with it against linear programs, and problems against typed ones."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import drfl
from drfl import Ball, Client, Mixture, Problem
from drfl.problem import to_json
from drfl.solvers import StatusKind
from kit.lossy import ChangingEngine


def cases(count=150):
    rng = np.random.default_rng(5)
    for k in range(count):
        S = int(rng.integers(2, 8))
        center = rng.exponential(size=S)
        center /= center.sum()
        most = center.max() + rng.choice([0.0, 0.1, 0.9]) * (1.0 - center.max())
        radius = (0.0, 1e-3, 0.1, 0.5, 1.2, math.inf)[k % 6]
        z = rng.normal(size=S)
        z = np.round(2.0 * z) if k % 3 == 0 else z
        yield Mixture(center, radius, (1, math.inf)[k // 6 % 2], most), z, rng


def linear_program(mixture, z):
    """max q'z over Q, typed: q, and |q - center| if the norm is l1."""
    c, S, radius = mixture.weights, len(z), min(mixture.radius, 10.0)
    if mixture.p == 1:
        one, none = np.eye(S), np.zeros((1, S))
        A = np.block([[one, -one], [-one, -one], [none, np.ones((1, S))]])
        bounds = [(0, mixture.max_weight)] * S + [(0, None)] * S
        whole = np.append(np.ones(S), np.zeros(S))[None]
        cost = np.append(-z, np.zeros(S))
        return -linprog(cost, A, np.r_[c, -c, radius], whole, [1.0], bounds).fun
    bounds = [(max(0.0, q - radius), min(mixture.max_weight, q + radius)) for q in c]
    return -linprog(-z, A_eq=np.ones(S)[None], b_eq=[1.0], bounds=bounds).fun


def test_worst_weights_solve_the_linear_program():
    for mixture, z, _ in cases():
        q = mixture.worst_weights(z)
        assert mixture.contains(q, 1e-12)
        assert mixture.support(z) == pytest.approx(linear_program(mixture, z), abs=1e-8)


def test_the_projection_satisfies_its_inequality():
    """(v - u)'(q - u) <= 0 for every q of Q, by the support function."""
    for mixture, _, rng in cases():
        v = rng.normal(size=len(mixture.weights))
        u = mixture.project(v)
        assert mixture.contains(u, 1e-10)
        assert mixture.support(v - u) <= (v - u) @ u + 1e-9


def test_what_is_pulled_is_in_q_and_what_is_in_q_stays():
    for mixture, z, rng in cases():
        assert mixture.contains(mixture.pull(rng.random(len(z))), 1e-12)
        q = mixture.worst_weights(z)
        np.testing.assert_allclose(mixture.pull(q), q, atol=1e-12)


def rows(seed=0, liar=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, 30, 3))
    y = np.where(X @ [1.0, -0.5, 0.8] + 0.5 * rng.normal(size=(4, 30)) > 0.0, 1.0, -1.0)
    if liar is not None:
        y[liar] *= -1.0
    return X, y


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("radius", "p"), [(0.3, 1), (0.2, math.inf), (math.inf, 2), (0.0, 2)])
@pytest.mark.sampled(2)
def test_a_certified_value_is_that_of_the_typed_program(radius, p, seed):
    """Hinge losses with a ball in l1: h by its dual with one price of the cap per client."""
    cp = pytest.importorskip("cvxpy")
    X, y = rows(seed, liar=1)
    center, most, rho = np.array([0.1, 0.2, 0.3, 0.4]), 0.45, 0.05
    w, b, u = cp.Variable(3), cp.Variable(), cp.Variable(4)
    a, eta, gamma = cp.Variable(4, nonneg=True), cp.Variable(4, nonneg=True), cp.Variable()
    losses = [cp.sum(cp.pos(1 - cp.multiply(y[s], X[s] @ w + b))) / 30 for s in range(4)]
    on = [u[s] >= losses[s] + rho * cp.norm(w, "inf") for s in range(4)]
    if radius == 0.0:
        h = center @ u
    elif math.isinf(radius):
        h = cp.max(u - a) + most * cp.sum(a)
    else:
        raised = u - a + eta
        length = cp.norm(raised + gamma, "inf" if p == 1 else 1)
        h = center @ raised + radius * length + most * cp.sum(a)
    best = cp.Problem(cp.Minimize(h), on).solve()
    problem = Problem("hinge", Ball(rho, "l1"), Mixture(center, radius, p, most))
    clients = [Client(f"c{s}", X[s], y[s]) for s in range(4)]
    result = drfl.solve(problem, clients, tol=1e-6)
    assert result.status.kind is StatusKind.CERTIFIED
    assert result.objective == pytest.approx(best, rel=3e-6)
    assert max(result.weights.values()) <= most + 1e-9


def test_a_client_with_wrong_labels_gets_no_more_than_the_cap():
    X, y = rows(liar=1)
    clients = [Client(f"c{s}", X[s], y[s]) for s in range(4)]
    free = drfl.solve(Problem("logistic", Ball(0.02), Mixture(radius=0.5)), clients)
    assert free.weights["c1"] > 0.4
    capped = Problem("logistic", Ball(0.02), Mixture(radius=0.5, max_weight=0.3))
    result = drfl.solve(capped, clients)
    assert result.status.kind is StatusKind.CERTIFIED
    assert max(result.weights.values()) <= 0.3 + 1e-9


def test_who_is_left_holds_the_weight():
    """After the loss of clients a cap below their share would leave Q empty."""
    X, y = rows()
    clients = [Client(f"c{s}", X[s], y[s]) for s in range(4)]
    engine = ChangingEngine(lambda name, r: None if name in ("c0", "c1") else r)
    problem = Problem("logistic", Ball(0.02), Mixture(radius=0.5, max_weight=0.3))
    result = drfl.solve(problem, clients, engine=engine, max_rounds=60)
    assert result.status.kind in (StatusKind.PARTIAL, StatusKind.FAILED)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"center": [0.7, 0.3], "max_weight": 0.6}, "at least the largest weight"),
        ({"radius": 0.3, "p": 2, "max_weight": 0.6}, "goes with p = 1"),
        ({"max_weight": 0.0}, "max_weight"),
    ],
)
def test_what_cannot_be_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Mixture(**settings)


def test_too_few_clients_for_a_cap_are_refused():
    with pytest.raises(ValueError, match="at least the largest weight"):
        Mixture(radius=1.0, max_weight=0.2).resolve([10, 10, 10])


@pytest.mark.parametrize("solver", ["local", "admm", "ad_lpmm"])
def test_other_solvers_refuse_a_cap_before_any_work(solver):
    X, y = rows()
    clients = [Client(f"c{s}", X[s], y[s]) for s in range(4)]
    problem = Problem("hinge", Ball(0.02), Mixture(radius=0.5, max_weight=0.3))
    with pytest.raises(ValueError, match="take solver='bundle'"):
        drfl.solve(problem, clients, solver=solver)


def test_it_is_written_down_only_where_there_is_one():
    plain, capped = (
        Problem("hinge", Ball(0.1), Mixture(radius=0.5, max_weight=m)) for m in (math.inf, 0.4)
    )
    assert set(plain.to_dict()["mixture"]) == {"center", "radius", "p"}
    assert to_json(capped.to_dict())["mixture"]["max_weight"] == 0.4
    assert Problem.from_dict(capped.to_dict()) == capped
    assert Problem.from_dict(plain.to_dict()) == plain


@pytest.mark.parametrize("center", ["uniform", "proportional", [0.1, 0.2, 0.3, 0.4]])
def test_some_of_the_clients_hold_all_of_the_weight(center):
    """One left out, as in a report or a validation: proportions stay, the cap makes room."""
    mixture = Mixture(center, radius=1.0, max_weight=0.45)
    sizes = [10, 20, 30, 40]
    for sizes_known in (True, False):
        if not sizes_known and center == "proportional":
            continue
        part = mixture.among([2, 3], sizes if sizes_known else None)
        resolved = part.resolve(sizes[2:])
        whole = mixture.resolve(sizes).weights[2:]
        np.testing.assert_allclose(resolved.weights, whole / whole.sum())
        assert resolved.max_weight == max(0.45, resolved.weights.max())
    assert mixture.among([0, 1, 2, 3], sizes).resolve(sizes).max_weight == 0.45


@pytest.mark.parametrize("kind", [drfl.DRFLClassifier, drfl.DRFLRegressor])
def test_estimators_take_it(kind):
    X, y = rows(liar=1)
    clients = np.repeat([f"c{s}" for s in range(4)], 30)
    flat = X.reshape(-1, 3), y.reshape(-1)
    model = kind(radius=0.02, mixture_radius=1.0, max_weight=0.3).fit(*flat, clients)
    assert model.problem_.mixture.max_weight == 0.3
    assert model.client_weights_.max() <= 0.3 + 1e-9
    with pytest.raises(ValueError, match="max_weight must be"):
        kind(max_weight=-1.0).fit(*flat, clients)
    with pytest.raises(ValueError, match="at least the largest weight"):
        kind(max_weight=0.2).fit(*flat, clients)
    with pytest.raises(ValueError, match="take solver='bundle'"):
        kind(max_weight=0.3, solver="local").fit(*flat, clients)
