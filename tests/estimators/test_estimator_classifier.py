"""DRFLClassifier: classes, certificates, probabilities, weights, worst cases."""

import logging
import math
import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import drfl
from drfl import reference
from drfl.defaults import PURPOSES
from drfl.engines import SerialEngine
from drfl.estimators import DRFLClassifier, FewRowsWarning, NothingLearnedWarning, ScaleWarning
from drfl.estimators.fitting import make_solver, solver_name
from drfl.losses import Logistic
from drfl.run import Result
from drfl.solvers import Status
from kit.paper import classifier


@pytest.fixture(scope="module")
def flowers():
    data = load_iris()
    X = StandardScaler().fit_transform(data.data)
    return X, data.target_names[data.target], np.arange(150) % 2


@pytest.fixture(scope="module")
def garden(flowers):
    X, y, clients = flowers
    return DRFLClassifier("logistic", radius=0.1, tol=1e-5, multiclass="ovr").fit(X, y, clients)


def test_it_solves_the_problem_it_states(hospitals):
    X, y, _, clients = hospitals
    settings = {"radius": [0.02, 0.05, 0.03], "label_cost": 0.6, "norm": "linf"}
    model = DRFLClassifier(
        "hinge", mixture_radius=0.4, mixture_norm=2, mixture_center="proportional", **settings
    ).fit(X, y, clients)
    sign = np.where(y == "ill", 1.0, -1.0)
    parts = [(X[clients == c], sign[clients == c]) for c in ("north", "south", "west")]
    truth = reference.solve(
        "hinge", parts, mixture_radius=0.4, p=2, center="proportional", **settings
    )
    assert model.objective_ == pytest.approx(truth.objective, rel=2e-6)
    assert model.lower_bound_ <= truth.objective * (1.0 + 1e-7)
    np.testing.assert_allclose(model.client_weights_ @ model.client_losses_, model.objective_)
    assert model.gap_ <= 1e-6
    assert model.status_.kind == "certified"
    assert model.n_rounds_ == model.result_.rounds
    named = drfl.solve(
        model.problem_,
        [drfl.Client(n, *p) for n, p in zip(model.client_names_, parts, strict=True)],
    )
    assert named.objective == pytest.approx(model.objective_, rel=2e-6)


def test_the_defaults_are_those_that_are_safe_untuned(hospitals):
    X, y, _, clients = hospitals
    model = DRFLClassifier().fit(X, y, clients)
    ball = model.problem_.ball  # one for all: 0.1 sqrt(n/N) with 3 columns and 90 rows
    assert ball.radius == pytest.approx(0.1 * math.sqrt(3 / 90))
    assert (ball.norm.name, ball.label_cost) == ("l2", math.inf)
    assert model.problem_.loss == Logistic()
    assert model.problem_.mixture == drfl.Mixture("proportional", radius=0.0, p=1)
    weighted = DRFLClassifier().fit(X, y, clients, sample_weight=np.full(90, 4.0))
    assert weighted.problem_.ball.radius == pytest.approx(0.05 * math.sqrt(3 / 90))


@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_purpose_is_a_setting_that_numbers_override(hospitals, purpose):
    X, y, _, clients = hospitals
    meant = PURPOSES[purpose]
    model = DRFLClassifier(purpose=purpose).fit(X, y, clients)
    assert model.problem_.ball.radius == pytest.approx(meant.factor * math.sqrt(3 / 90))
    assert model.problem_.mixture.radius == meant.mixture_radius
    model = DRFLClassifier(purpose=purpose, radius=0.3, mixture_radius=0.4).fit(X, y, clients)
    assert model.problem_.ball.radius == 0.3
    assert model.problem_.mixture.radius == 0.4


def test_few_rows_are_warned_of_where_the_radius_is_the_default():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 5)), np.arange(16) % 2
    with pytest.warns(FewRowsWarning, match="5 columns for 16 rows is more than one for four"):
        DRFLClassifier().fit(X, y)
    DRFLClassifier(radius=0.1).fit(X, y)
    DRFLClassifier().fit(X[:, :4], y)


def test_radii_go_by_name(hospitals):
    X, y, _, clients = hospitals
    radii = {"west": 0.3, "north": 0.1, "south": 0.2, "east": 0.9}
    model = DRFLClassifier(radius=radii).fit(X, y, clients)
    assert [model.problem_.ball_of(name).radius for name in model.client_names_] == [0.1, 0.2, 0.3]


