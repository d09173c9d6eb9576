"""Descent for the l2 norm: certified optima, against cvxpy, scikit-learn and the other methods."""

import math
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import drfl
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, SmoothHinge
from drfl.rows import Rows
from drfl.solvers.local.descent import active_rows, search
from drfl.solvers.local.descent.objective import Softened
from drfl.solvers.local.descent.second_derivative import StepPairs, of_diagonal, of_matrix
from drfl.worst_case import make_oracle

SMOOTH = [Logistic(), SmoothHinge(), Huber(0.5)]
SHARP = [Hinge(), Pinball(0.3), EpsilonInsensitive(0.1)]
names = {"ids": lambda loss: loss.name}


def data(loss, N=200, n=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n)) @ (np.eye(n) + 0.3 * rng.normal(size=(n, n)))
    score = X @ rng.normal(size=n) + 0.5 + rng.normal(size=N)
    return X, score if loss.task == "regression" else np.where(score > 0.0, 1.0, -1.0)


def solved(loss, X, y, radius=0.05, tol=1e-6, intercept="shared", **options):
    problem = drfl.Problem(loss, drfl.Ball(radius, "l2"), intercept=intercept)
    return drfl.solve(problem, [drfl.Client("a", X, y, **options)], solver="local", tol=tol)


def check(loss, X, y, result, radius=0.05, tol=1e-6, **weights):
    """Certified by this method, with the exact objective, and as good as the bundle method's."""
    ball = drfl.Ball(radius, "l2")
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "descent"
    exact = make_oracle(Rows(X, y, **weights), loss, ball).evaluate(result.coef, result.intercept)
    rounding = 1e-7 if X.dtype == np.float32 else 1e-9
    assert result.objective == pytest.approx(exact.value, rel=rounding)
    client = drfl.Client("a", X, y, sample_weight=weights.get("weights"))
    other = drfl.solve(drfl.Problem(loss, ball), [client], tol=tol)
    assert result.lower_bound <= other.objective * (1.0 + rounding)
    assert other.lower_bound <= result.objective * (1.0 + rounding)


@pytest.mark.parametrize("radius", [1e-4, 0.05, 0.5])
@pytest.mark.parametrize("loss", [*SMOOTH, *SHARP], **names)
@pytest.mark.sampled(2)
def test_the_optimum_is_certified(loss, radius):
    X, y = data(loss)
    check(loss, X, y, solved(loss, X, y, radius), radius)


@pytest.mark.parametrize("loss", [*SMOOTH, *SHARP], **names)
def test_many_rows_begin_with_a_sample(loss, monkeypatch):
    monkeypatch.setattr(search, "SAMPLE", 100)
    X, y = data(loss, N=3000)
    check(loss, X, y, solved(loss, X, y, tol=1e-5), tol=1e-5)


@pytest.mark.parametrize("loss", SMOOTH, **names)
def test_gradients_with_many_columns(loss, monkeypatch):
    monkeypatch.setattr(search, "SMALL", 3)
    X, y = data(loss, N=300, n=12)
    check(loss, X, y, solved(loss, X, y))


@pytest.mark.parametrize("loss", SMOOTH, **names)
def test_more_columns_than_rows(loss):
    X, y = data(loss, N=30, n=70)
    check(loss, X, y, solved(loss, X, y))


CORNER = [Hinge(), Pinball(0.3)]


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (90, 60)], ids=str)
@pytest.mark.parametrize("loss", CORNER, **names)
@pytest.mark.sampled(6)
def test_few_rows_per_column_in_or_beside_the_corner(loss, shape):
    X, y = data(loss, *shape)
    check(loss, X, y, solved(loss, X, y, 0.1), 0.1)


@pytest.mark.parametrize("form", ["sparse", "weights", "equal", "float32"])
@pytest.mark.parametrize("loss", CORNER, **names)
@pytest.mark.sampled(2)
def test_few_rows_of_every_form(loss, form):
    X, y = data(loss, N=40, n=50)
    X = np.where(np.abs(X) < 1.0, 0.0, X) if form == "sparse" else X
    if form == "equal":  # columns that are the same, rows that are the same, and one of zeros
        X[:, 1], X[3], y[3], X[5] = X[:, 0], X[2], y[2], 0.0
    weight = 1 + np.arange(len(y)) % 4 if form == "weights" else None
    forms = {"sparse": sparse.csr_array, "float32": np.float32}
    given, tol = forms.get(form, np.asarray)(X), 1e-4 if form == "float32" else 1e-6
    result = solved(loss, given, y, 0.2, tol=tol, sample_weight=weight)
    check(loss, given, y, result, 0.2, tol=tol, weights=weight)


