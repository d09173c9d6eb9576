"""Probabilities judged at sites: what a client answers, and what is made of it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from drfl import DRFLClassifier, Policy
from drfl.metrics.counts import named_decisions
from drfl.metrics.probabilities import decisions
from drfl.models import read_model
from drfl.models.estimator import model_of
from drfl.models.file_rows import column_texts, read_rows
from drfl.models.judgement import lines, told_outside
from drfl.privacy import Guard
from drfl.protocols.data_request import array_text, text_array
from drfl.protocols.evaluation import answer, evaluate_message, probabilities
from drfl.protocols.station import Station
from drfl.tables import Reading
from drfl.tables.encoding import Target
from drfl.wire import Failure, Message, WireError, decode, encode, reply_kind


class Sites:
    """Clients that answer out of files here, by wire."""

    def __init__(self, folder, model, names, change=None):
        self.names, self.change = names, change or {}
        self.rows = {n: read_rows(model, folder / f"{n}.csv", target=True) for n in names}
        self.model, self.folder = model, folder

    def texts(self, name):
        path, rows = self.folder / f"{name}.csv", self.rows[name]
        return lambda column: column_texts(path, column, Reading(), rows)

    def ask(self, messages, *, partial=False):
        replies = {}
        for name, message in messages.items():
            arrays = answer(name, message, self.model, self.rows[name], None, self.texts(name))
            reply = Message(reply_kind(message.kind), 0, {**arrays, **self.change})
            replies[name] = decode(encode(reply))
        return replies


@pytest.fixture(scope="module")
def model(trained):
    return read_model(trained / "RUN" / "model.json")


def test_sites_tell_what_their_rows_say(trained, model):
    sites = Sites(trained, model, ["a", "b"])
    found = probabilities(sites, model)
    assert list(found) == ["all clients", "a", "b"]
    for name in "ab":
        rows = sites.rows[name]
        z = model.scores(rows.X, rows.X)[:, 0]
        assert found[name]["auc"] == pytest.approx(roc_auc_score(rows.y, z))
        assert found[name]["rows"] == len(z)
    assert found["all clients"]["positive"] == found["a"]["positive"] + found["b"]["positive"]
    # No small cell: what is called positive at a threshold, and who is, is 0 or at least 5.
    reply = answer("a", evaluate_message(model), model, sites.rows["a"], None, sites.texts("a"))
    cells = reply["bins"][:, :, :2]
    assert ((cells == 0) | (cells >= 5)).all()
    assert not any(len(sites.rows["a"].y) in np.shape(array) for array in reply.values())


def test_counts_that_cannot_be_are_refused(trained, model):
    with pytest.raises(WireError, match="counts that are none"):
        probabilities(Sites(trained, model, ["a"], {"bins": np.full((1, 20, 3), -1.0)}), model)
    with pytest.raises(WireError):
        probabilities(Sites(trained, model, ["a"], {"bins": np.zeros((3, 3))}), model)
    wrong = {"groups": text_array(["", "sex = f"])}
    with pytest.raises(WireError, match="counts that are none"):
        probabilities(Sites(trained, model, ["a"], wrong), model)


def test_groups_and_thresholds_are_those_of_the_rows(trained, model, tmp_path):
    one, two, three = (
        pd.read_csv(trained / f"{name}.csv", keep_default_na=False) for name in "abc"
    )
    pd.concat([one, two, three]).to_csv(tmp_path / "a.csv", index=False)
    pd.concat([two, three]).to_csv(tmp_path / "b.csv", index=False)
    sites = Sites(tmp_path, model, ["a", "b"])
    by = [("sex", []), ("age", [50.0, 65.0])]
    found = probabilities(sites, model, [0.01, 0.5], by)
    frame = pd.concat([one, two, three, two, three])
    rows = [sites.rows[name] for name in "ab"]
    z = np.concatenate([model.scores(r.X, r.X)[:, 0] for r in rows])
    y, sex, age = np.concatenate([r.y for r in rows]) == 1, frame["sex"], frame["age"]
    groups = {
        "all clients": np.ones(len(z), dtype=bool),
        "sex = f": (sex == "f").to_numpy(),
        "sex = m": (sex == "m").to_numpy(),
        "50 <= age < 65": ((age >= 50) & (age < 65)).to_numpy(),
    }
    assert set(found) >= {"a", "b", *groups}
    for name, at in groups.items():
        facts, exact = found[name], decisions(z[at], y[at], 0.5)
        assert (facts["rows"], facts["positive"]) == (at.sum(), y[at].sum())
        for decided in named_decisions(facts):
            assert decided["called_positive"] == exact.true_positive + exact.false_positive
            assert decided["positive_value"] == pytest.approx(exact.positive_value)
    assert len(named_decisions(found["all clients"])) == 1
    # A table of it is that of files, and says what is not told.
    assert any(line.startswith("sex = m") for line in lines(found))
    assert "all clients at 0.01" in lines(found)[-1]


def test_what_is_not_told_is_never_a_few_rows():
    def groups(**sizes):
        return {name: np.arange(200) < size for name, size in sizes.items()}

    assert set(told_outside(groups(f=90, m=110))) == {"f", "m"}
    assert set(told_outside(groups(f=3, m=110))) == set()
    assert set(told_outside(groups(a=3, b=20, c=110))) == {"c"}
    assert set(told_outside(groups(a=3, b=4, c=20, d=110))) == {"c", "d"}


@pytest.mark.parametrize("wrong", ["{", "[1]", '[["age", ["x"]]]', '[["age", [65, 50]]]', "7"])
def test_groups_that_cannot_be_read_are_refused(trained, model, wrong):
    sites = Sites(trained, model, ["a"])
    message = evaluate_message(model)
    arrays = {**message.arrays, "by": np.frombuffer(wrong.encode(), np.uint8)}
    with pytest.raises(WireError, match="groups that a message asks for"):
        answer("a", replace(message, arrays=arrays), model, sites.rows["a"], None, sites.texts("a"))
    asked = evaluate_message(model, thresholds=[1.0])
    with pytest.raises(WireError, match="between 0 and 1"):
        answer("a", asked, model, sites.rows["a"], None, sites.texts("a"))


def test_a_station_keeps_to_its_columns_and_its_guard(trained, model):
    def asked(by, **more):
        station = Station("a", trained / "a.csv", **more)
        message = evaluate_message(model, thresholds=[0.3], by=by)
        return station.answer(message)

    names = {column.name for column in model.columns}
    assert array_text(asked([("sex", [])]).arrays["groups"]) == ["", "sex = f", "sex = m"]
    without = Policy(allow_columns=names - {"sex"})
    assert Failure.of(asked([("sex", [])], policy=without)) is Failure.REFUSED
    assert Failure.of(asked([("town", [])])) is Failure.FILE
    assert Failure.of(asked([], guard=Guard(k=5))) is Failure.REFUSED


@pytest.mark.parametrize("way", ["joint", "ovr"])
def test_of_several_classes_each_is_judged_against_the_rest(tmp_path, way):
    """Areas are those of the class's probability; a class of few rows hides the others too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + rng.normal(size=120), [-0.5, 0.5])]
    table = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": y})
    table[:60].to_csv(tmp_path / "a.csv", index=False)
    few = (y[60:] != "mid") | (np.cumsum(y[60:] == "mid") <= 3)
    table[60:][few].to_csv(tmp_path / "b.csv", index=False)
    fitted = DRFLClassifier(multiclass=way).fit(table[["u", "v"]], y)
    model = replace(model_of(fitted), target=Target("y", ("low", "mid", "top")))
    sites = Sites(tmp_path, model, ["a", "b"])
    found = probabilities(sites, model)
    assert {name for name, facts in found.items() if facts["rows"]} == {
        f"{whose}, class {label}"
        for whose in ("all clients", "a")
        for label in model.target.classes
    }
    rows = sites.rows["a"]
    p = model.probabilities(model.scores(rows.X, rows.X))
    for k, label in enumerate(model.target.classes):
        expected = roc_auc_score(rows.y == k, p[:, k])
        assert found[f"a, class {label}"]["auc"] == pytest.approx(expected)
