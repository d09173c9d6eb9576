"""A training over clients elsewhere is the training over their files, message by message."""

import json

import numpy as np
import pytest

import drfl
from drfl import Policy
from drfl.models import read_model
from drfl.models.plain import encoding_to_plain
from drfl.privacy import Guard
from drfl.protocols.data_request import text_array
from drfl.protocols.evaluation import evaluate
from drfl.protocols.explanation import explain, explained_facts
from drfl.protocols.federation import Remote
from drfl.protocols.station import PREFLIGHT, Station
from drfl.tables import Category, Reading
from drfl.training.local_files import Files, files_here
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from drfl.wire import Failure, Message
from kit.stations import Loopback, Silent

NAMES = ("south", "north", "west")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three clients; the target is of two classes, of three, or a number."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(3)
    for name, rows in zip(NAMES, (40, 31, 53), strict=True):
        age, dose = rng.normal(60, 9, rows), rng.normal(2.0, 0.5, rows)
        sex = rng.choice(["f", "m"], rows)
        score = (age - 60) / 9 - (dose - 2.0) + 0.7 * rng.normal(size=rows)
        ill = np.where(score > 0.0, "yes", "no")
        stage = np.digitize(score, [-0.5, 0.8])
        lines = ["age,dose,sex,ill,stage,score"] + [
            f"{a:.3f},{d:.4f},{s},{i},s{g},{v:.4f}"
            for a, d, s, i, g, v in zip(age, dose, sex, ill, stage, score, strict=True)
        ]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return {name: folder / f"{name}.csv" for name in NAMES}


TASKS = {
    "ill": {"target": "ill", "exclude": "stage,score", "radius": "0.02"},
    "stage": {"target": "stage", "exclude": "ill,score", "tol": "1e-4"},
    "score": {"target": "score", "exclude": "ill,stage", "compare": "erm,fedavg"},
    "curves": {
        "target": "ill",
        "exclude": "stage,score",
        "additive": "age,dose",
        "knots": "2",
        "increasing": "age",
        "radius": "0.02",
    },
}


def remote(files, **more):
    engine = Loopback([Station(name, path, **more) for name, path in files.items()])
    return engine, Remote(engine, list(files))


def run(values, files, folder, federation=None):
    clients = dict.fromkeys(files) if federation else files
    settings = from_values({"validation": False, "leave_out": False} | values, clients)
    folder = RunFolder(folder / "RUN", folder / "kept")
    federation = federation or files_here(settings, folder)
    return train(settings, folder, federation, Silent(), fresh=True), folder


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.sampled(2)
def test_sites_give_the_model_of_the_files(task, files, tmp_path):
    here, one = run(TASKS[task], files, tmp_path / "here")
    engine, federation = remote(files)
    there, other = run(TASKS[task], files, tmp_path / "there", federation)
    assert one.model.read_bytes() == other.model.read_bytes()
    assert there.proved == here.proved
    for record, twin in zip(here.records.all, there.records.all, strict=True):
        assert record["kind"] == twin["kind"]
        if record["kind"] in ("result", "comparison"):
            assert record["clients"] == twin["clients"]
    if task == "curves":
        assert sum(map(len, read_model(one.model).problem.curves.knots)) >= 3
    rows = {len(path.read_text().splitlines()) - 1 for path in files.values()}
    assert not [r for _, r in engine.sent for a in r.arrays.values() if rows & set(a.shape)]


@pytest.mark.parametrize("task", ["ill", "stage", "curves"])
@pytest.mark.sampled(3)
def test_a_selection_over_sites_chooses_as_one_over_files(task, files, tmp_path):
    values = {**TASKS[task], "select": "one_se", "folds": 3, "tol": "1e-3"}
    here, _ = run(values, files, tmp_path / "here")
    there, folder = run(values, files, tmp_path / "there", remote(files)[1])
    (one,), (other,) = (
        [r for r in out.records.all if r["kind"] == "selection"] for out in (here, there)
    )
    assert one == other
    assert folder.remembered("selection")["radius"] == one["radius"]


