"""``drfl.report(estimator, path)`` and the reports of real runs."""

import html
import re
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
from report_kit import run_records, write_run
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_report_measure import rows
from test_report_page import ORDER, Page

import drfl
from drfl.baselines import WAFLClassifier
from drfl.report import ClientSample, Plan
from drfl.rows import Rows
from drfl.training.run_folder import message_facts
from kit.paper import classifier

BARE = Plan(0, (), 1, False, (), validation=False)
FEW = Plan(bootstrap=3, noise=(0.0, 1.0), draws=2, methods=("local", "erm"))


def made(*args, **options):
    return Page(drfl.report(*args, **options).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def fitted():
    X, y, who = rows()
    return drfl.DRFLClassifier(radius=0.1).fit((X - X.mean(0)) / X.std(0), y, clients=who)


def test_a_fitted_estimator_tells_what_it_knows(fitted, tmp_path):
    found = made(fitted, tmp_path / "page.html")
    assert found.sections == ORDER
    assert f"worst-case loss is {fitted.objective_:.6g}" in found.words
    assert "certified" in found.words
    assert drfl.__version__ in found.words
    (bounds,) = [chart for chart in found.charts if chart["title"] == "Bounds by round"]
    upper = bounds["series"][0]["points"][-1][1]
    assert upper == pytest.approx(fitted.result_.history[-1].objective)


def test_with_its_rows_it_tells_everything(tmp_path):
    X, y, who = rows()
    frame = pd.DataFrame(X, columns=["age", "<b>pressure</b>", "dose"])
    robust = drfl.DRFLClassifier(radius=0.1, class_weight="balanced")
    pipeline = make_pipeline(StandardScaler(), robust)
    pipeline.fit(frame, y, drflclassifier__clients=who)
    found = made(pipeline, tmp_path / "page.html", frame, y, who, plan=FEW)
    assert found.sections == [*ORDER[:2], "table", *ORDER[2:]]
    assert "Table 1" in found.words
    titles = [chart["title"] for chart in found.charts]
    for wanted in ("by method", "per unit of the file", "against noise", "against the radius"):
        assert any(wanted in title for title in titles)
    # In the units of the table: the scaler is undone.
    (chart,) = [c for c in found.charts if "per unit" in c["title"]]
    values = {row["label"]: row["value"] for row in chart["rows"]}
    assert values["age"] == pytest.approx(robust.coef_[0, 0] / X[:, 0].std())
    score = pipeline.score(frame[:40], y[:40])
    assert f"{100 * score:.1f} %" in found.words
    assert "<b>" not in found.source
    assert "Which rows" not in found.words


def test_rows_come_with_a_warning(fitted, tmp_path):
    X, y, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    plan = Plan(bootstrap=0, noise=(), radii=False, methods=(), validation=False, rows=2)
    found = made(fitted, tmp_path / "page.html", X, y, who, plan=plan)
    assert found.sections == [*ORDER[:2], "table", *ORDER[2:], "rows"]
    assert "must stay where the data lie" in found.words


def test_a_selection_brings_its_table(tmp_path):
    X, y, who = rows(n=25)
    X = (X - X.mean(0)) / X.std(0)
    grid = {"radius": [0.0, 0.1, 0.3]}
    found = drfl.select(
        drfl.DRFLClassifier(), X, y, who, grid=grid, folds=2, random_state=0, verbose=0
    )
    page = made(found, tmp_path / "page.html")
    assert found.reason in page.words
    assert "By the rule mean: of 3 grid points" in page.words
    facts = dict(cells_of(page, "Settings"))
    assert (facts["selection folds"], facts["selection seed"]) == ("2", "0")
    with_rows = made(found, tmp_path / "page.html", X, y, who, plan=BARE)
    (chart,) = [c for c in with_rows.charts if "held-out rows" in c["title"]]
    means = [point.mean for point in sorted(found.table, key=lambda p: p.params["radius"])]
    assert [y for _, y in chart["series"][0]["points"]] == pytest.approx(means)


def test_loaded_models_sparse_rows_and_regressors(tmp_path):
    X, _, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    y = X @ [1.0, 0.0, -2.0]
    regressor = drfl.DRFLRegressor(radius=0.01).fit(sparse.csr_array(X), y, clients=who)
    plan = Plan(2, (0.0, 1.0), 1, True, ("pooled",), validation=False)
    found = made(regressor, tmp_path / "page.html", sparse.csr_array(X), y, who, plan=plan)
    assert "mean squared error" in found.words
    drfl.save(regressor, tmp_path / "model.json")
    loaded = drfl.load(tmp_path / "model.json")
    found = made(loaded, tmp_path / "page.html")
    assert "The rounds are not recorded" in found.words


def cells_of(page, caption):
    table = re.search(rf"<caption>{caption}.*?</table>", page.source, re.DOTALL)[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]


def test_an_estimator_tells_what_left_each_client(fitted, tmp_path):
    X, _, who = rows()
    found = made(fitted, tmp_path / "page.html")
    cells = cells_of(found, "Answers of the clients")
    assert [row[:2] for row in cells] == [[name, "bundle/reply"] for name in "abc"]
    for row in cells:
        assert int(row[3]) == fitted.n_rounds_
        assert row[4] == f"{fitted.result_.bytes_up[row[0]] / 1000:.1f} kB"
        assert "cuts (" in row[2]
        assert "curvature (" in row[2]
    # Those of several models are counted together.
    X = (X - X.mean(0)) / X.std(0)
    three = drfl.DRFLClassifier(radius=0.1, multiclass="ovr")
    three.fit(X, np.digitize(X[:, 0], [-0.5, 0.5]), clients=who)
    cells = cells_of(made(three, tmp_path / "page.html"), "Answers of the clients")
    assert [row[0] for row in cells] == ["a", "b", "c"]
    assert {int(row[3]) for row in cells} == {sum(r.rounds for r in three.result_)}


def test_every_class_is_shown_with_its_adversary(tmp_path):
    X, _, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    robust = drfl.DRFLClassifier(radius=0.1, label_cost=2.0, multiclass="ovr")
    robust.fit(X, y, clients=who)
    plan = Plan(bootstrap=0, noise=(), radii=False, methods=(), validation=False)
    found = made(robust, tmp_path / "page.html", X, y, who, plan=plan)
    for label in ("high", "low", "mid"):
        cells = cells_of(found, f"The adversary&#x27;s choice, class {label}")
        assert [row[0] for row in cells] == ["a", "b", "c"]
        assert f"How far the adversary moves each column, class {label}" in found.source


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_curves_have_bands_or_the_reason_why_not(loss, tmp_path):
    rng = np.random.default_rng(0)
    X, clients = rng.normal(size=(300, 2)), np.repeat(["a", "b"], 150)
    y = np.where(1.0 - X[:, 0] ** 2 + 0.5 * rng.normal(size=300) > 0.0, "ill", "well")
    model = drfl.DRFLClassifier(loss, norm="l1", radius=0.01, additive=[0], tol=1e-4)
    model.fit(X, y, clients=clients)
    plan = Plan(bootstrap=0, noise=(), radii=False, methods=(), validation=False)
    words = made(model, tmp_path / "curves.html", X, y, clients, plan=plan).words
    assert ("95 % band" in words) == (loss == "logistic")
    assert ("No bands: no standard errors: the loss" in words) == (loss == "hinge")


def test_what_is_only_found_is_told_with_what_is_proved(tmp_path):
    rng = np.random.default_rng(0)
    X, who = rng.normal(size=(120, 2)), np.repeat(["a", "b"], 60)
    y = np.digitize(np.tanh(4.0 * X[:, 0]) + 0.4 * rng.normal(size=120), [-0.5, 0.5])
    # The steepest pieces are in the middle: moves of several classes at once could gain more.
    bent = {"additive": "all", "knots": [-1.0, -0.3, 0.3, 1.0], "multiclass": "joint"}
    robust = drfl.DRFLClassifier(norm="l1", radius=0.0005, **bent).fit(X, y, clients=who)
    plan = Plan(bootstrap=0, noise=(), radii=False, methods=(), validation=False)
    found = made(robust, tmp_path / "page.html", X, y, who, plan=plan)
    for name in "ab":
        mine = Rows(X[who == name], y[who == name] * 1.0)
        oracle = robust.problem_.oracle(mine, name)
        worst = oracle.evaluate(robust.coef_, robust.intercept_)
        assert worst.value < worst.bound
        said = f"{name}: the worst loss was found, and is at most {worst.bound:.5g}, as proved"
        assert said in found.words
    assert "It is the worst case within the radii that was found" in found.words
    straight = drfl.DRFLClassifier(norm="l1", radius=0.0005, multiclass="joint")
    plain = made(straight.fit(X, y, clients=who), tmp_path / "line.html", X, y, who, plan=plan)
    assert "It is the worst case within the radii:" in plain.words
    assert "was found" not in plain.words


def test_a_shared_ball_is_explained(tmp_path):
    X, y, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    shared = WAFLClassifier(radius=0.1, label_cost=1.0).fit(X, y, clients=who)
    plan = Plan(bootstrap=0, noise=(), radii=False, methods=(), validation=False)
    found = made(shared, tmp_path / "page.html", X, y, who, plan=plan)
    assert "the adversary has one budget" in found.words
    cells = cells_of(found, "The adversary&#x27;s choice")
    assert [row[0] for row in cells] == ["a", "b", "c"]


def test_radii_of_their_own_are_told(tmp_path):
    """Every client has its own; the label cost is that of all."""
    X, y, who = rows()
    X, y, who = ((X - X.mean(0)) / X.std(0))[:100], y[:100], who[:100]
    radii = {"a": 0.01581, "b": 0.01581, "c": 0.02236}
    robust = classifier(radius=radii, label_cost=3.0).fit(X, y, clients=who)
    found = made(robust, tmp_path / "page.html", X, y, who, plan=BARE)
    assert (
        "Against rows that move by 0.01581 to 0.02236 on average, every client's by its own "
        "radius, in the norm l1 (a label changes at the cost 3), and against weights"
    ) in found.words
    facts = dict(cells_of(found, "The problem that was solved"))
    assert facts["label_cost"] == "3"
    assert '"c": 0.0223' in html.unescape(facts["radius"])


@pytest.mark.parametrize(("given", "told"), [(None, "0"), (5, "5")])
def test_versions_and_the_seed_are_told(given, told, tmp_path):
    X, y, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    robust = drfl.DRFLClassifier(radius=0.1, random_state=given).fit(X, y, clients=who)
    found = made(robust, tmp_path / "page.html")
    facts = dict(cells_of(found, "Versions and seed"))
    assert facts["seed"] == told
    assert facts["drfl"] == drfl.__version__
    for package in ("numpy", "scipy", "scikit-learn", "piqp"):
        assert facts[package] == version(package)
    assert f"drfl {drfl.__version__}, seed {told}, the settings below" in found.words


def test_what_is_wrong_is_said_in_a_sentence(fitted, tmp_path):
    X, y, who = rows()
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match="both X and y"):
        drfl.report(fitted, path, X)
    with pytest.raises(ValueError, match="name the client of each row"):
        drfl.report(fitted, path, X, y)
    with pytest.raises(ValueError, match="not of the clients of the fit, a, b, c"):
        drfl.report(fitted, path, X, y, np.repeat(["a", "x"], 60))
    with pytest.raises(ValueError, match="which the model does not know"):
        drfl.report(fitted, path, X, np.where(y == "yes", "maybe", "no"), who)
    with pytest.raises(ValueError, match="2 columns, but the model has 3"):
        drfl.report(fitted, path, X[:, :2], y, who)
    with pytest.raises(TypeError, match="none of drfl's estimators"):
        drfl.report(StandardScaler().fit(X), path)
    assert not path.exists()


