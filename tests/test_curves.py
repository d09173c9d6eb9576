"""Additive models: ramps are an isometry, and the optimum with curves is that of cvxpy."""

import math
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from drfl import Ball, Client, Mixture, Problem, solve
from drfl.curves import SHAPES, Curves
from drfl.norms import L1, GroupedLInf
from drfl.rows import Rows

RULES = [
    (),
    ("increasing",),
    ("decreasing",),
    ("convex",),
    ("concave",),
    ("flat ends",),
    ("increasing", "convex"),
    ("decreasing", "convex"),
    ("increasing", "concave"),
    ("increasing", "flat ends"),
]


def _curves(rng, n=3, shapes=()):
    knots = [np.sort(rng.normal(size=k)) for k in (3, 0, 2)[:n]]
    return Curves([list(k) for k in knots], shapes)


def _ramp(x, knots):
    """One by one, as the definition has it."""
    if not len(knots):
        return [x]
    inner = [min(max(x, a), b) - a for a, b in pairwise(knots)]
    return [min(x - knots[0], 0.0), *inner, max(x - knots[-1], 0.0)]


# ---------------------------------------------------------------------------- ramps
def test_ramps_are_an_isometry_of_l1_and_as_defined():
    rng = np.random.default_rng(0)
    curves = _curves(rng)
    A, B = 2.0 * rng.normal(size=(2, 50, 3))
    apart = np.abs(curves.expand(A) - curves.expand(B)).sum(axis=1)
    np.testing.assert_allclose(apart, np.abs(A - B).sum(axis=1), rtol=1e-12)
    rows = [np.concatenate([_ramp(x, k) for x, k in zip(a, curves.knots, strict=True)]) for a in A]
    np.testing.assert_allclose(curves.expand(A), rows, atol=1e-15)


def test_a_curve_has_the_slopes_of_its_coefficients():
    rng = np.random.default_rng(1)
    curves = _curves(rng)
    s, h = rng.normal(size=curves.n_slopes), 1e-6
    ends = np.array([-9.0, *curves.knots[0], 9.0])
    middles = (ends[1:] + ends[:-1]) / 2.0
    rise = curves.value(0, s, middles + h) - curves.value(0, s, middles - h)
    np.testing.assert_allclose(rise / (2.0 * h), s[curves.of(0)], rtol=1e-6)
    assert abs(curves.value(0, s, ends[1:2])[0]) < 1e-15


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_ramped_rows_are_the_rows_of_ramps(kind):
    """Scaled, in many blocks, with weights: every operation of Rows is that of the ramps."""
    rng = np.random.default_rng(2)
    N = 150_000 if kind == "dense" else 500
    X = rng.normal(size=(N, 3)) * (rng.random((N, 3)) < 0.4)
    y, shift, scale = rng.normal(size=N), rng.normal(size=3), 0.5 + rng.random(3)
    curves = _curves(rng)
    data = {"dense": X, "float32": X.astype(np.float32), "sparse": sparse.csr_array(X)}[kind]
    rows = Rows(data, y, weights=rng.random(N) + 0.1, shift=shift, scale=scale).ramped(curves)
    P = curves.expand((X - shift) / scale)
    tol = 3e-4 if kind == "float32" else 1e-9
    w, v, some = rng.normal(size=P.shape[1]), rng.random(N), np.arange(3, 90, 7)
    assert len(list(rows.blocks())) > (kind == "dense")
    np.testing.assert_allclose(rows.take(some), P[some], atol=tol)
    np.testing.assert_allclose(rows.scores(w, 0.3), P @ w + 0.3, atol=tol)
    np.testing.assert_allclose(rows.combine(v)[0], v @ P, rtol=tol, atol=tol * N)
    np.testing.assert_allclose(rows.combine_some(some, v[some])[0], v[some] @ P[some], atol=tol * 9)
    np.testing.assert_allclose(rows.moments()[0], rows.p @ P, atol=tol)
    np.testing.assert_allclose(rows.moments()[1], rows.p @ P**2, atol=tol)
    full = np.column_stack([P, np.ones(N)])
    np.testing.assert_allclose(rows.gram(v), (full * v[:, None]).T @ full, rtol=tol, atol=tol * N)
    group = np.array([v[k::3] @ P[k::3] for k in range(3)])
    np.testing.assert_allclose(rows.group_sums(v, 3)[0], group, rtol=tol, atol=tol * N)