def test_a_validation_over_sites_is_that_of_the_files_groups_and_all(files, tmp_path):
    values = {**TASKS["ill"], "validation": True, "folds": 3, "tol": "1e-3"}
    values |= {"by": ["sex", "age:55,65"], "threshold": [0.3, 0.5]}
    here, _ = run(values, files, tmp_path / "here")
    there, _ = run(values, files, tmp_path / "there", remote(files)[1])
    (one,), (other,) = (
        [r for r in out.records.all if r["kind"] == "validation"] for out in (here, there)
    )
    assert json.dumps(one) == json.dumps(other)
    assert sum(one["groups"][f"sex = {sex}"]["rows"] for sex in "fm") == 40 + 31 + 53
    assert len(one["groups"]) == 5
    assert one["probabilities"]["all clients"]["thresholds"] == [0.3, 0.5]


def test_models_are_evaluated_and_explained_over_sites(files, tmp_path):
    _, folder = run(TASKS["stage"], files, tmp_path)
    model = read_model(folder.model)
    found = []
    for federation in (Files([Station(*pair) for pair in files.items()]), remote(files)[1]):
        noise = evaluate(federation, model, noise=(0.0, 0.5), repeats=3, seed=1)
        attacks = [explained_facts(k, *told) for k, told in enumerate(explain(federation, model))]
        found.append(json.dumps([noise, attacks]))
    assert found[0] == found[1]
    assert noise["north"][0]["accuracy"] > noise["north"][1]["accuracy"]


def test_a_rare_value_that_others_name_is_the_same_in_training_and_evaluation(tmp_path):
    rng = np.random.default_rng(5)
    files = {}
    for name, towns in {
        "p": ["oslo"] * 20 + ["bern"] * 20,
        "q": ["oslo"] * 3 + ["bern"] * 40,
    }.items():
        dose = rng.normal(size=len(towns))
        lines = [
            f"{d:.4f},{t},{'no' if d + (t == 'oslo') > 0.4 else 'yes'}"
            for d, t in zip(dose, towns, strict=True)
        ]
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("\n".join(["dose,town,ill", *lines]) + "\n")
    out, folder = run({"target": "ill", "radius": "0.0"}, files, tmp_path / "run")
    (result,) = [r for r in out.records.all if r["kind"] == "result"]
    fresh = Files([Station(*pair) for pair in files.items()])
    found = evaluate(fresh, read_model(folder.model))
    assert {name: entry[0] for name, entry in found.items()} == result["clients"]
    losses = {name: a.worst_loss for name, a in explain(fresh, out.model)[0][0].items()}
    assert losses == pytest.approx(out.results[0].client_losses)


def towned(path, towns):
    """A file of towns, doses and whether ill."""
    dose = np.random.default_rng(len(towns)).normal(size=len(towns))
    lines = [f"{d:.4f},{t},{'no' if d > 0.0 else 'yes'}" for d, t in zip(dose, towns, strict=True)]
    path.write_text("\n".join(["dose,town,ill", *lines]) + "\n")
    return path


def test_a_level_other_that_no_row_is_in_is_not_trained(tmp_path):
    """It would have the coefficient 0, and what was not trained the score of the reference."""
    towns = {"p": ["oslo"] * 20 + ["bern"] * 20, "q": [" Oslo"] * 3 + ["bern"] * 40}
    files = {name: towned(tmp_path / f"{name}.csv", of) for name, of in towns.items()}
    values = {"target": "ill", "radius": "0.0", "tol": "1e-6"}
    out, folder = run(values, files, tmp_path / "run")
    (_, town) = read_model(folder.model).columns
    assert town == Category("town", "bern", ("oslo",), False, (20 / 80,))
    engine, federation = remote(files)
    away, _ = run(values, files, tmp_path / "away", federation)
    assert away.model.coef.tobytes() == out.model.coef.tobytes()
    told = [
        (name, r.arrays["held"].tolist()) for name, r in engine.sent if r.kind == "others/reply"
    ]
    assert told == [("q", [0])]  # nobody else has rare values

    model, rows = drfl.load(folder.model), {"dose": [1.0] * 3, "town": ["bern", "oslo", "Paris"]}
    with pytest.warns(drfl.DataWarning, match="here the mean over the values that were trained"):
        bern, oslo, paris = model.decision_function(rows)
    assert paris == pytest.approx(0.75 * bern + 0.25 * oslo)
    assert bern != paris != oslo
    towned(files["q"], [*towns["q"], "Riva"])
    _, folder = run(values, files, tmp_path / "again")
    assert read_model(folder.model).columns[1] == Category("town", "bern", ("oslo", "other"), True)


