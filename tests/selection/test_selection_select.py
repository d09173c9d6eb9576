"""drfl.select on data where the right answer is known."""

import math
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from drfl import DRFLClassifier, DRFLRegressor, baselines, select
from drfl.engines import SerialEngine
from drfl.losses import Huber
from drfl.selection.clients import sorted_table
from drfl.selection.cross_validation import folds_of_everyone, one_client_out
from kit.paper import classifier, regressor

RADII = {"radius": [0.01, 0.1]}


def quiet(*args, folds=3, **kwargs):
    return select(*args, folds=folds, verbose=0, **kwargs)


def numbers(found):
    return [(p.mean, p.standard_error, p.worst_score, p.rounds) for p in found.table]


# ---------------------------------------------------------------------- what cross-validation is
def test_a_score_is_that_of_models_fitted_to_the_other_folds(hospitals):
    X, _, y, clients = hospitals
    model = regressor(mixture_center="proportional", mixture_radius=0.3, tol=1e-8)
    found = quiet(model, X, y, clients, grid={"radius": [0.0, 0.1]}, random_state=5)
    table = sorted_table(model.read_rows(X, y, clients, None))
    q = table.totals / table.totals.sum()
    for point in found.table:
        scores = []
        for split in folds_of_everyone(3, 3, 5):
            held = np.zeros(75, bool)
            for s, part in enumerate(split.parts):
                own = np.flatnonzero(table.member == s)
                held[own[part.held_out(len(own))]] = True
            model.set_params(**point.params)
            model.fit(table.X[~held], table.y[~held], table.member[~held])
            losses = Huber(1.35).value(model.predict(table.X) - table.y)
            scores.append([-losses[held & (table.member == s)].mean() for s in range(3)])
        folds = np.array(scores) @ q
        assert point.mean == pytest.approx(folds.mean(), rel=1e-3)
        assert point.standard_error == pytest.approx(folds.std(ddof=1) / 3**0.5, rel=1e-3)
        by_client = np.mean(scores, axis=0)
        assert point.worst_score == pytest.approx(by_client.min(), rel=1e-3)
        assert point.worst_client == table.labels[by_client.argmin()]
        np.testing.assert_allclose(list(point.client_scores.values()), by_client, rtol=1e-3)


def test_the_best_point_is_fitted_to_all_rows(hospitals):
    X, y, _, clients = hospitals
    found = quiet(classifier(tol=1e-4), X, y, clients, grid=RADII, folds=2)
    assert found.best_params == max(found.table, key=lambda p: p.mean).params
    alone = classifier(tol=1e-4, **found.best_params).fit(X, y, clients)
    np.testing.assert_array_equal(found.estimator.coef_, alone.coef_)
    assert found.reason.startswith("of 2 grid points radius=0.")


# ---------------------------------------------------------------------- the rules
@pytest.fixture(scope="module")
def line():
    """A target that is the feature itself: every radius only hurts."""
    x = np.random.default_rng(0).normal(size=60)
    return x[:, None], x, np.arange(60) % 3


SHRINK = {"radius": [0.0, 0.2, 0.5]}


def test_mean_takes_no_radius_where_none_is_needed(line):
    found = quiet(regressor(), *line, grid=SHRINK)
    assert found.best_params == {"radius": 0.0}
    means = [p.mean for p in found.table]
    assert means == sorted(means, reverse=True)


def test_noise_that_is_feared_asks_for_a_radius(line):
    # With noise of variance 4 the best slope is about 1/5.
    found = quiet(regressor(), *line, grid=SHRINK, rule="noise", noise_scale=2.0)
    assert found.best_params == {"radius": 0.5}
    assert "standard deviation 2 in every feature" in found.reason


def test_one_se_takes_the_largest_radius_that_is_as_good():
    # Two clusters: every radius below the collapse to w = 0 predicts all rows.
    y = np.repeat([0, 1], 30)
    X = (2.0 * y - 1.0)[:, None] + 0.05 * np.random.default_rng(1).normal(size=(60, 1))
    grid = {"radius": [0.01, 0.1, 0.5, 4.0]}
    found = quiet(classifier(), X, y, np.arange(60) % 2, grid=grid, rule="one_se")
    assert [p.mean for p in found.table[:3]] == [1.0] * 3
    assert found.table[3].mean < 0.9
    assert found.best_params == {"radius": 0.5}