def test_what_cannot_be_a_curve_is_refused():
    with pytest.raises(ValueError, match="must increase"):
        Curves([[1.0, 1.0]])
    with pytest.raises(ValueError, match="cannot be increasing and decreasing"):
        Curves([[0.0]], [["increasing", "decreasing"]])
    with pytest.raises(ValueError, match="flat ends is constant"):
        Curves([[0.0, 1.0]], [["convex", "flat ends"]])
    with pytest.raises(ValueError, match="unknown shape"):
        Curves([[0.0]], [["round"]])
    with pytest.raises(ValueError, match="norm='l1'"):
        Problem("hinge", Ball(0.1, "l2"), curves=Curves([[0.0]]))
    with pytest.raises(ValueError, match="radius above 0"):
        Problem("hinge", Ball(0.0, "l1"), curves=Curves([[0.0]], [["convex"]]))
    problem = Problem("huber", Ball(0.1, "l1"), curves=Curves([[0.0]]))
    with pytest.raises(ValueError, match="curves are of 1 columns"):
        solve(problem, [Client("a", [[0.0, 1.0]], [1.0])])
    with pytest.raises(ValueError, match="knows no curves"):
        solve(problem, [Client("a", [[0.0]], [1.0])], solver="admm")


def test_a_problem_with_curves_survives_a_file():
    curves = Curves([[0.0, 1.5], []], [["increasing"], []])
    problem = Problem("hinge", Ball(0.1, "linf"), curves=curves)
    assert Problem.from_dict(problem.to_dict()) == problem


# ---------------------------------------------------------------------------- rules
def _holds(s, rules, tol=0.0):
    steps = np.diff(s)
    signs = {"increasing": s, "decreasing": -s, "convex": steps, "concave": -steps}
    ends = -np.abs(s[[0, -1]])
    return all((signs.get(rule, ends) >= -tol).all() for rule in rules)


@pytest.mark.parametrize("rules", RULES, ids="+".join)
def test_the_polar_of_a_column_is_a_linear_program(rules):
    """max{-g's : |s| <= 1, s follows the rules}, by another solver."""
    curves = Curves([[-1.0, 0.0, 1.0]], [rules])
    entries = curves.rows()
    A = np.zeros((int(entries.row.max(initial=-1)) + 1, 4))
    np.add.at(A, (entries.row, entries.column), entries.value)
    for seed in range(20):
        g = np.random.default_rng(seed).normal(size=4)
        found = linprog(g, A_ub=A, b_ub=np.zeros(len(A)), bounds=[(-1.0, 1.0)] * 4)
        np.testing.assert_allclose(curves.polars(g)[0], -found.fun, atol=1e-9)
        assert _holds(found.x, rules, 1e-9)
        assert _holds(curves.nearest(found.x + 1e-9 * g), rules)
        np.testing.assert_allclose(curves.nearest(found.x), found.x, atol=1e-8)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_what_is_payable_is_near_and_paid_for(rules, norm):
    """The projection onto the rules and onto what a price pays for, against cvxpy."""
    rng = np.random.default_rng(RULES.index(rules))
    curves = Curves([sorted(rng.normal(size=4)), [0.0, 1.0]], [rules, ()])
    gauge = Problem("hinge", Ball(0.1, norm), curves=curves).gauge(curves.n_slopes)
    g, entries = 2.0 * rng.normal(size=curves.n_slopes), curves.rows()
    A = np.zeros((int(entries.row.max(initial=-1)) + 1, curves.n_slopes))
    A[entries.row, entries.column] = entries.value
    s = cp.Variable(curves.n_slopes)
    cp.Problem(cp.Minimize(cp.sum_squares(s - g)), [A @ s <= 0.0]).solve(solver="CLARABEL")
    np.testing.assert_allclose(curves.projected(g), s.value, atol=1e-5)
    # -g = u + A'mu with mu >= 0 and the norm of u at most the price.
    u, mu = cp.Variable(curves.n_slopes), cp.Variable(len(A), nonneg=True)
    column = [cp.sum(cp.abs(u[curves.of(j)])) for j in range(2)]
    need = cp.maximum(*column) if norm == "linf" else column[0] + column[1]
    near = -(u + A.T @ mu) if len(A) else -u
    cp.Problem(cp.Minimize(cp.sum_squares(near - g)), [need <= 0.7]).solve(solver="CLARABEL")
    found = gauge.payable(g, 0.7)
    assert gauge.polar(found) <= 0.7 * (1.0 + 1e-12)
    np.testing.assert_allclose(found, near.value, atol=1e-3)
    np.testing.assert_array_equal(gauge.payable(1e-3 * g, 0.7), 1e-3 * g)


