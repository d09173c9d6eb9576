"""Models that serve several grid points, against separate solves."""

import math
from dataclasses import replace

import numpy as np
import pytest

from drfl import Ball, Box, Mixture, Problem, reference, select, solve
from drfl.client import Client
from drfl.selection.path import Fit, KnownFits
from drfl.solvers import Status
from drfl.solvers.certificate.transfer import AS_GOOD, SAME_RATIO, SMALL_NORM, prices
from kit.paper import classifier

NAMES = ("c0", "c1")


def clients(task):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2, 25, 2))
    y = 0.4 * X[:, :, 0] + 0.2 * rng.normal(size=(2, 25))
    y = np.where(y > 0.0, 1.0, -1.0) if task == "classification" else y
    return [Client(name, X[s], y[s]) for s, name in enumerate(NAMES)]


def solved(problem, **settings):
    return solve(problem, clients(problem.loss.task), **settings)


def serving(before, after, tol=1e-6, result=None):
    known = KnownFits(NAMES)
    known.add(before, Fit(solved(before) if result is None else result, 12, source=4))
    return known.serving(after, tol)


def regression(rho, kappa, **other):
    return Problem("huber", Ball(rho, label_cost=kappa), Mixture(radius=0.3), **other)


def flips(rho, kappa, loss="hinge", norm="l1", **other):
    return Problem(loss, Ball(rho, norm, kappa), Mixture(radius=0.3), **other)


def test_what_is_proved_in_a_region_serves_no_problem_with_a_radius():
    """Its sentence names the region, the gap and the radius 0."""
    before, result = regression(0.0, 0.5), solved(regression(0.0, 0.5))
    local = replace(result, status=Status.local(result.gap, 50.0))
    assert serving(before, regression(0.0, 2.0), result=local) is not None
    for after in (regression(1e-9, 0.5), regression(0.3, 0.5)):
        assert serving(before, after, result=result) is not None
        assert serving(before, after, result=local) is None


# ---------------------------------------------------------------------- labels that do not move
@pytest.mark.parametrize("rho", [0.0, 0.2])
def test_a_small_model_stays_when_a_common_radius_grows(rho):
    # ||w||_* is about 0.4, 1/kappa is 2: the radius adds a constant to the objective.
    for larger in (0.3, 5.0):
        after = regression(larger, 0.5)
        same, truth = serving(regression(rho, 0.5), after), solved(after)
        assert same.result.objective == pytest.approx(truth.objective, rel=2e-6)
        assert same.result.lower_bound <= truth.objective * (1.0 + 1e-9)
        assert (same.rounds, same.source, same.reason) == (0, 4, SMALL_NORM)
        losses, expected = (list(r.client_losses.values()) for r in (same.result, truth))
        assert losses == pytest.approx(expected, rel=1e-3)
        assert same.result.client_multipliers == pytest.approx(truth.client_multipliers)


def test_at_radius_0_there_is_no_label_cost_to_differ():
    same = serving(regression(0.0, math.inf), regression(0.3, 0.5))
    assert same.result.objective == pytest.approx(solved(regression(0.3, 0.5)).objective, rel=2e-6)


def test_clients_with_radii_of_their_own():
    # Both radii grow, by 0.1 and 0.5: the optimum grows by something between 0.2 and 1.
    before = Problem("huber", {"c0": Ball(0.1, label_cost=0.5), "c1": Ball(0.1, label_cost=0.5)})
    after = Problem("huber", {"c0": Ball(0.2, label_cost=0.5), "c1": Ball(0.6, label_cost=0.5)})
    assert serving(before, after) is None
    loose = serving(before, after, tol=1.0).result
    assert loose.lower_bound <= solved(after).objective <= loose.objective


@pytest.mark.parametrize("kappa", [2.0, math.inf])
def test_a_model_that_is_0_stays(kappa):
    before, after = flips(4.0, kappa), flips(5.0, kappa)
    same = serving(before, after)
    assert np.abs(same.result.coef).max() < 1e-6
    assert same.result.objective == pytest.approx(solved(after).objective, rel=2e-6)


# ---------------------------------------------------------------------- labels that move
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "logistic"])
@pytest.mark.parametrize("solver", ["local", "bundle"])
@pytest.mark.sampled(2)
def test_where_flips_set_the_price_only_the_ratio_counts(loss, norm, solver):
    # 0.3 / 0.1 is not 3 in floating point: the ratios differ by rounding.
    before, after = flips(0.01, 0.1, loss, norm), flips(0.03, 0.1 * 3, loss, norm)
    result = solved(before, solver=solver)
    same, truth = serving(before, after, result=result), solved(after)
    assert same.reason == SAME_RATIO
    assert same.result.status == Status.certified(same.result.gap)
    assert same.result.objective == pytest.approx(truth.objective, rel=2e-6)
    assert same.result.lower_bound <= truth.objective
    for name in NAMES:
        lam = same.result.client_multipliers[name]
        assert 3.0 * lam == pytest.approx(result.client_multipliers[name])
        assert same.result.client_losses[name] == pytest.approx(result.client_losses[name])


def test_the_optimum_is_that_of_the_reference():
    before, after = flips(0.02, 0.2), flips(0.05, 0.5)
    same = serving(before, after).result
    data = [(client.rows.X, client.rows.y) for client in clients("classification")]
    truth = reference.solve("hinge", data, radius=0.05, label_cost=0.5, mixture_radius=0.3, p=1)
    assert same.lower_bound * (1.0 - 1e-8) <= truth.objective
    assert same.objective == pytest.approx(truth.objective, rel=2e-6)


