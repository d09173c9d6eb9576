"""Descent for the linf norm, and for many columns: certified optima, and what it is made of."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import drfl
from drfl.losses import Huber, Logistic, SmoothHinge
from drfl.rows import Rows
from drfl.solvers.local.descent import active_columns, search
from drfl.solvers.local.descent.active_columns import ActiveColumns, along, at_work
from drfl.solvers.local.descent.objective import Objective, Softened
from drfl.solvers.local.descent.second_derivative import of_products, with_norm
from drfl.solvers.local.program import AllRows
from drfl.worst_case import make_oracle

LOSSES = [Logistic(), SmoothHinge(), Huber(0.5)]
names = {"ids": lambda loss: loss.name}


def data(loss, N=200, n=12, seed=0, correlated=0.0, sparsely=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n)) + correlated * rng.normal(size=(N, 1))
    if sparsely:
        X = sparse.random_array((N, n), density=0.02, format="csr", rng=rng)
        X.data = rng.normal(size=X.nnz)
    rule = np.where(rng.random(n) < 0.4, rng.normal(size=n), 0.0)
    score = X @ rule + 0.5 + 0.5 * rng.normal(size=N)
    return X, score if loss.task == "regression" else np.where(score > 0.0, 1.0, -1.0)


def solved(loss, X, y, radius=0.02, tol=1e-6, norm="linf", intercept="shared", **options):
    problem = drfl.Problem(loss, drfl.Ball(radius, norm), intercept=intercept)
    return drfl.solve(problem, [drfl.Client("a", X, y, **options)], solver="local", tol=tol)


def check(loss, X, y, result, radius=0.02, tol=1e-6, norm="linf", **weights):
    """Certified by descent, with the exact objective, and as good as another method's."""
    ball = drfl.Ball(radius, norm)
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "descent"
    exact = make_oracle(Rows(X, y, **weights), loss, ball).evaluate(result.coef, result.intercept)
    rounding = 1e-7 if X.dtype == np.float32 else 1e-9
    assert result.objective == pytest.approx(exact.value, rel=rounding)
    client = drfl.Client("a", X, y, sample_weight=weights.get("weights"))
    other = drfl.solve(drfl.Problem(loss, ball), [client], tol=max(tol, 1e-6))
    assert result.lower_bound <= other.objective * (1.0 + rounding)
    assert other.lower_bound <= result.objective * (1.0 + rounding)


@pytest.mark.parametrize("radius", [1e-3, 0.02, 0.2])
@pytest.mark.parametrize("loss", LOSSES, **names)
@pytest.mark.sampled(2)
def test_the_optimum_of_the_linf_norm_is_certified(loss, radius):
    X, y = data(loss)
    check(loss, X, y, solved(loss, X, y, radius), radius)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("loss", LOSSES, **names)
def test_sparse_rows_with_more_columns_than_a_matrix_is_made_of(loss, norm):
    X, y = data(loss, N=900, n=400, sparsely=True)
    check(loss, X, y, solved(loss, X, y, 0.01, 1e-5, norm), 0.01, 1e-5, norm)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_more_columns_than_the_bundle_method_takes(norm):
    X, y = data(Logistic(), N=500, n=3000, sparsely=True)
    result = solved(Logistic(), X, y, 0.005, 1e-4, norm)
    check(Logistic(), X, y, result, 0.005, 1e-4, norm)


