"""What is measured on rows: the adversary, noise, other radii and methods, the bootstrap."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drfl
from drfl.baselines import ERMClassifier, WAFLClassifier
from drfl.models.estimator import model_of
from drfl.report.measure import ClientSample, Plan, measured
from drfl.report.measure.sample import metrics

OFF = dict.fromkeys(("radii", "adversary", "left_out", "classes"), False)
NOTHING = Plan(bootstrap=0, noise=(), methods=(), **OFF)


def rows(seed=0, clients=("a", "b", "c"), n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * len(clients), 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, 5.0]
    z = (X - [0.0, 100.0, 5.0]) @ [1.0, -0.1, 5.0] + 0.8 * rng.normal(size=len(X))
    return X, np.where(z > 0.2, "yes", "no"), np.repeat(clients, n)


@pytest.fixture(scope="module")
def fitted():
    X, y, who = rows()
    robust = drfl.DRFLClassifier(radius=0.1, label_cost=1.0, mixture_radius=0.3)
    return make_pipeline(StandardScaler(), robust).fit(X, y, drflclassifier__clients=who)


@pytest.fixture(scope="module")
def model(fitted):
    return model_of(fitted)


@pytest.fixture(scope="module")
def data():
    X, y, who = rows()
    return {c: ClientSample(X[who == c], (y[who == c] == "yes").astype(float)) for c in "abc"}


def records(model, data, kind, **wanted):
    """The records of a kind, if that is asked for and nothing else but noise."""
    found = list(measured(model, data, replace(NOTHING, **wanted)))
    assert {record["kind"] for record in found} <= {kind, "noise"}
    return [record for record in found if record["kind"] == kind]


def test_the_adversary_attains_the_loss_that_the_training_proved(model, data):
    found = records(model, data, "adversary", adversary=True)
    parts = {part.name: part for part in model.clients}
    for record in found:
        part = parts[record["client"]]
        assert record["worst_loss"] == pytest.approx(part.losses[0], rel=1e-6)
        assert record["loss"] < record["worst_loss"]
        # What is spent on distance and on labels is the radius at most.
        spent = record["features_moved"] + 1.0 * record["labels_changed"]
        assert spent <= 0.1 * (1 + 1e-9)
        assert spent == pytest.approx(0.1)
        # The norm is l1: distances of single columns add up.
        assert sum(record["scaled_moves"].values()) == pytest.approx(record["features_moved"])
    total = sum(record["weight"] * record["worst_loss"] for record in found)
    assert total == pytest.approx(model.certificates[0].objective, rel=1e-6)


def test_rows_are_shown_only_if_they_are_asked_for(model, data):
    found = list(measured(model, data, Plan(0, (), 1, False, (), True, rows=2)))
    shown = [record for record in found if record["kind"] == "row"]
    assert 3 <= len(shown) <= 6
    X, _, who = rows()
    for record in shown:
        mine = X[who == record["client"]]
        assert 1 <= record["row"] <= len(mine)
        for part in record["change"].split(", "):
            name, before, _, after = part.split(" ")
            if name == "target":
                assert {before, after} == {"yes", "no"}
            else:
                value = mine[record["row"] - 1][int(name.removeprefix("x")) - 1]
                assert float(before) == pytest.approx(value, rel=1e-4)
    found = measured(model, data, Plan(0, (), 1, False, ()))
    assert not any(record["kind"] == "row" for record in found)


def test_without_noise_the_metrics_are_those_of_the_model(fitted, model, data):
    X, y, who = rows()
    for record in records(model, data, "noise", noise=(0.0, 5.0), draws=40):
        mine = who == record["client"]
        scores = record["scores"]
        if record["noise"] == 0.0:
            assert scores["accuracy"] == fitted.score(X[mine], y[mine])
            area = roc_auc_score(y[mine], fitted.decision_function(X[mine]))
            assert scores["auc"] == pytest.approx(area)
        else:  # all is noise
            assert 0.4 < scores["accuracy"] < 0.75


def test_the_radius_of_the_model_gives_the_model(model, data):
    found = records(model, data, "radius", radii=True, noise=(0.0, 1.0), draws=1)
    assert [r["radius"] for r in found if r["noise"] == 1.0] == pytest.approx(
        [0.0, 0.025, 0.05, 0.1, 0.2, 0.4]
    )
    (same,) = [r for r in found if r["radius"] == 0.1 and r["noise"] == 0.0]
    for client, sample in data.items():
        known = metrics(model, model.coef, model.intercept, sample)
        assert same["clients"][client]["auc"] == pytest.approx(known["auc"], abs=0.01)


def test_methods_are_what_they_are_called(model, data):
    found = {r["method"]: r for r in records(model, data, "comparison", methods=Plan().methods)}
    assert list(found) == ["local", "pooled", "erm", "afl", "drfa", "wafl"]
    assert all(record["gap"] <= 1e-4 for record in found.values())
    X, y, who = rows()
    scaled = StandardScaler().fit_transform(X)
    erm = ERMClassifier().fit(scaled, y, clients=who)
    for client in "abc":
        mine = who == client
        alone = ERMClassifier().fit(scaled[mine], y[mine]).score(scaled[mine], y[mine])
        scores = found["local"]["clients"][client]["accuracy"]
        assert scores == pytest.approx(alone, abs=0.03)
        scores = found["erm"]["clients"][client]["accuracy"]
        assert scores == pytest.approx(erm.score(scaled[mine], y[mine]), abs=0.03)


def test_the_bootstrap_is_a_percentile_interval_and_repeatable(model, data):
    (first,) = records(model, data, "bootstrap", bootstrap=12)
    (again,) = records(model, data, "bootstrap", bootstrap=12)
    assert json.dumps(first) == json.dumps(again)
    assert first["refits"] == 12
    (other,) = records(model, data, "bootstrap", bootstrap=12, seed=1)
    assert other["low"] != first["low"]
    coef = model.coef[0]
    assert all(low < high for low, high in zip(first["low"], first["high"], strict=True))
    # A column that carries much is not called superfluous.
    k = int(np.argmax(np.abs(coef)))
    assert math.copysign(1.0, first["low"][k]) == math.copysign(1.0, first["high"][k])


def test_a_numeric_target_and_several_classes():
    X, _, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    y = X[:, 0] - X[:, 2]
    regressor = drfl.DRFLRegressor(radius=0.01).fit(X, y, clients=who)
    data = {c: ClientSample(X[who == c], y[who == c]) for c in "abc"}
    found = records(model_of(regressor), data, "noise", noise=(0.0,))
    error = (regressor.predict(X) - y)[who == "a"]
    assert found[0]["scores"]["mse"] == pytest.approx(np.mean(error**2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    data = {c: ClientSample(X[who == c], y[who == c].astype(float)) for c in "abc"}
    for multiclass, attacks in (("ovr", 9), ("joint", 3)):
        three = drfl.DRFLClassifier(radius=0.01, multiclass=multiclass).fit(X, y, clients=who)
        found = list(measured(model_of(three), data, Plan(2, (0.0,), 1, False, ("erm",))))
        kinds = [record["kind"] for record in found]
        assert [kinds.count(k) for k in ("adversary", "noise", "bootstrap")] == [attacks, 3, 3]
        mine = who == "a"
        (noise,) = [r for r in found if r["kind"] == "noise" and r["client"] == "a"]
        assert noise["scores"]["accuracy"] == three.score(X[mine], y[mine])
        (table,) = [r["counts"] for r in found if r["kind"] == "confusion"]
        assert np.trace(table) == round(three.score(X, y) * len(y))


def test_a_plan_is_checked():
    for wrong in ({"bootstrap": -1}, {"draws": 0}, {"noise": (math.inf,)}, {"methods": ("x",)}):
        with pytest.raises(ValueError, match=r"plan|report"):
            Plan(**wrong)
    assert Plan().without({"noise", "bootstrap"}, {"erm"}).methods == [
        "local",
        "pooled",
        "afl",
        "drfa",
        "wafl",
    ]


def test_in_a_shared_ball_the_adversary_has_one_budget():
    X, y, who = rows(n=30)
    X = (X - X.mean(0)) / X.std(0)
    # Clients of unequal size and weight; labels move, so that there is one multiplier for all.
    keep = np.r_[0:30, 30:50, 60:70]
    X, y, who = X[keep], y[keep], who[keep]
    center = [0.2, 0.3, 0.5]
    robust = WAFLClassifier("hinge", radius=0.1, label_cost=1.0, norm="l1", mixture_center=center)
    model = model_of(robust.fit(X, y, clients=who))
    assert model.problem.shared_ball
    data = {c: ClientSample(X[who == c], (y[who == c] == "yes").astype(float)) for c in "abc"}
    found = records(model, data, "adversary", adversary=True)
    weights = [record["weight"] for record in found]
    assert weights == pytest.approx(center)

    def mean(key):
        return sum(record["weight"] * record[key] for record in found)

    spent = mean("features_moved") + 1.0 * mean("labels_changed")
    assert spent == pytest.approx(0.1)
    # Its rows, moved, lose what the training has proved for the mixture.
    assert mean("worst_loss") == pytest.approx(model.certificates[0].objective, rel=1e-6)
    truth = drfl.worst_case_loss(
        X,
        np.where(y == "yes", 1.0, -1.0),
        model.coef[0],
        float(model.intercept[0]),
        loss="hinge",
        radius=0.1,
        label_cost=1.0,
        sample_weight=np.select([who == c for c in "abc"], np.divide(center, [30, 20, 10])),
    )
    assert mean("worst_loss") == pytest.approx(truth.value, rel=1e-9)
    assert [record["price"] for record in found] == pytest.approx([truth.multiplier] * 3)
    # Nobody has a budget of its own.
    own = [r["features_moved"] + r["labels_changed"] for r in found]
    assert max(own) > 0.11
    assert min(own) < 0.09


def test_every_class_has_its_adversary():
    X, _, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    robust = drfl.DRFLClassifier(radius=0.1, label_cost=2.0, multiclass="ovr")
    model = model_of(robust.fit(X, y, clients=who))
    data = {c: ClientSample(X[who == c], y[who == c].astype(float)) for c in "abc"}
    found = records(model, data, "adversary", adversary=True)
    assert [(r["model"], r["client"]) for r in found] == [(k, c) for k in range(3) for c in "abc"]
    for k, proof in enumerate(model.certificates):
        mine = [record for record in found if record["model"] == k]
        total = sum(record["weight"] * record["worst_loss"] for record in mine)
        assert total == pytest.approx(proof.objective, rel=1e-6)


def test_a_client_that_lies_is_told_by_what_the_others_gain_without_it(tmp_path):
    """Its labels are turned round: its weight explains less than what it does to the others."""
    X, y, who = rows(n=80)
    turned = np.where(who == "c", np.where(y == "yes", "no", "yes"), y)
    robust = drfl.DRFLClassifier(radius=0.02, mixture_radius=0.3)
    for labels, warned in ((y, False), (turned, True)):
        pipeline = make_pipeline(StandardScaler(), robust)
        pipeline.fit(X, labels, drflclassifier__clients=who)
        data = {
            c: ClientSample(X[who == c], (labels[who == c] == "yes").astype(float)) for c in "abc"
        }
        found = records(model_of(pipeline), data, "left_out", left_out=True)
        assert [record["client"] for record in found] == ["a", "b", "c"]
        change = {r["client"]: r["without"] / r["with"] - 1.0 for r in found}
        assert (change["c"] < -0.3) == warned
        plan = replace(NOTHING, left_out=True)
        page = drfl.report(pipeline, tmp_path / f"{warned}.html", X, labels, who, plan=plan)
        text = page.read_text(encoding="utf-8")
        assert "One client left out in turn" in text
        assert ("Without c the model would have" in text) == warned
        assert "Without a the model would have" not in text


def test_a_model_without_a_client_is_the_one_fitted_to_the_others(model, data):
    (found,) = [r for r in records(model, data, "left_out", left_out=True) if r["client"] == "b"]
    others = {name: sample for name, sample in data.items() if name != "b"}
    X = np.concatenate([sample.X for sample in others.values()])
    shift, scale = model.scaling(None)
    y = np.concatenate([2.0 * sample.y - 1.0 for sample in others.values()])
    robust = drfl.DRFLClassifier(radius=0.1, label_cost=1.0, mixture_radius=0.3, tol=1e-7)
    robust.fit((X - shift) / scale, y, clients=np.repeat(["a", "c"], 40))
    margins = y * ((X - shift) / scale @ robust.coef_.ravel() + robust.intercept_.item())
    loss = model.problem.loss.value(margins).mean()
    assert found["without"] == pytest.approx(loss, abs=2e-2)


def test_a_client_of_one_class_among_three_is_compared():
    X, y, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    stage = np.where(who == "c", 2, (y == "yes").astype(int))
    model = model_of(drfl.DRFLClassifier(radius=0.01).fit(X, stage, clients=who))
    data = {c: ClientSample(X[who == c], stage[who == c].astype(float)) for c in "abc"}
    (found,) = records(model, data, "comparison", methods=("local",))
    assert found["clients"]["c"]["accuracy"] == 1.0
    (alone,) = records(model, {"c": data["c"]}, "comparison", methods=("local",))
    assert alone["gap"] == 0.0
