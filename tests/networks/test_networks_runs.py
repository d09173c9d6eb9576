"""Runs of networks: methods, engines, checkpoints, faces; what is refused."""

import copy
import math
import pickle
import pickletools
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch
from networks_kit import Halved, Tied, clients, mlp, rows
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import drfl
from drfl.client import Site
from drfl.engines import SerialEngine
from drfl.native import METHODS, DualADMM, FedAvg
from drfl.privacy import Guard
from drfl.torch import Model, TorchClassifier, TorchRegressor, register
from drfl.wire import Failure, Message

PROBLEM = drfl.Problem(Model("mlp"), drfl.Ball(0.2, "l2", order=2), drfl.Mixture("proportional"))


def same(one, other):
    assert one.coef.tobytes() == other.coef.tobytes()
    assert one.objective == other.objective


def test_no_radius_is_fedavg_bit_by_bit():
    """Against a plain loop in torch that does the same arithmetic."""
    method = FedAvg(local_steps=3, step_size=0.2, seed=5, evaluate_every=1)
    plain = drfl.Problem(Model("mlp"), drfl.Ball(), drfl.Mixture("uniform"))
    for order in (2, math.inf):
        balls = drfl.Ball(0.0, "l2", order=order)
        other = drfl.Problem(Model("mlp"), balls, drfl.Mixture("uniform", 0.0))
        run = drfl.solve(other, clients(), solver=method, max_rounds=7)
        same(run, drfl.solve(plain, clients(), solver=method, max_rounds=7))
    with torch.random.fork_rng():
        torch.manual_seed(5)
        module = mlp()
    x = np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])
    data = [(torch.tensor(c.rows.take(slice(None))), torch.tensor(c.rows.y)) for c in clients()]
    share = np.full(3, 1.0 / 3.0)
    for _ in range(5):  # the first round is an introduction, the last one evaluates
        ends = []
        for X, y in data:
            v = x
            for _ in range(3):
                model = Model("mlp").module_at(v)
                mass = torch.full((len(y),), 1.0 / len(y), dtype=torch.float64)
                losses = nn.functional.cross_entropy(model(X), y.long(), reduction="none")
                (mass @ losses).backward()
                g = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
                v = v - 0.2 * g
            ends.append(v)
        x = (share / share.sum()) @ np.array(ends)
    assert run.coef.tobytes() == x.tobytes()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_trains_a_network(name):
    kind = METHODS[name]
    settings = {"averaged": False} if kind.robust and name != "scaff_pd" else {}
    mixture = drfl.Mixture("uniform", 0.5 if kind.robust else 0.0)
    radius = 0.0 if name == "wafl" else 0.1
    problem = drfl.Problem(Model("mlp"), drfl.Ball(radius, "l2", order=2), mixture)
    run = drfl.solve(problem, clients(), solver=kind(**settings), max_rounds=40)
    assert run.objective < 0.99 * run.history[0].objective, name
    assert run.lower_bound == 0.0
    assert len(run.coef) == Model("mlp").dimension


def test_engines_and_repeats_give_the_same_bits():
    method = FedAvg(local_steps=2, batch_size=8, participation=0.7, seed=3)
    first = drfl.solve(PROBLEM, clients(), solver=method, max_rounds=5)
    same(first, drfl.solve(PROBLEM, clients(), solver=method, max_rounds=5))
    named = drfl.Problem.from_dict(PROBLEM.to_dict())
    same(first, drfl.solve(named, clients(), solver=method, max_rounds=5))
    assert not np.array_equal(
        first.coef,
        drfl.solve(PROBLEM, clients(), solver=FedAvg(seed=4), max_rounds=5).coef,
    )


@pytest.mark.parametrize("module", ["mlp", mlp], ids=["name", "function"])
def test_other_processes_give_the_same_bits(module):
    """Workers are started afresh: they find the module by its name, or where its function is."""
    problem = drfl.Problem(
        Model(module), drfl.Ball(0.2, "l2", order=2), drfl.Mixture("uniform", 0.5)
    )
    method = DualADMM(local_steps=2, seed=1, batch_size=8, participation=0.7)
    here = drfl.solve(problem, clients(), solver=method, max_rounds=4)
    there = drfl.solve(problem, clients(), solver=method, max_rounds=4, engine="processes")
    same(here, there)


def test_a_module_never_travels_as_a_pickle():
    model = Model("mlp")
    assert model.built is not None  # it is at hand, and yet
    stream = pickle.dumps(model)
    named = {value for code, value, _ in pickletools.genops(stream) if isinstance(value, str)}
    assert not any(text.startswith("torch") for text in named), named
    assert len(stream) < 300
    assert pickle.loads(stream) == model
    here = TorchClassifier(two_classes(), engine="processes", rounds=1)
    with pytest.raises(ValueError, match="does not travel to other processes"):
        here.fit(*data()[:2])