def test_the_grouped_norm_and_its_dual():
    rng = np.random.default_rng(3)
    norm = GroupedLInf((3, 1, 2))
    for _ in range(10):
        w, d = rng.normal(size=(2, 6))
        u = norm.steepest(w)
        assert norm(u) <= 1.0 + 1e-12
        np.testing.assert_allclose(u @ w, norm.dual(w))
        assert w @ d <= norm(d) * norm.dual(w) + 1e-12
        p = norm.project_ball(d)
        z = cp.Variable(6)
        parts = [cp.norm1(z[:3]) <= 1, cp.norm1(z[3:4]) <= 1, cp.norm1(z[4:]) <= 1]
        cp.Problem(cp.Minimize(cp.sum_squares(z - d)), parts).solve(solver="CLARABEL")
        np.testing.assert_allclose(p, z.value, atol=1e-5)


# ---------------------------------------------------------------------------- the optimum
def _reference(problem, clients, accuracy=1e-9):
    """The pooled program over slopes, typed anew: theta = 0."""
    curves, loss = problem.curves, problem.loss
    s, b, t = cp.Variable(curves.n_slopes), cp.Variable(), cp.Variable()
    sizes = np.array([client.rows.n_rows for client in clients])
    total, rules = 0.0, []
    for client, q in zip(clients, sizes / sizes.sum(), strict=True):
        ball, y = problem.ball_of(client.name), client.rows.y
        score = curves.expand(client.rows.take(slice(None))) @ s + b
        if loss.task == "regression":
            fit = cp.sum(cp.huber(score - y, loss.epsilon)) / 2.0 / len(y)
            total += q * (fit + ball.radius * loss.epsilon * cp.maximum(t, 1.0 / ball.label_cost))
            continue
        m, lam = cp.multiply(y, score), cp.Variable()
        cost = {
            "hinge": lambda z: cp.pos(1 - z),
            "logistic": lambda z: cp.logistic(-z),
        }[loss.name]
        if math.isfinite(ball.label_cost):
            each = cp.maximum(cost(m), cost(-m) - ball.label_cost * lam)
            rules.append(lam >= t)
        else:
            each, lam = cost(m), t
        total += q * (cp.sum(each) / len(y) + ball.radius * lam)
    columns = [s[curves.of(j)] for j in range(curves.n)]
    if isinstance(problem.norm, L1):
        rules.append(cp.norm_inf(s) <= t)
    else:
        rules.append(sum(cp.norm_inf(column) for column in columns) <= t)
    for column, wanted in zip(columns, curves.shapes, strict=True):
        step = column[1:] - column[:-1]
        limits = {"increasing": column, "decreasing": -column, "convex": step, "concave": -step}
        rules += [limits[rule] >= 0 for rule in wanted if rule in limits]
        rules += [column[[0, -1]] == 0] if "flat ends" in wanted else []
    made = cp.Problem(cp.Minimize(total), rules)
    a = accuracy
    made.solve(solver="CLARABEL", tol_gap_abs=a, tol_gap_rel=a, tol_feas=a)
    return made.value