def test_two_classes(hospitals):
    X, y, _, clients = hospitals
    model = DRFLClassifier("hinge").fit(X, y, clients)
    assert model.coef_.shape == (1, 3)
    assert model.intercept_.shape == (1,)
    assert model.client_losses_.shape == model.client_multipliers_.shape == (3,)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_[0])
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0.0, "ill", "healthy"))
    assert model.score(X, y) > 0.7
    assert not hasattr(model, "predict_proba")


def test_a_score_of_0_is_the_first_class():
    model = DRFLClassifier(radius=0.0, intercept="none").fit([[-1.0], [1.0]], ["a", "b"])
    assert model.predict([[0.0]]).tolist() == ["a"]


def test_one_against_the_rest_has_a_model_and_a_certificate_each(flowers, garden):
    X, y, clients = flowers
    assert garden.coef_.shape == (3, 4)
    assert len(garden.result_) == 3
    assert garden.client_losses_.shape == garden.client_weights_.shape == (3, 2)
    gaps = [result.gap for result in garden.result_]
    assert garden.gap_ == max(gaps) <= 1e-5
    assert garden.n_rounds_ == sum(result.rounds for result in garden.result_)
    for k, name in enumerate(garden.classes_):
        one = DRFLClassifier("logistic", radius=0.1, tol=1e-5).fit(X, y == name, clients)
        assert garden.objective_[k] == pytest.approx(one.objective_, rel=2e-5)
        assert garden.lower_bound_[k] <= one.objective_
    np.testing.assert_array_equal(
        garden.predict(X), garden.classes_[garden.decision_function(X).argmax(axis=1)]
    )
    assert garden.score(X, y) > 0.8


def test_probabilities(flowers, garden):
    X, y, clients = flowers
    odds = 1.0 / (1.0 + np.exp(-garden.decision_function(X)))
    expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(garden.predict_proba(X), expected, rtol=1e-12)
    np.testing.assert_allclose(garden.predict_log_proba(X), np.log(expected), rtol=1e-9, atol=1e-12)
    far = garden.predict_proba(1e4 * X)
    np.testing.assert_allclose(far.sum(axis=1), 1.0)
    two = DRFLClassifier(Logistic()).fit(X, y == "setosa", clients)
    assert two.predict_proba(X).shape == (150, 2)
    np.testing.assert_array_equal(two.predict(X), two.predict_proba(X)[:, 1] > 0.5)


@pytest.mark.parametrize("weights", ["balanced", {"ill": 3, "healthy": 0.5}])
def test_class_weights_are_sample_weights(hospitals, weights):
    X, y, _, clients = hospitals
    kept = np.arange(90) % 3 > 0
    kept |= y == "ill"
    X, y, clients = X[kept], y[kept], clients[kept]
    sample_weight = 1.0 + np.arange(len(y)) % 2
    model = DRFLClassifier(class_weight=weights).fit(X, y, clients, sample_weight)
    if weights == "balanced":
        totals = {c: sample_weight[y == c].sum() for c in ("ill", "healthy")}
        weights = {c: sample_weight.sum() / (2 * total) for c, total in totals.items()}
    factors = np.array([weights[label] for label in y])
    other = DRFLClassifier().fit(X, y, clients, sample_weight * factors)
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-9)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-6)
    assert model.class_weight_.tolist() == [weights["healthy"], weights["ill"]]


def test_the_worst_case_of_the_fit_is_its_losses(hospitals):
    X, y, _, clients = hospitals
    weight = 1.0 + np.arange(90) % 3
    model = DRFLClassifier(radius=0.05, label_cost=0.5, class_weight={"ill": 3.0})
    model.fit(X, y, clients, weight)
    worst = model.worst_case(X, y, clients, weight)
    assert list(worst) == ["north", "south", "west"]
    values = [case.value for case in worst.values()]
    np.testing.assert_allclose(values, model.client_losses_, rtol=1e-9)
    moved = worst["south"].distribution()
    assert moved.cost <= 0.05 + 1e-12
    assert moved.expected_loss == pytest.approx(worst["south"].value, abs=moved.tolerance + 1e-12)
    south = X[clients == "south"]
    still = moved.source[(moved.x == south[moved.source]).all(axis=1)]
    assert len(still) > 20  # sources count the client's rows in the order of X


