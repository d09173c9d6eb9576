"""What is refused before any work, and what defaults do on standardised data."""

import math
from functools import cache

import numpy as np
import pytest
from native_kit import SIMPLEX, Plain, clients, problem
from own_optimum import own_optimum

import drfl
from drfl.datasets import load_abalone, load_breast_cancer, load_heart, partition
from drfl.losses import LOSSES
from drfl.native import AFL, DRFA, METHODS, QFFL, WAFL, FedADMM, FedAvg, FedProx, Scaffold, ScaffPD
from drfl.solvers import StatusKind


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda: FedAvg(local_steps=0), ValueError, "local_steps must be a whole number >= 1"),
        (lambda: FedAvg(local_steps=2.5), TypeError, "local_steps must be a whole number"),
        (lambda: FedAvg(participation=0.0), ValueError, "participation must be"),
        (lambda: FedAvg(participation=1.5), ValueError, "> 0 and <= 1"),
        (lambda: FedProx(mu=-1.0), ValueError, "mu must be"),
        (lambda: Scaffold(step_size=-1.0), ValueError, "step_size must be"),
        (lambda: Scaffold(batch_size=0), ValueError, "batch_size"),
        (lambda: QFFL(q=math.inf), ValueError, "q must be"),
        (lambda: WAFL(gamma=0.0), ValueError, "gamma must be"),
        (lambda: AFL(weight_step="big"), TypeError, "weight_step must be None or a number"),
        (lambda: AFL(averaged=1), TypeError, "averaged must be True or False"),
        (lambda: FedADMM(penalty=0.0), ValueError, "penalty must be"),
        (lambda: DRFA(seed=-1), ValueError, "seed"),
        (lambda: ScaffPD(server_step=float("nan")), ValueError, "server_step"),
        (lambda: ScaffPD(concavity=-1.0), ValueError, "concavity"),
    ],
)
def test_settings_are_checked(make, error, why):
    with pytest.raises(error, match=why):
        make()


@pytest.mark.parametrize("name", METHODS)
def test_a_problem_with_a_radius_is_refused(name):
    stated = drfl.Problem(
        "hinge", drfl.Ball(0.1), SIMPLEX if METHODS[name].robust else drfl.Mixture()
    )
    with pytest.raises(ValueError, match=f"{name} trusts the clients' rows"):
        drfl.solve(stated, clients("hinge"), solver=METHODS[name]())


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if not kind.robust])
def test_uncertain_weights_are_refused_by_methods_without_them(name):
    with pytest.raises(ValueError, match="center of the mixture"):
        drfl.solve(problem("hinge", SIMPLEX), clients("hinge"), solver=METHODS[name]())


def test_an_optimum_of_0_is_not_called_certified():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    result = drfl.solve(problem("hinge"), [drfl.Client("a", X, y)], solver=FedAvg(), max_rounds=60)
    assert result.objective == 0.0
    assert result.gap == 0.0
    assert result.status.kind is StatusKind.MAX_ROUNDS


# ---------------------------------------------------------------------------- untuned
LOADERS = {"heart": load_heart, "breast cancer": load_breast_cancer, "abalone": load_abalone}
CASES = [
    (data, loss)
    for data in LOADERS
    for loss, kind in LOSSES.items()
    if (kind.task == "regression") == (data == "abalone")
]


@cache
def standardised(data):
    """Rows of five clients whose shares of the classes, or whose targets, differ."""
    bunch = LOADERS[data]()
    X = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    y = bunch.target.astype(np.float64)
    if data == "abalone":
        y = (y - y.mean()) / y.std()
    parts = partition.sorted_skew(y, 5, 0.25, np.random.default_rng(0))
    return [(X[rows], y[rows]) for rows in parts]


@cache
def best_mixture(data, loss, robust):
    sites = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(standardised(data))]
    return drfl.solve(problem(loss, SIMPLEX if robust else None), sites, tol=1e-5).objective


@pytest.mark.parametrize(
    ("data", "loss"),
    [
        pytest.param(
            data, loss, marks=[] if (data, loss) == ("heart", "hinge") else pytest.mark.slow
        )
        for data, loss in CASES
    ],
)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.sampled(2)
def test_defaults_work_on_standardised_data(name, data, loss):
    """In 100 rounds all but a tenth of what can be gained over the zero model is gained."""
    rows, method = standardised(data), METHODS[name]()
    sites = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(rows)]
    stated = problem(loss, SIMPLEX if method.robust else None)
    result = drfl.solve(stated, sites, solver=method, max_rounds=100)
    if name in ("qffl", "wafl"):
        pytest.importorskip("cvxpy")
        best = own_optimum(method, Plain(loss, rows))
    else:
        best = best_mixture(data, loss, method.robust)
    start = result.history[0].objective
    assert best * (1.0 - 2e-5) <= result.objective <= best + 0.1 * (start - best)
