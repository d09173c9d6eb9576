"""DRFL, WAFL, AFL, DRFA and ERM: which problem is a special case of which."""

import math

import numpy as np
import pytest

from drfl import baselines, reference
from drfl.estimators import DRFLClassifier, DRFLRegressor
from drfl.losses import make_loss
from drfl.norms import make_norm
from drfl.solvers.bundle import Bundle
from drfl.supports import Box
from drfl.uncertainty import Mixture
from kit.paper import classifier, paper

TOL = 1e-6
TASKS = [
    ("Classifier", "hinge"),
    ("Regressor", "huber"),
    pytest.param("Regressor", "pinball", marks=pytest.mark.slow),
]


def model(method, task, loss, **params):
    kind = {"Classifier": DRFLClassifier, "Regressor": DRFLRegressor}[task]
    return paper(kind if method == "DRFL" else getattr(baselines, method + task), loss, **params)


def rows(hospitals, task):
    X, labels, targets, clients = hospitals
    return X, labels if task == "Classifier" else targets, clients


def by_client(hospitals, task):
    X, y, clients = rows(hospitals, task)
    if task == "Classifier":
        y = np.where(y == "ill", 1.0, -1.0)
    return [(X[clients == name], y[clients == name]) for name in np.unique(clients)]


@pytest.mark.parametrize(("task", "loss"), TASKS)
@pytest.mark.parametrize(
    ("method", "params", "general"),
    [
        ("ERM", {}, {"radius": 0.0, "mixture_radius": 0.0}),
        ("AFL", {"mixture_radius": 0.5}, {"radius": 0.0, "mixture_radius": 0.5}),
        ("DRFA", {}, {"radius": 0.0, "mixture_radius": math.inf}),
        ("WAFL", {"radius": 0.1}, {"radius": 0.1, "mixture_radius": 0.0}),
    ],
)
@pytest.mark.sampled(2)
def test_a_baseline_is_a_case_of_drfl_and_what_the_reference_says(
    hospitals, task, loss, method, params, general
):
    X, y, clients = rows(hospitals, task)
    one = model(method, task, loss, **params).fit(X, y, clients)
    other = model("DRFL", task, loss, **general).fit(X, y, clients)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.objective_ == other.objective_
    truth = reference.solve(loss, by_client(hospitals, task), **general)
    assert one.lower_bound_ - 1e-7 <= truth.objective <= one.objective_ + 1e-7
    assert one.objective_ == pytest.approx(truth.objective, rel=2 * TOL)


@pytest.mark.parametrize(("task", "loss"), TASKS)
def test_more_caution_costs_more(hospitals, task, loss):
    X, y, clients = rows(hospitals, task)
    methods = [("ERM", {}), ("AFL", {"mixture_radius": 0.3}), ("DRFA", {})]
    fits = [model(name, task, loss, **params).fit(X, y, clients) for name, params in methods]
    objectives = [fit.objective_ for fit in fits]
    assert objectives == sorted(objectives)
    assert objectives[0] < objectives[1] < objectives[2]
    free = model("AFL", task, loss, mixture_radius=math.inf).fit(X, y, clients)
    assert free.objective_ == objectives[2]