def test_a_guard_is_not_asked_who_is_rare(tmp_path):
    towns = {"p": ["oslo"] * 50 + ["bern"] * 50, "q": ["oslo"] * 3 + ["bern"] * 97}
    files = {name: towned(tmp_path / f"{name}.csv", of) for name, of in towns.items()}
    engine, federation = remote(files, guard=Guard(5))
    values = {"target": "ill", "solver": "bundle", "tol": "0.5", "max_rounds": "3"}
    out, _ = run(values, files, tmp_path / "run", federation)
    assert not any(reply.kind == "others/reply" for _, reply in engine.sent)
    assert out.model.columns[1].levels == ("oslo", "other")  # q's three rows are in it, with more
    encoding = {"encoding": text_array(encoding_to_plain(out.model))}
    asked = engine.stations["q"].answer(Message("others", 0, encoding))
    assert Failure.of(asked) is Failure.REFUSED


def test_a_site_tells_how_many_rows_hold_what_was_not_trained(tmp_path):
    known = {n: towned(tmp_path / f"{n}.csv", ["oslo", "bern"] * 20) for n in ("p", "q")}
    out, _ = run({"target": "ill", "radius": "0.0"}, known, tmp_path / "run")
    new = {
        "p": known["p"],
        "few": towned(tmp_path / "few.csv", ["oslo"] * 30 + ["rome"] * 3),
        "many": towned(tmp_path / "many.csv", ["oslo"] * 30 + ["rome"] * 5 + ["Bern "] * 4),
    }
    engine, federation = remote(new)
    told = []
    evaluate(federation, out.model, warn=told.append)
    rest = "of 'town' that was not trained: it is 'other', here the mean over the values that were"
    assert told == [
        f"few: fewer than 5 rows hold a value {rest} trained",
        f"many: 5 rows hold a value {rest} trained",
    ]
    sent = {name: reply.arrays["unseen"].tolist() for name, reply in engine.sent}
    assert sent == {"p": [0], "few": [1], "many": [5]}  # not how many fewer than 5


def test_under_a_guard_rare_categories_were_trained_as_one_and_nothing_is_told(tmp_path):
    files = {
        "p": towned(tmp_path / "p.csv", ["oslo", "bern", "rome"] * 40 + ["kyiv"] * 2),
        "q": towned(tmp_path / "q.csv", ["oslo", "bern", "rome"] * 40),
    }
    stations = [Station(name, path, Guard(5)) for name, path in files.items()]
    engine = Loopback(stations)
    values = {"target": "ill", "solver": "bundle", "tol": "0.5", "max_rounds": "3"}
    run(values, files, tmp_path / "run", Remote(engine, list(files)))
    replies = [reply for _, reply in engine.sent if reply.kind == "evaluate/reply"]
    assert replies
    assert not any("unseen" in reply.arrays for reply in replies)