def test_the_worst_case_of_more_classes(flowers, garden):
    X, y, clients = flowers
    worst = garden.worst_case(X, y, clients)
    values = np.array([[case.value for case in worst[name]] for name in (0, 1)])
    np.testing.assert_allclose(values.T, garden.client_losses_, rtol=1e-9)


def test_the_worst_case_of_other_rows_uses_the_radii_of_the_fit(hospitals):
    X, y, _, clients = hospitals
    model = classifier(radius=[0.2, 0.3, 0.1]).fit(X, y, clients)
    some = clients == "west"
    some &= np.arange(90) % 2 == 0
    worst = model.worst_case(X[some], y[some], clients[some])["west"].value
    margin = np.where(y == "ill", 1.0, -1.0) * model.decision_function(X)
    price = 0.1 * np.abs(model.coef_).max()
    assert worst == pytest.approx(np.maximum(0.0, 1.0 - margin[some]).mean() + price)


def test_without_clients_the_local_solver_runs_and_agrees(hospitals):
    X, y, _, _ = hospitals
    local = DRFLClassifier(radius=0.1).fit(X, y)
    bundle = DRFLClassifier(radius=0.1, solver="bundle").fit(X, y, np.ones(90, dtype=int))
    assert local.client_names_.tolist() == ["all"]
    assert bundle.client_names_.tolist() == [1]
    assert local.objective_ == pytest.approx(bundle.objective_, rel=2e-6)


@pytest.mark.parametrize(
    ("params", "named", "name"),
    [
        ({}, False, "local"),
        ({}, True, "bundle"),
        ({"engine": "serial"}, False, "bundle"),
        ({"support": drfl.Box(-9.0, 9.0)}, False, "bundle"),
        ({"solver": "admm"}, False, "admm"),
        ({"solver": "local"}, True, "local"),
    ],
)
def test_the_solver_that_runs(params, named, name):
    assert solver_name(DRFLClassifier(**params).checked_parameters(), named=named) == name


@pytest.mark.parametrize("params", [{}, {"label_cost": 0.5}, {"loss": "logistic", "norm": "l2"}])
def test_the_local_solver_takes_several_clients(hospitals, params):
    X, y, _, clients = hospitals
    local = DRFLClassifier(radius=[0.02, 0.1, 0.05], solver="local", **params).fit(X, y, clients)
    bundle = DRFLClassifier(radius=[0.02, 0.1, 0.05], **params).fit(X, y, clients)
    assert local.objective_ == pytest.approx(bundle.objective_, rel=2e-6)
    assert local.client_names_.tolist() == ["north", "south", "west"]
    np.testing.assert_allclose(local.client_weights_.sum(), 1.0)
    assert local.gap_ <= 1e-6


def test_rows_in_one_place_have_no_curvature_to_withhold(hospitals):
    X, y, _, _ = hospitals
    alone = DRFLClassifier(curvature="never").fit(X, y)
    assert alone.objective_ == DRFLClassifier().fit(X, y).objective_
    with pytest.raises(ValueError, match="the solver 'local' uses no curvature: leave curvature="):
        DRFLClassifier(curvature="never", solver="local").fit(X, y)


@pytest.mark.parametrize("engine", ["serial", SerialEngine(debug=True)])
def test_an_engine_carries_the_messages(hospitals, engine):
    X, y, _, clients = hospitals
    plain = DRFLClassifier().fit(X, y, clients)
    carried = DRFLClassifier(engine=engine).fit(X, y, clients)
    np.testing.assert_array_equal(carried.coef_, plain.coef_)
    again = carried.fit(X, y, clients)  # an engine can be started anew
    np.testing.assert_array_equal(again.coef_, plain.coef_)


def test_a_fit_short_of_its_tolerance_says_how_far(hospitals):
    X, y, _, clients = hospitals
    model = DRFLClassifier(max_rounds=2)
    with pytest.warns(ConvergenceWarning, match=r"the proved gap is \d.*, not yet 1.0e-06: allow"):
        model.fit(X, y, clients)
    assert model.status_.kind == "max_rounds"
    assert model.gap_ > 1e-6
    assert model.predict(X).shape == (90,)