@pytest.mark.parametrize("loss", CORNER, **names)
def test_few_rows_without_an_intercept_have_the_optimum_of_cvxpy(loss):
    X, y = data(loss, N=40, n=50)
    result = solved(loss, X, y, 0.2, tol=1e-8, intercept="none")
    assert result.history[-1].info["method"] == "descent"
    w = cp.Variable(50)
    z = cp.multiply(y, X @ w) if loss.task == "classification" else X @ w - y
    lines = cp.maximum(*(line.slope * z + line.constant for line in loss.pieces))
    price = 0.2 * loss.lipschitz
    optimum = cp.Problem(cp.Minimize(cp.sum(lines) / 40 + price * cp.norm(w, 2))).solve()
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert result.objective == pytest.approx(optimum, rel=1e-7)


def test_few_rows_of_several_clients():
    parts = [data(Hinge(), N=20, n=50, seed=seed) for seed in range(3)]
    clients = [drfl.Client(f"c{s}", *part) for s, part in enumerate(parts)]
    problem = drfl.Problem("hinge", drfl.Ball(0.2, "l2"), drfl.Mixture("uniform", radius=0.0))
    mine, other = drfl.solve(problem, clients, solver="local"), drfl.solve(problem, clients)
    assert mine.history[-1].info["method"] == "descent"
    assert mine.lower_bound <= other.objective
    assert other.lower_bound <= mine.objective


def test_interior_points_take_over_where_the_corner_is_not_settled(monkeypatch):
    monkeypatch.setattr(active_rows, "STEPS", 2)
    X, y = data(Hinge(), N=60, n=40)
    result = solved(Hinge(), X, y, 0.1)
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "interior point"


@pytest.mark.parametrize("loss", CORNER, **names)
def test_any_step_of_few_rows_proves_something_true(loss):
    X, y = data(loss, N=60, n=40, seed=3)
    ball, rows = drfl.Ball(0.1, "l2"), Rows(X, y)
    optimum = solved(loss, X, y, 0.1, tol=1e-8)
    run = search.DescentSearch(drfl.Problem(loss, ball), ["a"], [rows], 1e-12)
    bounds = []
    for w, b, z, v in active_rows.ActiveRows(run.program, run.whole).models():
        exact = make_oracle(rows, loss, ball).evaluate(w, b).value
        assert run.whole.evaluate(run.program, w, b, z).objective == pytest.approx(exact, rel=1e-9)
        bounds.append(run._bound_of(v))
    assert max(bounds) <= optimum.objective * (1.0 + 1e-12)
    assert max(bounds) == pytest.approx(optimum.objective, rel=1e-6)


@pytest.mark.parametrize("loss", SMOOTH, **names)
def test_correlated_columns_are_left_to_newton(loss, monkeypatch):
    monkeypatch.setattr(search, "SMALL", 3)
    rng = np.random.default_rng(1)
    X, y = data(loss, N=300, n=12)
    X = X + 30.0 * rng.normal(size=(300, 1))
    check(loss, X, y, solved(loss, X, y))


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), Hinge()], **names)
@pytest.mark.parametrize("form", ["sparse", "float32", "weights", "fortran"])
@pytest.mark.sampled(2)
def test_rows_of_every_form(loss, form):
    X, y = data(loss)
    X = np.where(np.abs(X) < 1.0, 0.0, X) if form == "sparse" else X
    weight = np.arange(len(y)) % 4 if form == "weights" else None
    forms = {"sparse": sparse.csr_array, "float32": np.float32, "fortran": np.asfortranarray}
    given = forms.get(form, np.asarray)(X)
    tol = 1e-4 if form == "float32" else 1e-6
    result = solved(loss, given, y, tol=tol, sample_weight=weight)
    check(loss, given, y, result, tol=tol, weights=weight)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), Hinge()], **names)
def test_clients_with_certain_weights(loss):
    parts = [data(loss, N=100, seed=seed) for seed in range(3)]
    clients = [drfl.Client(f"c{s}", *part) for s, part in enumerate(parts)]
    problem = drfl.Problem(loss, drfl.Ball(0.05, "l2"), drfl.Mixture("uniform", radius=0.0))
    mine = drfl.solve(problem, clients, solver="local")
    other = drfl.solve(problem, clients)
    assert mine.history[-1].info["method"] == "descent"
    assert mine.lower_bound <= other.objective
    assert other.lower_bound <= mine.objective
    assert sum(mine.client_losses.values()) / 3 == pytest.approx(mine.objective, rel=1e-12)