def test_what_is_wrong_with_a_file_stays_where_it_is(files, tmp_path, caplog):
    (tmp_path / "bad.csv").write_text("age,dose,sex,ill\n61,2.0,f,yes\n44,,m,no\n")
    engine, federation = remote({**files, "bad": tmp_path / "bad.csv"})
    with pytest.raises(ValueError, match=r"client 'bad' did not answer: its file cannot be used"):
        run(TASKS["ill"], {**files, "bad": None}, tmp_path, federation)
    assert not (tmp_path / "RUN").exists()
    assert "column 'dose' has no value in line 3" in caplog.text
    assert all(not reply.arrays for _, reply in engine.sent if Failure.of(reply))


def test_columns_may_have_other_names_at_a_site(files, tmp_path):
    text = files["west"].read_text().replace("age,dose", "alter,dosis", 1)
    (tmp_path / "west.csv").write_text(text)
    own = {**files, "west": tmp_path / "west.csv"}
    renamed = {"age": "alter", "dose": "dosis"}
    stations = [
        Station(n, p, reading=Reading(names=renamed if n == "west" else {})) for n, p in own.items()
    ]
    _, one = run(TASKS["ill"], files, tmp_path / "here")
    _, other = run(TASKS["ill"], own, tmp_path / "there", Remote(Loopback(stations), NAMES))
    assert one.model.read_bytes() == other.model.read_bytes()
    model = read_model(one.model)
    assert evaluate(Files(stations), model) == evaluate(
        Files([Station(*p) for p in files.items()]), model
    )


def test_a_station_that_is_told_everything_again_goes_on_as_before(files, tmp_path):
    class Restarting(Loopback):
        """Every third answer is given by a station that was started again."""

        def __init__(self, stations):
            super().__init__(stations)
            self.told, self.count = {name: [] for name in NAMES}, 0

        def _carried(self, site, message, seat):
            self.count += 1
            if message.kind == PREFLIGHT:
                self.told[site].clear()
            if self.count % 3 == 0:
                self.stations[site] = Station(site, files[site])
                for known, at in self.told[site]:
                    self.stations[site].answer(known, at)
            self.told[site].append((message, seat))
            return super()._carried(site, message, seat)

    engine = Restarting([Station(*pair) for pair in files.items()])
    _, here = run(TASKS["ill"], files, tmp_path / "here")
    _, there = run(TASKS["ill"], files, tmp_path / "there", Remote(engine, NAMES))
    assert engine.count > 10
    assert here.model.read_bytes() == there.model.read_bytes()


def test_guards_are_told_of_and_bypassed_by_nothing(files, tmp_path):
    guard = {name: Guard(k=3, secret=b"0" * 32) for name in files}
    engine = Loopback(
        [Station(n, p, guard[n], policy=Policy(curvature=False)) for n, p in files.items()]
    )
    federation = Remote(engine, NAMES)
    values = {**TASKS["ill"], "tol": "0.2", "max_rounds": 30}
    out, folder = run(values, files, tmp_path, federation)
    (start,) = [r for r in out.records.all if r["kind"] == "start"]
    assert start["guard"] == "guard: south k = 3, north k = 3, west k = 3; ledgers at the clients"
    model = read_model(folder.model)
    for ask in (
        lambda: explain(federation, model),
        lambda: evaluate(federation, model, noise=(0.5,)),
        lambda: run({**values, "select": "mean"}, files, tmp_path / "again", federation),
    ):
        with pytest.raises(ValueError, match="its policy, guard or rows do not"):
            ask()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message("bundle", 0, {}), Failure.BAD_REQUEST),
        (Message("bind", 0, {}), Failure.BAD_REQUEST),
        (Message("preflight", 0, {}), Failure.BAD_REQUEST),
        (Message("preflight", 0, {"request": np.array([1, 2], np.uint8)}), Failure.BAD_REQUEST),
        (Message("evaluate", 0, {}), Failure.BAD_REQUEST),
        (Message("explain", 0, {"model": np.array([123], np.uint8)}), Failure.BAD_REQUEST),
        (Message("open_file", 0, {}), Failure.BAD_REQUEST),
    ],
)
def test_messages_that_make_no_sense_get_a_code(message, code, files):
    station = Station("north", files["north"])
    assert Failure.of(station.answer(message)) is code