def test_a_first_step_that_is_far_too_long_is_taken_back():
    """Separable rows: beyond them nothing bends along w but the parabola above the norm."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5000))
    y = np.sign(X[:, :5].sum(axis=1) + rng.normal(size=100))
    result = solved(Logistic(), X, y, 0.03, 1e-5, "l2")
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "descent"


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_no_matrix_of_columns_times_columns(norm):
    """100,000 columns: it would have 80 GB."""
    X, y = data(Logistic(), N=300, n=50, sparsely=True)
    wide = sparse.csr_array((X.data, 1999 * X.indices, X.indptr), shape=(300, 100_000))
    result = solved(Logistic(), wide, y, 0.01, 1e-4, norm)
    few = solved(Logistic(), X, y, 0.01, 1e-8, norm)
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "descent"
    assert result.objective == pytest.approx(few.objective, rel=2e-4)
    assert result.lower_bound <= few.objective


@pytest.mark.parametrize("form", ["sparse", "float32", "weights", "fortran"])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], **names)
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


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_sparse_rows_of_several_clients_with_certain_weights(norm):
    parts = [data(Logistic(), N=200, n=350, seed=seed, sparsely=True) for seed in range(3)]
    clients = [drfl.Client(f"c{s}", *part) for s, part in enumerate(parts)]
    mixture = drfl.Mixture((0.5, 0.5, 0.0), radius=0.0)
    problem = drfl.Problem("logistic", drfl.Ball(0.01, norm), mixture)
    mine, other = drfl.solve(problem, clients, solver="local"), drfl.solve(problem, clients)
    assert mine.status.kind == "certified"
    assert mine.history[-1].info["method"] == "descent"
    assert mine.lower_bound <= other.objective
    assert other.lower_bound <= mine.objective


@pytest.mark.parametrize("loss", LOSSES, **names)
def test_a_radius_that_leaves_nothing(loss):
    X, y = data(loss)
    result = solved(loss, X, y, radius=100.0)
    assert not result.coef.any()
    check(loss, X, y, result, 100.0)


def test_cvxpy_agrees_without_an_intercept():
    X, y = data(Logistic())
    result = solved(Logistic(), X, y, tol=1e-9, intercept="none")
    assert result.history[-1].info["method"] == "descent"
    w = cp.Variable(X.shape[1])
    value = cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / len(y) + 0.02 * cp.norm(w, 1)
    optimum = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    assert result.objective == pytest.approx(optimum, rel=1e-7)
    assert result.lower_bound <= optimum * (1.0 + 1e-8)
    np.testing.assert_allclose(result.coef, w.value, atol=1e-4)


def test_it_is_logistic_regression_with_an_l1_penalty():
    X, y = data(Logistic(), N=500)
    result = solved(Logistic(), X, y, tol=1e-10)
    theirs = LogisticRegression(
        l1_ratio=1.0, C=1.0 / (0.02 * len(y)), solver="saga", tol=1e-10, max_iter=20_000
    ).fit(X, y)
    np.testing.assert_allclose(result.coef, theirs.coef_[0], atol=1e-5)
    assert (result.coef == 0.0).any()


def test_interior_points_take_over_where_steps_lead_nowhere(monkeypatch):
    monkeypatch.setattr(active_columns, "LONGEST", 2)
    result = solved(Huber(0.5), *data(Huber(0.5), correlated=3.0))
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "interior point"


def test_gradients_take_over_with_many_columns(monkeypatch):
    monkeypatch.setattr(active_columns, "LONGEST", 2)
    X, y = data(Logistic(), N=500, n=3000, sparsely=True)
    result = solved(Logistic(), X, y, 0.005, 1e-3)
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "first order"


def searching(loss, n=12):
    X, y = data(loss, n=n)
    problem = drfl.Problem(loss, drfl.Ball(0.02, "linf"))
    run = ActiveColumns(problem, ["a"], [Rows(X, y)], 1e-12)
    return run, Objective(run.program, run.whole, Softened(loss)), solved(loss, X, y)


@pytest.mark.parametrize("loss", LOSSES, **names)
def test_any_point_and_step_prove_something_true(loss):
    run, f, optimum = searching(loss)
    rng = np.random.default_rng(1)
    for size in (0.0, 0.01, 0.1, 1.0):
        near = np.append(optimum.coef, optimum.intercept) + size * rng.normal(size=f.d)
        step = -0.5 * size * rng.normal(size=f.d)
        bound = run._bound(f, f.at(near, f.scores(near)), f.scores(step))
        assert bound <= optimum.objective * (1.0 + 1e-12)
        if size == 0.0:
            assert bound == pytest.approx(optimum.objective, rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES, **names)
def test_a_step_keeps_signs_and_lowers_the_objective(loss):
    _, f, _ = searching(loss)
    x = np.append(np.where(np.arange(f.n) % 3, 0.3, 0.0), 0.1)
    at = f.at(x, f.scores(x))
    work = at_work(f, at)
    step = np.zeros(f.d)
    step[work.columns] = -20.0 * work.slope  # far too long: columns stop at 0
    found = along(f, at, step, f.scores(step), work)
    assert found is not None
    after = found[0].x
    assert after[work.columns] @ np.minimum(work.signs, 0.0) >= 0.0
    assert (after[: f.n] * np.sign(x[: f.n]) >= 0.0).all()
    assert found[0].value + f.rho * f.norm(after) < at.value + f.rho * f.norm(x)
    assert found[0].scores == pytest.approx(f.scores(after), abs=1e-12)


def test_nothing_is_at_work_at_the_optimum_but_what_is_used():
    _, f, optimum = searching(Logistic())
    x = np.append(optimum.coef, optimum.intercept)
    work = at_work(f, f.at(x, f.scores(x)))
    used = np.append(np.flatnonzero(optimum.coef), f.n)
    np.testing.assert_array_equal(work.columns, used)
    assert np.abs(work.slope).max() <= 1e-3 * f.rho


def test_conjugate_gradients_solve_the_system(monkeypatch):
    monkeypatch.setattr("drfl.solvers.local.descent.second_derivative.ACCURATE", 1e-9)
    rng = np.random.default_rng(0)
    A, w, r = rng.normal(size=(20, 4)), rng.normal(size=3), rng.normal(size=4)
    H, price, unit = A.T @ A, 0.7, w / np.linalg.norm(w)
    whole = H.copy()
    whole[:3, :3] += price * (np.eye(3) - np.outer(unit, unit))
    solve = of_products(*with_norm(lambda v: H @ v, np.diag(H), w, price))
    np.testing.assert_allclose(solve(r), np.linalg.solve(whole, r), rtol=1e-6)
    assert not of_products(lambda v: 0.0 * v, np.zeros(4))(r).any()  # flat: no step is taken


def test_products_leave_out_rows_that_do_not_bend():
    X, y = data(SmoothHinge(), N=300)
    problem = drfl.Problem("smooth_hinge", drfl.Ball(0.02, "l2"))
    rows = [Rows(X[:200], y[:200]), Rows(X[200:], y[200:])]
    run = search.DescentSearch(problem, ["a", "b"], rows, 1e-6)
    f = Objective(run.program, run.whole, Softened(SmoothHinge()))
    x = 3.0 * np.random.default_rng(0).normal(size=f.d)
    at, v = f.at(x, f.scores(x)), np.random.default_rng(1).normal(size=f.d)
    assert 0 < np.count_nonzero(f.curvature(at)) < 150
    expected = f.hessian(at, careful=False) @ v
    np.testing.assert_allclose(f.products(at, careful=False)(v), expected, rtol=1e-9, atol=1e-12)


def test_a_few_rows_as_an_operator():
    X, y = data(Logistic(), N=30)
    rows = [Rows(X[:10], y[:10]), Rows(X[10:15], y[10:15]), Rows(X[15:], y[15:])]
    whole = AllRows(drfl.Problem("logistic", drfl.Ball(0.1)), ["a", "b", "c"], rows)
    assert len(whole.y) == 30
    chosen = np.array([2, 7, 15, 29])  # none of the second client
    few, w, v = whole.some(chosen), np.ones(12), np.arange(4.0)
    np.testing.assert_allclose(few.scores(w, 0.5), X[chosen] @ w + 0.5)
    np.testing.assert_allclose(few.combine(v)[0], X[chosen].T @ v)
    assert few.size == len(few.y) == 4


def test_nothing_to_move_without_an_intercept():
    X, y = data(Logistic())
    result = solved(Logistic(), X, y, radius=10.0, intercept="none")
    assert result.status.kind == "certified"
    assert not result.coef.any()
    assert result.objective == pytest.approx(np.log(2.0))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_columns_far_from_0_are_no_end_of_the_run(form):
    X, y = data(Logistic())
    result = solved(Logistic(), X, y)
    far = X + 1e8
    moved = solved(Logistic(), form(far), y, tol=1e-4, shift=np.full(12, 1e8), scale=np.ones(12))
    assert moved.status.kind == "certified"
    assert moved.objective == pytest.approx(result.objective, rel=1e-3)