def _clients(rng, loss, N=40):
    made = []
    for name in "ab":
        X = rng.normal(size=(N, 3))
        f = 1.0 - X[:, 0] ** 2 + np.clip(X[:, 2], -0.3, 0.5) + 0.3 * X[:, 1]
        f = f + 0.4 * rng.normal(size=N)
        made.append(Client(name, X, f if loss == "huber" else np.where(f > 0.3, 1.0, -1.0)))
    return made


CASES = [
    (loss, norm, kappa)
    for norm in ("l1", "linf")
    for loss, kappa in [
        ("hinge", math.inf),
        ("logistic", math.inf),
        ("logistic", 2.0),
        ("huber", 5.0),
    ]
]


@pytest.mark.parametrize(("loss", "norm", "kappa"), CASES)
@pytest.mark.parametrize("rules", RULES[::3], ids="+".join)
@pytest.mark.sampled(4)
def test_the_optimum_with_curves_is_that_of_cvxpy(loss, norm, kappa, rules):
    rng = np.random.default_rng([len(rules), CASES.index((loss, norm, kappa))])
    clients = _clients(rng, loss)
    curves = Curves([[-1.0, 0.0, 1.0], [], [-0.5, 0.5]], [rules, [], ["increasing"]])
    ball = Ball(0.05, norm, kappa)
    problem = Problem(loss, ball, Mixture(center="proportional"), curves=curves)
    result = solve(problem, clients, tol=1e-6, max_rounds=100)
    best = _reference(problem, clients)
    assert result.status.kind == "certified", str(result.status)
    assert result.lower_bound <= best * (1.0 + 1e-7)
    assert best * (1.0 - 1e-7) <= result.objective <= best * (1.0 + 2e-6)
    assert _holds(result.coef[curves.of(0)], rules)
    assert _holds(result.coef[curves.of(2)], ("increasing",))


def test_every_shape_has_a_rule():
    assert {rule for rules in RULES for rule in rules} == set(SHAPES)


def _random(rng):
    """A random problem in units of its own, and clients for it."""
    loss, norm = rng.choice(["hinge", "logistic", "huber"]), rng.choice(["l1", "linf"])
    kappa, radius = float(rng.choice([0.5, 2.0, math.inf])), 10.0 ** rng.uniform(-3.0, 0.0)
    knots = [np.sort(rng.normal(size=k)) for k in rng.integers(1, 5, size=3)]
    rules = RULES[int(rng.integers(len(RULES)))]
    rules = [rule for rule in rules if rule != "flat ends" or len(knots[0]) > 1]

    def stated(unit):
        shapes = [rules, [], ["increasing"]]
        curves = Curves([(unit * k).tolist() for k in knots], shapes)
        ball = Ball(unit * radius, norm, unit * kappa)
        return Problem(loss, ball, Mixture(center="proportional"), curves=curves)

    return stated, _clients(rng, loss, int(rng.integers(8, 40)))


def _vouched(problem, clients):
    """The reference's value, as exactly as it vouches for; None: not to a hundredth of 1e-6."""
    for accuracy in (1e-9, 1e-8):
        try:
            return _reference(problem, clients, accuracy)
        except UserWarning:
            continue
    return None


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_certificates_of_random_additive_models_are_true(block):
    """1,000 problems: columns of many sizes, clients of few rows, rules, flips; none may lie."""
    proved = judged = 0
    for seed in range(100 * block, 100 * block + 100):
        rng = np.random.default_rng([7, seed])
        stated, plain = _random(rng)
        # In other units everything is the same; cvxpy is asked in those that it can solve.
        unit = 10.0 ** rng.uniform(-2.0, 2.0)
        clients = [Client(c.name, unit * c.rows.take(slice(None)), c.rows.y) for c in plain]
        result = solve(stated(unit), clients, tol=1e-6, max_rounds=60)
        assert result.status.kind != "failed", (seed, str(result.status))
        proved += result.status.kind == "certified"
        best = _vouched(stated(1.0), plain)
        if best is None:
            continue
        judged += 1
        assert result.lower_bound <= best * (1.0 + 1e-6) + 1e-9, seed
        assert result.objective >= best * (1.0 - 1e-6) - 1e-9, seed
    assert proved >= 97
    assert judged >= 90
