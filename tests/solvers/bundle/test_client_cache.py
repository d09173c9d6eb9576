"""What a solve allocates beside the data: so many numbers per row, and not one more."""

import tracemalloc

import numpy as np
import pytest

import drfl
from drfl.solvers.bundle.client_cache import cache_of
from drfl.solvers.bundle.client_half.curvature import SAMPLE, density, sampled
from drfl.solvers.bundle.client_half.evaluation import make_evaluator
from drfl.worst_case import make_oracle

N, n = 300_000, 20
OF_BLOCKS = 12_000_000  # bytes, however many rows there are: blocks, samples, what is imported
rng = np.random.default_rng(0)
X = rng.normal(size=(N, n))
score = X @ rng.normal(size=n) / np.sqrt(n) + 0.7 * rng.normal(size=N)
y = np.where(score > 0.0, 1.0, -1.0)


def peak(loss, label_cost, solver, norm="l2"):
    """Bytes, at most."""
    problem = drfl.Problem(loss, drfl.Ball(0.01, norm, label_cost))
    target = y if problem.loss.task == "classification" else score
    tracemalloc.start()
    try:
        result = drfl.solve(problem, [drfl.Client("a", X, target)], solver=solver, tol=1e-3)
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("loss", "label_cost", "vectors"),
    [("hinge", np.inf, 3), ("hinge", 1.0, 4), ("logistic", np.inf, 3), ("pinball", np.inf, 3)],
)
@pytest.mark.parametrize("solver", ["bundle", "local"])
@pytest.mark.sampled(4)
def test_a_solve_of_many_rows_needs_few_numbers_per_row(
    loss, label_cost, vectors, solver, monkeypatch
):
    """Arguments, curvature, and that times the masses; the local solver leaves such data alone."""
    monkeypatch.setattr("drfl.solvers.local.session.MANY_ROWS", N)
    result, most = peak(loss, label_cost, solver)
    assert result.status.kind == "certified"
    assert result.history[-1].info.get("method", "bundle") == "bundle"
    assert most <= vectors * 8 * N + OF_BLOCKS


@pytest.mark.parametrize(
    ("loss", "norm", "method", "vectors"),
    [
        ("hinge", "l1", "interior point", 14),
        ("logistic", "l1", "interior point", 58),
        ("hinge", "l2", "descent", 14),
        ("logistic", "l2", "descent", 14),
    ],
)
def test_the_local_solver_itself(loss, norm, method, vectors):
    """With interior points a smooth loss has all rows as variables, and a copy of them."""
    result, most = peak(loss, np.inf, "local", norm)
    assert result.history[-1].info["method"] == method
    assert most <= vectors * 8 * N + OF_BLOCKS


@pytest.mark.parametrize("weights", [None, rng.random(N)])
def test_a_sample_tells_how_wide_the_window_is(weights):
    """The curvature of a loss with kinks is about the one that all rows would give."""
    rows = drfl.rows.Rows(X, y, weights=weights)
    oracle = make_oracle(rows, drfl.Problem("hinge").loss, drfl.Ball(0.01))
    one, other = (make_evaluator(oracle).arguments(w, 0.1) for w in rng.normal(size=(2, n)))
    some = sampled(one)
    assert SAMPLE / 2 < len(some) <= SAMPLE
    h = 0.5 * np.sqrt(rows.mean((one - other) ** 2))
    d = density(oracle, one, sampled(other))
    assert d.max() == pytest.approx(1.0 / (2.0 * h), rel=0.01)
    assert (np.abs(one - 1.0) <= 0.99 * h)[d == 0.0].sum() == 0


def test_what_is_remembered_does_not_grow_with_the_rows():
    problem = drfl.Problem("logistic", drfl.Ball(0.01))
    sites = []
    solver = drfl.solvers.bundle.Bundle()
    answer = solver.handlers["bundle"]

    class Watched(drfl.solvers.bundle.Bundle):
        handlers = {  # noqa: RUF012
            **solver.handlers,
            "bundle": lambda site, message: (sites.append(site), answer(site, message))[1],
        }

    drfl.solve(problem, [drfl.Client("a", X, y)], solver=Watched(), tol=1e-3)
    seen = cache_of(sites[-1]).seen
    assert len(seen) >= 2
    assert all(at.sample.nbytes <= 8 * SAMPLE for at in seen.values())
    assert all(at.sample.base is None for at in seen.values())  # not a evaluator of all arguments