def test_worst_client_looks_after_the_small_one():
    # 90 rows say y = x1, 10 rows say y = x2; certain weights serve the many.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    clients = np.where(np.arange(100) < 90, "large", "small")
    y = np.where(clients == "large", X[:, 0], X[:, 1])
    model = regressor(radius=0.0, mixture_center="proportional")
    grid = {"mixture_radius": [0.0, math.inf]}
    plain = quiet(model, X, y, clients, grid=grid)
    assert plain.best_params == {"mixture_radius": 0.0}
    fair = quiet(model, X, y, clients, grid=grid, rule="worst_client")
    assert fair.best_params == {"mixture_radius": math.inf}
    assert fair.table[0].worst_client == "small"
    assert fair.table[1].worst_score > fair.table[0].worst_score


def test_one_noisy_client_is_served_only_if_the_worst_one_counts():
    # Client 0 measures x1 with noise of variance 4: its best slope is about 1/5, the others' 1.
    rng = np.random.default_rng(6)
    X, clients = rng.normal(size=(80, 2)), np.arange(80) % 4
    y = X[:, 0] + 0.05 * rng.normal(size=80)
    noisy = clients == 0
    X[noisy, 0] += 2.0 * rng.normal(size=noisy.sum())
    model, grid = regressor(radius=0.0), {"mixture_radius": [0.0, math.inf]}
    plain = quiet(model, X, y, clients, grid=grid)
    assert plain.best_params == {"mixture_radius": 0.0}
    assert plain.table[0].worst_client == "0"
    worst = quiet(model, X, y, clients, grid=grid, rule="worst_client")
    assert worst.best_params == {"mixture_radius": math.inf}


def test_erm_is_kept_for_a_new_client_if_robust_training_is_worse(line):
    X, y, clients = line
    model = regressor(mixture_radius=0.4)
    found = quiet(model, X, y, clients, rule="new_client", grid={"radius": [0.2, 0.5]})
    assert found.best_params == {"radius": 0.0, "mixture_radius": 0.0}
    assert found.table[-1].note == "ERM"
    assert found.reason.endswith(": ERM is taken")
    assert found.estimator.coef_[0] == pytest.approx(1.0, abs=1e-3)


def test_a_radius_is_taken_for_a_new_client_if_it_helps():
    # The majority of the others has the wrong sign for x2; a radius makes it no matter.
    rng = np.random.default_rng(4)
    X, clients = rng.normal(size=(120, 2)), np.arange(120) % 4
    y = 3.0 * X[:, 0] + np.array([1.0, -1.0, 1.0, -1.0])[clients] * X[:, 1]
    model = regressor(loss="pinball", norm="linf")
    found = quiet(model, X, y, clients, rule="new_client", grid={"radius": [0.0, 0.5]})
    assert found.best_params == {"radius": 0.5}
    assert found.table[0].note == "ERM"
    assert "; ERM scores -" in found.reason


def test_a_client_is_left_out_of_the_training(hospitals):
    X, _, y, clients = hospitals
    radius = {"north": 0.1, "south": 0.2, "west": 0.3}
    model = regressor(radius=radius, mixture_center=[0.5, 0.2, 0.3], mixture_radius=0.1)
    found = quiet(model, X, y, clients, rule="new_client", grid={"label_cost": [math.inf]})
    for name, out in zip(("north", "south", "west"), one_client_out(3), strict=True):
        rest = clients != name
        center = np.array([0.5, 0.2, 0.3])[list(out.trained)]
        other = regressor(radius=radius, mixture_radius=0.1, tol=1e-8)
        other.set_params(mixture_center=center / center.sum())
        other.fit(X[rest], y[rest], clients[rest])
        losses = Huber(1.35).value(other.predict(X) - y)
        assert found.table[0].client_scores[name] == pytest.approx(-losses[~rest].mean(), rel=1e-3)


# ---------------------------------------------------------------------- what does not matter
def test_the_order_of_the_rows_does_not_matter(hospitals):
    X, y, _, clients = hospitals
    model, grid = classifier(tol=1e-4), RADII
    first = quiet(model, X, y, clients, grid=grid)
    other = np.random.default_rng(0).permutation(75)
    assert numbers(quiet(model, X[other], y[other], clients[other], grid=grid)) == numbers(first)