@pytest.mark.parametrize("label_cost", [0.4, math.inf])
@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_drfl_is_afl_with_a_price_on_the_norm(hospitals, label_cost, norm):
    # F_s = mean L + rho Lip max(||w||_*, 1/kappa) for every client of a regression.
    X, _, y, clients = hospitals
    rho, epsilon = 0.1, 0.7
    fit = DRFLRegressor(
        "huber",
        epsilon=epsilon,
        radius=rho,
        label_cost=label_cost,
        norm=norm,
        mixture_radius=0.3,
        mixture_center="uniform",
    ).fit(X, y, clients)
    loss = make_loss("huber", epsilon=epsilon)
    residual = fit.predict(X) - y
    means = [loss.value(residual[clients == name]).mean() for name in fit.client_names_]
    price = rho * epsilon * max(make_norm(norm).dual(fit.coef_), 1.0 / label_cost)
    expected = Mixture(radius=0.3).support(means) + price
    assert fit.objective_ == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("center", ["uniform", "proportional", [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("support", [None, Box(-5.0, 5.0)])
@pytest.mark.sampled(2)
def test_wafl_where_labels_move(hospitals, center, support):
    X, y, clients = rows(hospitals, "Classifier")
    params = {"radius": 0.05, "label_cost": 0.5, "support": support}
    wafl = paper(baselines.WAFLClassifier, "hinge", mixture_center=center, **params)
    wafl.fit(X, y, clients)
    truth = reference.solve(
        "hinge", by_client(hospitals, "Classifier"), center=center, shared=True, **params
    )
    assert wafl.objective_ == pytest.approx(truth.objective, rel=2 * TOL)
    assert wafl.client_names_.tolist() == ["north", "south", "west"]
    # Separate balls cannot pool their budgets.
    drfl = classifier(mixture_radius=0.0, mixture_center=center, **params).fit(X, y, clients)
    assert drfl.objective_ <= wafl.objective_ * (1.0 + 2 * TOL)


@pytest.mark.parametrize("label_cost", [0.5, math.inf])
def test_the_losses_and_the_worst_case_of_wafl_are_those_of_the_mixture(hospitals, label_cost):
    X, y, clients = rows(hospitals, "Classifier")
    center = [0.2, 0.3, 0.5]
    wafl = baselines.WAFLClassifier(radius=0.05, label_cost=label_cost, mixture_center=center)
    wafl.fit(X, y, clients)
    assert np.array(center) @ wafl.client_losses_ == pytest.approx(wafl.objective_, rel=1e-9)
    assert len(set(wafl.client_multipliers_.round(9))) == 1
    worst = wafl.worst_case(X, y, clients)
    assert list(worst) == ["all"]
    assert worst["all"].value == pytest.approx(wafl.objective_, rel=TOL)
    with pytest.raises(ValueError, match="share a ball: give rows of each of 'north', 'south'"):
        wafl.worst_case(X[clients != "west"], y[clients != "west"], clients[clients != "west"])


def test_wafl_needs_a_solver_that_shares_the_multiplier(hospitals, monkeypatch):
    X, y, clients = rows(hospitals, "Classifier")
    monkeypatch.setattr(Bundle, "shared_ball", False)
    wafl = baselines.WAFLClassifier(radius=0.05, label_cost=0.5)
    with pytest.raises(ValueError, match="'bundle' knows no ball around several clients"):
        wafl.fit(X, y, clients)
    assert wafl.fit(X, y).client_names_.tolist() == ["all"]
    assert wafl.set_params(radius=0.0).fit(X, y, clients).gap_ <= TOL


def test_wafl_has_one_radius_from_all_rows(hospitals):
    X, y, clients = rows(hospitals, "Classifier")
    fit = baselines.WAFLClassifier().fit(X, y, clients)
    assert fit.problem_.ball_of("west").radius == pytest.approx(0.1 * math.sqrt(3 / 90))
    with pytest.raises(ValueError, match=r"one ball around the mixture .* give one radius"):
        baselines.WAFLClassifier(radius=[0.1, 0.1, 0.1]).fit(X, y, clients)


def test_proportional_erm_does_not_care_who_holds_a_row(hospitals):
    X, y, clients = rows(hospitals, "Regressor")
    apart = baselines.ERMRegressor(mixture_center="proportional").fit(X, y, clients)
    together = baselines.ERMRegressor().fit(X, y)
    assert apart.objective_ == pytest.approx(together.objective_, rel=2 * TOL)
    np.testing.assert_allclose(apart.coef_, together.coef_, atol=1e-3)


def test_among_equally_good_models_a_small_one_is_taken():
    # Separable with one row per class on a line: every slope of 1 or more has loss 0.
    X, y = np.array([[-1.0, 0.0], [1.0, 0.0]]), [0, 1]
    fit = baselines.ERMClassifier("hinge").fit(X, y)
    assert fit.objective_ == pytest.approx(0.0, abs=1e-6)
    assert np.linalg.norm(fit.coef_) == pytest.approx(1.0, rel=0.02)