def test_messages_of_a_run_are_counted(tmp_path):
    X, y, who = rows()
    signs = np.where(y == "yes", 1.0, -1.0)
    clients = [drfl.Client(name, X[who == name], signs[who == name]) for name in "abc"]
    problem = drfl.Problem("hinge", drfl.Ball(0.1))
    result = drfl.solve(problem, clients, tol=1e-2)
    lines = [r for r in run_records() if r["kind"] != "messages"]
    lines += [{"kind": "messages", **sent} for sent in message_facts([result])]
    folder = write_run(tmp_path, lines)
    page = Page(drfl.report.write(folder).read_text(encoding="utf-8"))
    table = re.search(r"Answers of the clients.*?</table>", page.source, re.DOTALL)[0]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    mine = [row for row in cells if row[0] == "a"]
    assert sum(int(row[3]) for row in mine) == result.rounds
    total = sum(float(row[4].removesuffix(" kB")) for row in mine)
    assert total == pytest.approx(result.bytes_up["a"] / 1000, abs=0.06 * len(mine))


def test_a_run_is_told_with_its_model_and_its_rows(fitted, tmp_path):
    X, y, who = rows()
    X = (X - X.mean(0)) / X.std(0)
    (line,) = [r for r in run_records() if r["kind"] == "result"]
    line["models"][0]["coef"] = fitted.coef_[0].tolist()
    line["features"] = ["x1", "x2", "x3"]
    counts = {"kind": "preflight", "rows": dict.fromkeys("abc", 40), "classes": ["no", "yes"]}
    earlier = [r for r in run_records() if r["kind"] in ("start", "problem")]
    other = {"kind": "comparison", "method": "erm", "clients": {}}
    folder = write_run(tmp_path, [*earlier, counts, line, other])
    drfl.save(fitted, folder / "model.json")
    codes = (y == "yes").astype(float)
    data = {name: ClientSample(X[who == name], codes[who == name]) for name in "abc"}
    plan = Plan(bootstrap=2, noise=(0.0,), draws=1, radii=False, methods=("erm", "pooled"))
    path = drfl.report.write(folder, tmp_path / "elsewhere.html", data=data, plan=plan)
    found = Page(path.read_text(encoding="utf-8"))
    # The records have the problem before a selection, radius 0.05; the model knows its own.
    assert "rows that move by 0.1 on average" in found.words
    assert "Coefficients per unit of the file" in [chart["title"] for chart in found.charts]
    assert "bootstrap percentile intervals" in found.words
    # What the run has compared already is not trained again.
    assert "[&quot;pooled&quot;]" in found.source
    assert not (folder / "report.html").exists()
