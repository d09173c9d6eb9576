"""Every gauge against its definition: epigraph, polar, tangents, what a price pays for."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import coo_array

import drfl
from drfl.curves import Curves
from drfl.gauges import DualNorm, Pairs, ShapedCurves
from drfl.norms import GroupedLInf, make_norm
from drfl.solvers import SOLVERS, Assignment, make_solver, solver_class
from kit.pages import ROOT, blocks, run_python

PAGE, WRITTEN = ROOT / "docs" / "adding-a-gauge.md", {"__name__": "adding_a_gauge"}
run_python(PAGE, blocks(PAGE, "python")[0], WRITTEN, ROOT)
CURVES = Curves([[0.0, 1.0], [], [0.5]], [["increasing"], [], ["convex"]])
GROUPED = GroupedLInf((3, 1, 2))
NORMS = {
    "l1": make_norm("l1"),
    "l2": make_norm("l2"),
    "linf": make_norm("linf"),
    "grouped": GROUPED,
}
GAUGES = (
    {f"one score, {name}": DualNorm(norm, 6) for name, norm in NORMS.items()}
    | {f"three classes, {name}": Pairs(norm, 3, 6) for name, norm in NORMS.items()}
    | {f"shaped, {name}": ShapedCurves(NORMS[name], CURVES) for name in ("l1", "grouped")}
    | {f"of a page, {name}": WRITTEN["Nonnegative"](NORMS[name], 6) for name in ("l1", "linf")}
)
EVERY = pytest.mark.parametrize("gauge", GAUGES.values(), ids=GAUGES)
SEEDS = range(5)


def point(gauge, rng):
    """A point where the gauge is finite."""
    return gauge.nearest(rng.normal(size=gauge.n + 3 * isinstance(gauge, Pairs)))


def epigraph(gauge, x):
    """cvxpy's t >= gauge(x): by its rows, or by what the l2 norm is."""
    rows, t = gauge.rows(), cp.Variable()
    if rows is None:
        if isinstance(gauge, DualNorm):
            return t, [cp.norm(x, 2) <= t]
        W = cp.reshape(x, (gauge.classes, gauge.columns), order="C")
        return t, [cp.norm(W[j] - W[k], 2) <= t for j, k in zip(*gauge.ends, strict=True)]
    parts = [(rows.w, gauge.n, x), (rows.e, rows.n_extra, cp.Variable(max(rows.n_extra, 1)))]
    total = 0
    for entries, size, variable in [*parts, (rows.t, 1, cp.reshape(t, (1,), order="C"))]:
        if size:
            shape = (rows.n_rows, size)
            total += coo_array((entries.value, (entries.row, entries.column)), shape) @ variable
    return t, [total <= 0]


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_the_rows_are_its_epigraph(gauge, seed):
    x = point(gauge, np.random.default_rng(seed))
    t, rules = epigraph(gauge, cp.Constant(x[: gauge.n]))
    assert cp.Problem(cp.Minimize(t), rules).solve() == pytest.approx(gauge.value(x), rel=1e-6)


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_the_further_variables_of_its_rows_hold_at_a_point(gauge, seed):
    x, rows = point(gauge, np.random.default_rng(seed)), gauge.rows()
    if rows is None:
        assert len(gauge.extra(x)) == 0
        return
    told = np.zeros(rows.n_rows)
    values = (rows.w, x), (rows.e, gauge.extra(x)), (rows.t, np.array([gauge.value(x)]))
    for entries, at in values:
        np.add.at(told, entries.row, entries.value * at[entries.column])
    assert told.max() <= 1e-9


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_its_polar_is_what_a_slope_costs(gauge, seed):
    g = gauge.nearest(np.random.default_rng(seed).normal(size=gauge.n + 3))[: gauge.n]
    if isinstance(gauge, ShapedCurves):
        g = np.random.default_rng(seed).normal(size=gauge.n)
    x = cp.Variable(gauge.n)
    t, rules = epigraph(gauge, x)
    dearest = cp.Problem(cp.Maximize(-g @ x), [*rules, t <= 1]).solve()
    assert gauge.polar(g) == pytest.approx(dearest, rel=1e-5, abs=1e-7)


@EVERY
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, 2.0])
def test_what_a_price_pays_for_costs_no_more(gauge, share):
    g = np.random.default_rng(3).normal(size=gauge.n)
    price = share * gauge.polar(g)
    assert gauge.polar(gauge.payable(g, price)) <= price * (1.0 + 1e-9)
    if share >= 1.0:
        assert gauge.payable(g, price) == pytest.approx(g)


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_tangents_are_below_it_and_touch(gauge, seed):
    rng = np.random.default_rng(seed)
    x, y = point(gauge, rng), point(gauge, rng)
    tangents, kinds = gauge.tangents(x)
    assert len(tangents) == len(kinds)
    assert kinds.max() < gauge.kinds
    assert (tangents @ x[: gauge.n]).max() == pytest.approx(gauge.value(x))
    assert (tangents @ y[: gauge.n]).max() <= gauge.value(y) + 1e-12
    assert gauge.subgradient(x) @ x[: gauge.n] == pytest.approx(gauge.value(x))


@pytest.mark.parametrize("name", ["one score, l2", "three classes, l2"])
def test_its_curvature_is_that_of_differences(name):
    gauge, x, step = GAUGES[name], point(GAUGES[name], np.random.default_rng(1)), 1e-5
    directions = np.eye(len(x))[: gauge.n]
    ahead, behind = (
        np.array([gauge.subgradient(x + sign * step * e) for e in directions]) for sign in (1, -1)
    )
    found = gauge.curvature(x, 2.0)
    assert found == pytest.approx((ahead - behind) / step, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in SOLVERS if not solver_class(name).gauges])
def test_a_solver_that_takes_the_dual_norm_refuses_another_gauge(name):
    """It would prove a bound for models that the gauge rules out, or crash."""

    class Rising(drfl.Problem):
        def gauge(self, n):
            return WRITTEN["Nonnegative"](self.norm, n)

    X = np.random.default_rng(0).normal(size=(40, 3))
    problem, y = Rising("logistic", drfl.Ball(0.05, "linf")), np.where(X[:, 0] > 0.0, 1.0, -1.0)
    with pytest.raises(ValueError, match=f"'{name}' knows no gauge but the dual norm: take"):
        drfl.solve(problem, [drfl.Client("a", X, y)], solver=name)


def test_the_default_solver_leaves_no_other_gauge_to_the_first_order_method():
    class Rising(drfl.Problem):
        def gauge(self, n):
            return WRITTEN["Nonnegative"](self.norm, n)

    problem = Rising("logistic", drfl.Ball(0.05, "linf"))
    task = Assignment(problem, ("a",), 3000, 1e-3, 10)
    with pytest.raises(ValueError, match="knows no gauge but the dual norm"):
        make_solver("bundle").start(task)