def test_a_name_of_an_installed_package_is_found(tmp_path, monkeypatch):
    """As at a site: what is not registered is looked for among entry points, and nowhere else."""
    (tmp_path / "ward_networks.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Linear(4, 3).double()\n"
    )
    info = tmp_path / "ward-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ward\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[drfl.modules]\nward = ward_networks:build\n")
    with pytest.raises(ValueError, match="unknown module"):
        Model("ward")
    monkeypatch.syspath_prepend(tmp_path)
    problem = drfl.Problem.from_dict(drfl.Problem(Model("ward")).to_dict())
    assert problem.network.dimension == 15
    with pytest.raises(ValueError, match="unknown module"):
        Model("ward_networks:build")


@pytest.mark.parametrize("build", [Tied, Halved])
def test_modules_of_any_form(build):
    problem = drfl.Problem(Model(build), drfl.Ball(0.1, "l2", order=2))
    run = drfl.solve(problem, clients(), solver=FedAvg(seed=2, step_size=0.3), max_rounds=12)
    assert run.objective < run.history[0].objective
    module = problem.network.module_at(run.coef)
    assert len(run.coef) == sum(p.numel() for p in module.parameters())
    X = torch.tensor(clients()[0].rows.take(slice(None)), dtype=torch.float32)
    loss = problem.network.at(clients()[0].rows, drfl.Ball(), "c0")
    loss.set(run.coef)
    assert torch.equal(module(X), loss.module(X))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_run_that_was_stopped_goes_on(name, tmp_path):
    given = {"seed": 2, "local_steps": 3, "batch_size": 8, "participation": 0.7}
    known = {field.name for field in fields(METHODS[name])}
    method = METHODS[name](**{key: value for key, value in given.items() if key in known})
    ball = drfl.Ball(0.0 if name == "wafl" else 0.2, "l2", order=2)
    problem = drfl.Problem(Model("mlp"), ball, drfl.Mixture("uniform", 0.5 * method.robust))
    whole = drfl.solve(problem, clients(), solver=method, max_rounds=9)
    path = tmp_path / "run.drfl"
    stop = [lambda record: record.round == 4]
    drfl.solve(problem, clients(), solver=method, max_rounds=9, checkpoint=path, callbacks=stop)
    same(whole, drfl.solve(problem, clients(), solver=method, max_rounds=9, checkpoint=path))


def test_the_dual_first_scheme_needs_fewer_rounds():
    problem = drfl.Problem(Model("mlp"), drfl.Ball(0.1, "l2", order=2), drfl.Mixture("uniform"))
    runs = [
        drfl.solve(
            problem,
            clients(),
            solver=method(local_steps=5, step_size=0.2, evaluate_every=1),
            max_rounds=40,
        )
        for method in (FedAvg, DualADMM)
    ]
    target = runs[0].history[-1].objective
    first = next(record.round for record in runs[1].history if record.objective <= target)
    assert first <= 0.6 * runs[0].rounds


@pytest.mark.parametrize(("radius", "share"), [(0.0, 0.05), (0.3, 0.2)])
def test_the_dual_first_scheme_ends_where_no_direction_helps(radius, share):
    """Not convex: the least gradient among the mixtures that are worst there nearly vanishes."""
    mixture = drfl.Mixture("uniform", radius)
    problem = drfl.Problem(Model("mlp"), drfl.Ball(), mixture)
    method = DualADMM(local_steps=5, step_size=0.2)
    run = drfl.solve(problem, clients(), solver=method, max_rounds=400)
    before, after = (steepness(problem, x) for x in (problem.network.start(0), run.coef))
    assert after <= share * before
    assert run.objective < 0.5 * run.history[0].objective


def steepness(problem, x):
    """The least norm of sum_s q_s grad F_s(x), over q in Q whose loss is the largest within 1 %."""
    parts = [problem.network.at(c.rows, drfl.Ball(), c.name) for c in clients()]
    F, G = (np.array(v) for v in zip(*(p.value_and_gradient(x) for p in parts), strict=True))
    mix = problem.mixture.resolve([part.n_rows for part in parts])
    steps = np.linspace(0.0, 1.0, 41)
    q = np.array([mix.project(np.array([a, b, 1.0 - a - b])) for a in steps for b in steps])
    worst = q @ F >= 0.99 * (q @ F).max()
    return np.linalg.norm(q[worst] @ G, axis=1).min()