def test_a_weight_is_a_repetition_that_stays_together(hospitals):
    X, _, y, clients = hospitals
    weight = np.random.default_rng(1).integers(0, 3, size=75)
    twice = np.repeat(np.arange(75), weight)
    model = regressor(tol=1e-4)
    weighted = quiet(model, X, y, clients, grid=RADII, folds=2, sample_weight=weight)
    repeated = quiet(model, X[twice], y[twice], clients[twice], grid=RADII, folds=2)
    assert numbers(weighted) == numbers(repeated)
    np.testing.assert_array_equal(weighted.estimator.coef_, repeated.estimator.coef_)


def test_the_same_seed_gives_the_same_folds(hospitals):
    X, _, y, clients = hospitals
    runs = [
        quiet(regressor(tol=1e-4), X, y, clients, grid=RADII, folds=2, random_state=seed)
        for seed in (3, 3, 4)
    ]
    assert numbers(runs[0]) == numbers(runs[1]) != numbers(runs[2])


@pytest.mark.parametrize("target", ["labels", "targets"])
@pytest.mark.sampled(2)
def test_the_local_solver_selects_the_same(hospitals, target):
    X, labels, y, clients = hospitals
    kind, y = (DRFLClassifier, labels) if target == "labels" else (DRFLRegressor, y)
    grid = {"radius": [0.0, 0.1], "mixture_radius": [0.0, 0.4]}
    bundle = quiet(kind(tol=1e-7), X, y, clients, grid=grid)
    local = quiet(kind(tol=1e-7, solver="local"), X, y, clients, grid=grid)
    for one, other in zip(bundle.table, local.table, strict=True):
        assert one.mean == pytest.approx(other.mean, rel=1e-3)
    assert local.best_params == bundle.best_params


def test_without_clients_there_is_one(hospitals):
    X, _, y, _ = hospitals
    found = quiet(regressor(), X, y, grid=RADII)
    assert found.table[0].worst_client == "all"
    assert found.table[0].worst_score == pytest.approx(found.table[0].mean)


@pytest.mark.slow
def test_processes_give_the_same_numbers(hospitals):
    X, y, _, clients = hospitals
    plain = quiet(classifier(tol=1e-4), X, y, clients, grid=RADII, folds=2)
    apart = quiet(classifier(tol=1e-4, engine="processes"), X, y, clients, grid=RADII, folds=2)
    assert numbers(apart) == numbers(plain)


def test_sparse_rows_and_frames_are_selected_alike(hospitals):
    X, y, _, clients = hospitals
    X = np.where(np.abs(X) < 0.4, 0.0, X)
    forms = [X, sparse.csr_array(X), pd.DataFrame(X, columns=["age", "dose", "weight"])]
    found = [quiet(classifier(), form, y, clients, grid=RADII, folds=2) for form in forms]
    assert found[2].estimator.feature_names_in_.tolist() == ["age", "dose", "weight"]
    for other in found[1:]:
        assert [p.mean for p in other.table] == pytest.approx([p.mean for p in found[0].table])
        assert other.best_params == found[0].best_params


@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_rows_weigh_in_the_scores_as_in_the_fit():
    # Nine rows in ten are "no" and nothing tells them apart; balanced classes are worth a half.
    X = np.random.default_rng(2).normal(size=(200, 1))
    y = np.where(np.arange(200) % 10, "no", "yes")
    for weight, worth in ((None, 0.9), ("balanced", 0.5)):
        model = classifier(class_weight=weight)
        (point,) = quiet(model, X, y, grid={"radius": [1.0]}, folds=2).table
        assert point.mean == pytest.approx(worth, abs=0.01)


# ---------------------------------------------------------------------- what is solved and seen
@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_points_that_cannot_differ_are_solved_once(hospitals):
    X, y, _, clients = hospitals
    grid = {"radius": [0.0, 0.1], "label_cost": [math.inf, 0.5]}
    found = quiet(classifier(tol=1e-4), X, y, clients, grid=grid, folds=2)
    rounds = [p.rounds for p in found.table]
    solved = [k for k, count in enumerate(rounds) if count]
    assert len(solved) == 3
    (known,) = {0, 1, 2, 3} - set(solved)
    assert known in (0, 1)
    twin = found.table[1 - known]
    assert found.table[known].note == f"as {twin.describe()}: they state the same problem"
    assert found.table[known].mean == twin.mean