def test_where_the_norm_binds_it_is_solved_again():
    # At label cost 0.1 flips set the price. At 5 they are too dear, and lambda = ||w||_* is.
    before, after = flips(0.004, 0.1), flips(0.2, 5.0)
    result, truth = solved(before), solved(after)
    norm = np.abs(result.coef).max()
    assert all(0.1 * lam < 5.0 * norm for lam in result.client_multipliers.values())
    assert serving(before, after, result=result) is None
    loose = serving(before, after, tol=1.0, result=result)
    assert loose.reason == AS_GOOD
    assert loose.result.lower_bound <= truth.objective <= loose.result.objective


@pytest.mark.parametrize("kappa", [0.3, 0.300001, 0.4])
@pytest.mark.parametrize("rho", [0.029, 0.03, 0.030001])
@pytest.mark.sampled(2)
def test_both_bounds_hold_for_whatever_is_not_cheaper(rho, kappa):
    after = flips(rho, kappa)
    truth = solved(after, tol=1e-9)
    loose = serving(flips(0.03, 0.3), after, tol=1.0).result
    assert loose.lower_bound <= truth.objective * (1.0 + 1e-9)
    assert loose.objective >= truth.lower_bound * (1.0 - 1e-9)


def test_clients_without_a_radius_pay_nothing():
    def mixed(rho, kappa):
        return Problem("hinge", {"c0": Ball(rho, "l1", kappa), "c1": Ball(0.0, "l1", kappa)})

    same = serving(mixed(0.01, 0.1), mixed(0.02, 0.2))
    assert same.result.objective == pytest.approx(solved(mixed(0.02, 0.2)).objective, rel=2e-6)
    moved = Problem("hinge", {"c0": Ball(0.02, "l1", 0.2), "c1": Ball(0.02, "l1", 0.2)})
    assert serving(mixed(0.01, 0.1), moved, tol=1.0) is None


# ---------------------------------------------------------------------- otherwise
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (regression(0.1, 5.0), regression(0.2, 5.0)),  # the norm binds
        (regression(0.2, 0.5), regression(0.1, 0.5)),  # the radius falls
        (regression(0.1, 0.5), regression(0.2, 0.4)),  # the label cost changes
        (regression(0.1, 0.5), regression(0.2, 0.5, epsilon=1.0)),  # another loss
        (flips(0.02, 0.2), flips(0.01, 0.1)),  # the label cost falls
        (flips(0.01, 0.1), flips(0.03, 0.2)),  # another ratio
        (flips(0.01, 0.1), flips(0.02, 0.2, norm="l2")),
        (flips(0.01, 0.1), flips(0.02, 0.2, intercept="none")),
        (flips(0.01, 0.1), Problem("hinge", Ball(0.02, label_cost=0.2), Mixture(radius=0.2))),
        (flips(0.0, 0.1), flips(0.02, 0.2)),  # nothing is known of flips
        (flips(0.1, 0.1), flips(0.1, math.inf)),
    ],
)
@pytest.mark.sampled(2)
def test_otherwise_it_is_solved_again(before, after):
    assert serving(before, after) is None


def test_a_fit_short_of_its_tolerance_serves_nobody():
    before = regression(0.0, 0.5)
    short = replace(solved(before), status=Status.max_rounds(1e-9, 1e-12))
    assert serving(before, regression(0.3, 0.5), result=short) is None


def test_a_support_a_shared_ball_and_half_moving_labels_have_no_such_prices():
    assert prices(Problem("hinge", Ball(0.1, support=Box(-3.0, 3.0))), NAMES) is None
    assert prices(Problem("hinge", Ball(0.1, label_cost=1.0), shared_ball=True), NAMES) is None
    half = {"c0": Ball(0.1, label_cost=1.0), "c1": Ball(0.1)}
    assert prices(Problem("hinge", half), NAMES) is None


@pytest.mark.parametrize("solver", ["local", "auto"])
@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_the_table_says_what_was_solved_once(hospitals, solver):
    X, y, _, who = hospitals
    grid = {"radius": [0.01, 0.02, 0.04], "label_cost": [0.1, 0.2]}
    model = classifier(tol=1e-5, solver=solver)
    found = select(model, X, y, who, grid=grid, folds=2, verbose=0)
    notes = {(p.params["radius"], p.params["label_cost"]): p for p in found.table}
    for (rho, kappa), point in notes.items():
        if kappa == 0.2 and rho > 0.01:  # the ratio is that of label cost 0.1 and half the radius
            source = notes[rho / 2.0, 0.1]
            assert point.rounds == 0
            assert point.note == f"as {source.describe()}: {SAME_RATIO}"
            assert point.client_scores == source.client_scores
        else:
            assert point.rounds > 0
            assert point.note == ""


# ---------------------------------------------------------------------- several classes at once
@pytest.mark.parametrize("kappa", [math.inf, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_several_classes_are_solved_again_where_the_dearest_pair_binds(loss, kappa):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(2, 25, 2)), rng.integers(0, 3, (2, 25)).astype(float)
    X[:, :, 0] += y
    every = [Client(name, X[s], y[s]) for s, name in enumerate(NAMES)]

    def stated(rho):
        return Problem(loss, Ball(rho, "l2", kappa), Mixture(radius=0.3), classes=3)

    before = solve(stated(0.01), every)
    for rho in (0.02, 0.2, 20.0):
        found = serving(stated(0.01), stated(rho), result=before)
        truth = solve(stated(rho), every)
        if found is not None:  # only a model that is proved to be as good may serve
            assert found.result.objective == pytest.approx(truth.objective, rel=2e-6)
        if math.isinf(kappa):
            assert found is None