def test_what_comes_from_the_network_is_validated():
    """A site refuses a vector of another length or with a NaN, the server such an answer."""
    site = Site(clients()[0], PROBLEM)
    d = PROBLEM.network.dimension
    good = {
        "plan": np.array([0, 0, 1], dtype=np.uint8),
        "x": PROBLEM.network.start(0),
        "local": np.array([2, 0, 0]),
        "step": np.array(0.1),
    }

    def answer(**change):
        return site.answer(Message("fedavg", 1, {**good, **change}), FedAvg.handlers)

    reply = answer()
    assert Failure.of(reply) is None
    assert reply.arrays["model"].shape == (d,)
    for wrong in (
        np.zeros(d + 1),
        np.zeros(d, dtype=np.float32),
        np.zeros((d, 1)),
        np.full(d, np.nan),
    ):
        assert Failure.of(answer(x=wrong)) is Failure.BAD_REQUEST


class Lying(SerialEngine):
    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        for name, reply in answers.replies.items():
            if name == "c1" and reply.round == 3:
                wrong = {**reply.arrays, "model": np.zeros(3)}
                answers.replies[name] = Message(reply.kind, reply.round, wrong)
        return answers


def test_an_answer_of_another_length_counts_as_missing():
    run = drfl.solve(PROBLEM, clients(), solver=FedAvg(), max_rounds=6, engine=Lying())
    assert "'model'" in run.history[3].failures["c1"]
    assert run.objective < run.history[0].objective


def test_a_guarded_client_does_not_answer_for_networks():
    guarded = [drfl.Client("a", *rows(np.random.default_rng(0), 80), guard=Guard(k=5))]
    with pytest.raises(ValueError, match=r"a guard knows the losses .*, not 'network'"):
        drfl.solve(PROBLEM, guarded, solver=FedAvg(), max_rounds=2)


def test_weights_of_the_worst_clients_help_them():
    plain = drfl.Problem(Model("mlp"), drfl.Ball(), drfl.Mixture("uniform"))
    fair = drfl.Problem(Model("mlp"), drfl.Ball(), drfl.Mixture("uniform", math.inf))
    method = DualADMM(local_steps=5, step_size=0.3)
    worst = [
        max(drfl.solve(p, clients(), solver=method, max_rounds=80).client_losses.values())
        for p in (plain, fair)
    ]
    assert worst[1] < worst[0]


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.array(["no", "yes"])[(X[:, 0] * X[:, 1] > 0.0).astype(int)]
    return X, y, np.array(["a", "b", "c"])[np.arange(90) % 3]


def two_classes():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


def fitted(module, **settings):
    X, y, who = data()
    return TorchClassifier(module, rounds=3, random_state=0, **settings).fit(X, y, clients=who)


def test_a_classifier_learns_what_no_line_can():
    X, y, who = data()
    model = TorchClassifier(two_classes, rounds=60, step_size=0.5, radius=0.05, random_state=0)
    model.fit(X, y, clients=who)
    assert model.score(X, y) > 0.9
    assert drfl.DRFLClassifier().fit(X, y, clients=who).score(X, y) < 0.75
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    intervals = model.worst_case(X, y, clients=who)
    assert list(intervals) == ["a", "b", "c"]
    for name, loss in zip(intervals, model.client_losses_, strict=True):
        assert intervals[name].lower <= intervals[name].upper
        assert intervals[name].lower == pytest.approx(loss, rel=0.2)
    with torch.no_grad():
        scores = model.module_(torch.tensor(X, dtype=torch.float32)).numpy()
    assert (model.classes_[scores.argmax(axis=1)] == model.predict(X)).all()


def test_a_fit_says_what_looks_wrong_in_the_data_as_linear_models_do():
    X, y, who = data()
    X = X.copy()
    X[who == "c", 1] *= 1000.0  # another unit
    for kind in (drfl.DRFLClassifier, lambda: TorchClassifier(two_classes, rounds=1)):
        with pytest.warns() as caught:
            kind().fit(X, y, clients=who)
        told = {w.category for w in caught}
        assert {drfl.DataWarning, drfl.ScaleWarning} <= told
        assert all(w.filename == __file__ for w in caught if w.category in told), told
        sentences = {str(w.message) for w in caught if w.category is drfl.DataWarning}
        assert any("column 1" in sentence for sentence in sentences)
    X, spelt = data()[0], np.where(np.arange(90) % 7 == 0, "Yes ", y)
    with pytest.raises(ValueError, match="merge_labels"):
        TorchClassifier(two_classes, rounds=1).fit(X, spelt)
    numbers, few = np.linspace(0.0, 1.0, 90) ** 2, np.repeat(["a", "b", "tiny"], [50, 37, 3])
    plain = TorchRegressor(nn.Linear(4, 1), rounds=1, mixture_center="uniform")
    with pytest.warns(drfl.DataWarning, match="hardly any rows"):
        plain.fit(X, numbers, clients=few)