@pytest.mark.parametrize("loss", [*SMOOTH, Hinge()], **names)
def test_a_radius_that_leaves_nothing(loss):
    X, y = data(loss)
    result = solved(loss, X, y, radius=100.0)
    assert result.status.kind == "certified"
    assert np.abs(result.coef).max() <= 1e-6
    check(loss, X, y, result, 100.0)


def test_cvxpy_agrees():
    X, y = data(Logistic())
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    value = cp.sum(cp.logistic(-cp.multiply(y, X @ w + b))) / len(y) + 0.05 * cp.norm(w, 2)
    optimum = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    result = solved(Logistic(), X, y, tol=1e-8)
    assert result.objective == pytest.approx(optimum, rel=1e-7)
    assert result.lower_bound <= optimum * (1.0 + 1e-8)
    np.testing.assert_allclose(result.coef, w.value, atol=1e-4)


def test_it_is_logistic_regression_with_the_matching_penalty():
    X, y = data(Logistic(), N=500)
    result = solved(Logistic(), X, y, tol=1e-10)
    C = np.linalg.norm(result.coef) / (0.05 * len(y))
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(result.coef, theirs.coef_[0], atol=1e-5)
    assert result.intercept == pytest.approx(theirs.intercept_[0], abs=1e-5)


@pytest.mark.parametrize(("loss", "width"), [*product(SMOOTH, [0.0]), *product(SHARP, [0.1, 1e-3])])
def test_softened_losses_and_their_derivatives(loss, width):
    soft, z, h = Softened(loss, width), np.linspace(-3.0, 3.0, 1201) + 1e-4, 1e-6
    value, slope = soft.value_and_slope(z)
    ahead, slope_ahead = soft.value_and_slope(z + h)
    behind, slope_behind = soft.value_and_slope(z - h)
    np.testing.assert_allclose((ahead - behind) / (2.0 * h), slope, atol=1e-4)
    bent = soft.curvature(z, slope)
    near = np.abs(slope_ahead - slope_behind) / (2.0 * h)
    assert np.median(np.abs(near - bent)) <= 1e-5
    low, high = loss.slope_range
    assert (slope >= low - 1e-12).all()
    assert (slope <= high + 1e-12).all()
    assert (loss.value(z) <= value + 1e-12).all()
    assert (value <= loss.value(z) + width * math.log(3.0) + 1e-12).all()


def test_parabolas_stay_above_the_huber_loss():
    loss, every = Huber(0.5), np.linspace(-6.0, 6.0, 601)
    for z in (-4.0, -0.3, 0.0, 0.2, 0.8, 3.0):
        value, slope = loss.value_and_slope(np.array([z]))
        steep = Softened(loss).steepness(np.array([z]), slope)
        above = value + slope * (every - z) + 0.5 * steep * (every - z) ** 2
        assert (loss.value(every) <= above + 1e-12).all()


def test_the_inverse_of_the_second_derivative():
    rng = np.random.default_rng(0)
    A, w, r = rng.normal(size=(20, 4)), rng.normal(size=3), rng.normal(size=4)
    H, price, unit = A.T @ A, 0.7, w / np.linalg.norm(w)
    whole = H.copy()
    whole[:3, :3] += price * (np.eye(3) - np.outer(unit, unit))
    np.testing.assert_allclose(of_matrix(H, w, price)(r), np.linalg.solve(whole, r), rtol=1e-6)


def test_pairs_satisfy_the_secant_equation():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 4))
    H, pairs, base = A.T @ A, StepPairs(), of_diagonal(np.ones(4), 3, 0.5)
    for step in rng.normal(size=(6, 4)):
        pairs.observe(step, H @ step)
        np.testing.assert_allclose(pairs.solve(H @ step, base), step, rtol=1e-9)


@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("weighing", [1, 500])
def test_clients_of_which_a_sample_may_have_no_row(loss, weighing):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000 + weighing, 3))
    y = np.where(X.sum(axis=1) + rng.normal(size=len(X)) > 0.0, 1.0, -1.0)
    first = (np.arange(weighing) == 0).astype(float)
    clients = [
        drfl.Client("many", X[weighing:], y[weighing:]),
        drfl.Client("one", X[:weighing], y[:weighing], sample_weight=first),
    ]
    problem = drfl.Problem(loss, drfl.Ball(0.01, "l2"), mixture=drfl.Mixture(radius=0.0))
    assert drfl.solve(problem, clients, solver="local").status.kind == "certified"