def test_a_radius_without_effect_is_said_to_have_none(hospitals):
    X, _, y, clients = hospitals
    grid = {"radius": [0.0, 0.1, 1.0]}
    found = quiet(regressor(label_cost=0.5), X, y, clients, grid=grid, folds=2)
    assert found.table[0].note == ""
    for point in found.table[1:]:
        assert point.rounds == 0
        assert point.note == (
            "as radius=0: its models have so small a norm that a larger common radius has no effect"
        )
        assert point.mean == found.table[0].mean


class Spy(SerialEngine):
    """Writes down what crosses."""

    def __init__(self):
        super().__init__(debug=True)
        self.asked, self.answered = [], []

    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        self.asked += messages.values()
        self.answered += answers.replies.values()
        return answers


def test_only_scores_cross(hospitals):
    X, y, _, clients = hospitals
    spy = Spy()
    quiet(classifier(tol=1e-3, engine=spy), X, y, clients, grid=RADII, folds=2)
    assert {reply.kind for reply in spy.answered} == {"bundle/reply", "select_score/reply"}
    scores = [reply for reply in spy.answered if reply.kind == "select_score/reply"]
    assert len(scores) == 2 * 3
    for reply in scores:
        assert {name: array.shape for name, array in reply.arrays.items()} == {"score": (1, 2)}


def test_more_than_two_classes():
    rng = np.random.default_rng(5)
    y = np.arange(90) % 3
    X = np.eye(3)[y][:, :2] * 3.0 + 0.5 * rng.normal(size=(90, 2))
    names = np.array(["a", "b", "c"])[y]
    found = quiet(classifier(tol=1e-4), X, names, rng.integers(0, 2, 90), grid=RADII)
    assert found.estimator.coef_.shape == (3, 2)
    assert found.table[0].mean > 0.9
    with pytest.warns(UserWarning, match="the model predicts nothing"):
        wrong = quiet(
            classifier(tol=1e-3),
            X,
            rng.permutation(names),
            rng.integers(0, 2, 90),
            folds=2,
            grid={"radius": [0.05]},
        )
    assert 0.15 < wrong.table[0].mean < 0.55


def test_losses_and_norms_can_be_in_the_grid(hospitals):
    X, y, _, clients = hospitals
    grid = {"loss": ["hinge", "logistic"], "norm": ["l1", "linf"]}
    found = quiet(classifier(tol=1e-3, radius=0.05), X, y, clients, grid=grid, folds=2)
    assert len(found.table) == 4
    assert all(point.rounds > 0 for point in found.table)


@pytest.mark.parametrize("kind", ["AFL", "WAFL"])
def test_the_baselines_are_selected_in_the_same_way(hospitals, kind):
    X, y, _, clients = hospitals
    model = getattr(baselines, kind + "Classifier")(tol=1e-3)
    grid = {"radius": [0.02, 0.1]} if kind == "WAFL" else {"mixture_radius": [0.0, 0.5]}
    if kind == "WAFL":
        model.set_params(label_cost=0.7)
    found = quiet(model, X, y, clients, grid=grid, folds=2)
    assert found.estimator.get_params()[next(iter(grid))] in next(iter(grid.values()))


def test_progress_is_shown(line, capsys):
    select(regressor(tol=1e-3), *line, grid={"radius": [0.1]}, folds=2)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == 2
    assert lines[0].startswith("select: fold 1 of 2, 1 fits in ")
    assert lines[1].startswith("select: fold 2 of 2, 2 fits in ")
    quiet(regressor(tol=1e-3), *line, grid={"radius": [0.1]}, folds=2)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_the_line_is_rewritten(line, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    select(regressor(tol=1e-3), *line, grid={"radius": [0.1, 0.2]}, folds=2)
    shown = capsys.readouterr().err
    assert shown.count("\r") == 4
    assert shown.endswith("\r\n")


def test_fits_short_of_their_tolerance_are_noted(hospitals):
    X, y, _, clients = hospitals
    with pytest.warns(ConvergenceWarning, match="the proved gap is"):
        found = quiet(classifier(max_rounds=2), X, y, clients, grid=RADII, folds=2)
    assert found.table[0].note.startswith("2 of 2 fits short of tol, largest proved gap ")