def test_a_regressor_and_scikit_learn_around_it():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4))
    y = np.abs(X[:, 0]) + 0.05 * rng.normal(size=80)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    model = TorchRegressor(module, rounds=80, step_size=0.2, random_state=0)
    before = copy.deepcopy(module.state_dict())
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    assert pipeline.score(X, y) > 0.8
    assert all((module.state_dict()[name] == value).all() for name, value in before.items())
    search = GridSearchCV(model, {"radius": [0.0, 5.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"radius": 0.0}
    again = clone(model).fit(X, y)
    assert (again.predict(X) == model.fit(X, y).predict(X)).all()
    pickle.loads(pickle.dumps(again))  # the estimator on this machine, not a message


def test_what_travels_are_arrays_of_the_length_of_the_model():
    seen = []

    def look(record):
        seen.append(sum(record.bytes_up.values()))

    drfl.solve(PROBLEM, clients(), solver=FedAvg(), max_rounds=3, callbacks=[look])
    d = Model("mlp").dimension
    assert max(np.diff([0, *seen])) < 3 * (8 * d + 200)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Model("no such module"), "unknown module"),
        (lambda: Model("mlp", "hinge"), "unknown loss"),
        (lambda: Model(lambda: nn.BatchNorm1d(4)), "buffer"),
        (lambda: Model(lambda: nn.BatchNorm1d(4, track_running_stats=False)), "mixes the rows"),
        (lambda: Model(lambda: nn.Linear(4, 3).half()), "float32 or float64"),
        (lambda: Model(lambda: nn.Linear(4, 3).requires_grad_(False)), "requires_grad=False"),
        (lambda: fitted(lambda: nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5))), "at random"),
        (lambda: fitted(lambda: nn.Sequential(nn.Linear(4, 2), nn.RReLU())), "at random"),
        (lambda: fitted(two_classes, loss="squared"), "takes loss='cross_entropy'"),
        (lambda: fitted(two_classes, method="wafl", radius=0.1), "take radius 0"),
        (lambda: fitted(two_classes, mixture_radius=0.1), "mixture of radius 0"),
        (lambda: fitted(two_classes, order=1, radius=0.1), "steepest there"),
        (lambda: Model(nn.ReLU), "no parameters"),
        (lambda: Model(lambda: 3), "must build a torch.nn.Module"),
        (lambda: Model(3), "registered name"),
        (lambda: drfl.Problem(Model("mlp"), drfl.Ball(0.1, "l2")), "no ball of order 1"),
        (lambda: drfl.Problem(Model("mlp"), drfl.Ball(0.1, "l1", order=2)), "norm='l2'"),
        (lambda: drfl.Problem("hinge", drfl.Ball(0.1, order=2)), "order 1"),
        (lambda: drfl.Ball(0.1, order=3), "order must be"),
        (lambda: register("mlp")(lambda: None), "choose another name"),
        (lambda: drfl.Problem(Model(mlp)).to_dict(), "cannot be written down"),
        (lambda: drfl.solve(PROBLEM, clients()), "gradients alone"),
        (
            lambda: drfl.solve(
                PROBLEM, [drfl.Client("a", np.ones((3, 5)), np.zeros(3))], solver=FedAvg()
            ),
            "5 columns",
        ),
        (
            lambda: drfl.solve(
                PROBLEM, [drfl.Client("a", np.ones((3, 4)), np.full(3, 7.0))], solver=FedAvg()
            ),
            "classes 0 to 2",
        ),
        (lambda: TorchClassifier(mlp).fit(np.ones((4, 4)), np.zeros(4)), "one class only"),
    ],
)
def test_one_sentence_for_what_cannot_be(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()


def test_who_trains_no_network_loads_no_torch():
    """Here it is installed, and would be found."""
    command = (
        "import sys, drfl, drfl.native, drfl.report, drfl.cli, drfl.protocols.station; "
        "X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]; "
        "drfl.DRFLClassifier().fit(X, y); drfl.native.FedAvgClassifier().fit(X, y); "
        "drfl.Problem.from_dict(drfl.Problem().to_dict()); "
        "sys.exit('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", command], check=False)
    assert told.returncode == 0