def test_a_local_statement_is_no_failure():
    # Separable, radius 0: optimal, though no bound holds for all models.
    model = DRFLClassifier("logistic", radius=0.0).fit([[-1.0], [1.0]], [0, 1])
    assert model.status_.kind == "local"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.failed("no usable answer from north"), "could not go on: no usable answer from"),
        (Status.stalled(np.inf, 1e-6), "no model was evaluated by all clients: no progress any"),
    ],
)
def test_a_run_without_a_model_raises(hospitals, monkeypatch, status, said):
    X, y, _, clients = hospitals
    dummy = dict.fromkeys(Result.__dataclass_fields__) | {"status": status, "objective": np.inf}
    monkeypatch.setattr("drfl.estimators.fitting.solve", lambda *args, **kwargs: Result(**dummy))
    with pytest.raises(RuntimeError, match=said):
        DRFLClassifier().fit(X, y, clients)


def test_progress_is_logged_not_printed(hospitals, caplog, capsys):
    X, y, _, clients = hospitals
    with caplog.at_level(logging.INFO, logger="drfl"):
        DRFLClassifier().fit(X, y, clients)
        assert not caplog.records
        model = classifier(verbose=True).fit(X, y, clients)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == model.n_rounds_ + 1
    assert lines[0].startswith("round 1: objective 1, proved gap ")
    assert lines[-1].startswith("certified: ")
    assert capsys.readouterr() == ("", "")


def test_it_pickles_with_everything_it_knows(garden, flowers):
    copy = pickle.loads(pickle.dumps(garden))
    np.testing.assert_array_equal(copy.predict(flowers[0]), garden.predict(flowers[0]))
    assert copy.problem_ == garden.problem_
    assert copy.result_[0].to_json() == garden.result_[0].to_json()


def test_float32_rows_stay_so(hospitals):
    X, y, _, clients = hospitals
    single = DRFLClassifier(radius=0.1, tol=1e-5).fit(X.astype(np.float32), y, clients)
    double = DRFLClassifier(radius=0.1, tol=1e-5).fit(X, y, clients)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-4)
    assert single.coef_.dtype == np.float64


@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_a_box(hospitals):
    X, y, _, clients = hospitals
    X = np.clip(X, -2.0, 2.0)
    box = drfl.Box(-2.0, 2.0)
    model = classifier(radius=0.2, label_cost=1.0, support=box).fit(X, y, clients)
    free = classifier(radius=0.2, label_cost=1.0).fit(X, y, clients)
    assert model.objective_ <= free.objective_ * (1.0 + 1e-6)
    for case in model.worst_case(X, y, clients).values():
        assert np.abs(case.distribution().x).max() <= 2.0 + 1e-9


@pytest.mark.parametrize(
    ("random_state", "seed"), [(None, 0), (11, 11), (np.random.RandomState(3), None)], ids=str
)
def test_a_method_that_draws_gets_a_seed(monkeypatch, random_state, seed):
    @dataclass
    class Drawing:
        seed: int = -1

    monkeypatch.setattr("drfl.estimators.fitting.solver_class", lambda name: Drawing)
    choices = DRFLClassifier(random_state=random_state).checked_parameters()
    expected = np.random.RandomState(3).randint(2**31 - 1) if seed is None else seed
    assert make_solver("bundle", choices).seed == expected


def test_several_classes_without_a_coefficient_are_said_to_predict_nothing(flowers):
    X, y, clients = flowers
    with pytest.warns(NothingLearnedWarning, match="the model predicts nothing"):
        model = DRFLClassifier("hinge", radius=5.0).fit(X, y, clients)
    assert np.abs(model.coef_).max() <= 1e-6


@pytest.mark.parametrize("unit", [1.0, 1e9])
def test_two_classes_without_a_coefficient_are_said_to_predict_nothing(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60) > 0.3
    with pytest.warns(NothingLearnedWarning, match="the same of every row"):
        nothing = DRFLClassifier("hinge", radius=5.0).fit(X, y)
    assert len(set(nothing.predict(X))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingLearnedWarning)
        warnings.simplefilter("ignore", ScaleWarning)
        DRFLClassifier("hinge", radius=0.01 * unit).fit(unit * X, y)  # small numbers, large columns
