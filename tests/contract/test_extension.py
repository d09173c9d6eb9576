"""Extensions written from the pages alone, registered, and driven through every door.

The code blocks of ``docs/adding-*.md`` make a loss, a norm, a support, a solver, a method and an
engine; nothing else is known of them here than their names.
"""

import contextlib
import json
import sys
import warnings
from types import ModuleType

import numpy as np
import pytest

import drfl
from drfl import baselines, native
from drfl.cli.main import COMMANDS, run
from drfl.engines import ENGINES, SerialEngine
from drfl.losses import LOSSES, make_loss
from drfl.native import METHODS
from drfl.norms import NORMS, LInf, Norm
from drfl.privacy import Guard
from drfl.problem import SUPPORTS
from drfl.rows import Rows
from drfl.solvers import SOLVERS
from drfl.solvers.bundle import Bundle
from drfl.supports import Support, WholeSpace
from drfl.worst_case.gains import MOVES
from drfl.worst_case.make import make_oracle
from kit.pages import ROOT, blocks, run_python
from kit.program import shorten_reports, write_csv
from kit.referee import Referee

RNG = np.random.default_rng(0)
CLIENTS = np.arange(90) % 3
X = RNG.normal(size=(90, 3)) + 0.2 * CLIENTS[:, None]
SCORE = X @ [1.0, -1.0, 0.5] + 0.4 * RNG.normal(size=90)
LABELS = np.where(SCORE > 0.0, 1, -1)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What the pages make, each page a module that others can import."""
    folder, made = tmp_path_factory.mktemp("pages"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # The page of the support registers it as well: that is undone at the end.
        tables = [dict(table) for table in (MOVES, SUPPORTS)]
        for page in sorted(ROOT.glob("docs/adding-*.md")):
            module = ModuleType(page.stem.replace("-", "_"))
            patch.setitem(sys.modules, module.__name__, module)
            for block in blocks(page, "python"):
                if not block.is_script:
                    run_python(page, block, vars(module), folder)
            made |= {
                name: thing for name, thing in vars(module).items() if not name.startswith("_")
            }
        yield made
        for table, before in zip((MOVES, SUPPORTS), tables, strict=True):
            table.clear()
            table.update(before)


@pytest.fixture
def registered(written, monkeypatch):
    """The names that the pages give them."""
    norm = written["LargestInUnits"](np.array([1.0, 0.5, 2.0]))
    monkeypatch.setitem(LOSSES, "log_cosh", written["LogCosh"])
    monkeypatch.setitem(NORMS, "largest_in_units", norm)
    monkeypatch.setitem(SOLVERS, "kelley", "adding_a_solver:Kelley")
    monkeypatch.setitem(METHODS, "momentum", written["Momentum"])
    monkeypatch.setitem(ENGINES, "threads", written["ThreadsEngine"])
    return written


def clients_of(y, rows=X):
    return [drfl.Client(f"c{s}", rows[s == CLIENTS], y[s == CLIENTS]) for s in range(3)]


CLASSIFIERS = [
    drfl.DRFLClassifier,
    *(getattr(baselines, n) for n in baselines.__all__ if "Classifier" in n),
]
REGRESSORS = [drfl.DRFLRegressor, *(getattr(baselines, n) for n in baselines.__all__ if "Re" in n)]
NATIVE = [getattr(native, n) for n in native.__all__ if n.endswith("Regressor")]


# ---------------------------------------------------------------------------- the loss
@pytest.mark.parametrize("estimator", [*REGRESSORS, *NATIVE], ids=lambda e: e.__name__)
@pytest.mark.sampled(2)
def test_a_loss_in_every_estimator(registered, estimator):
    rounds = {"max_rounds": 5} if estimator in NATIVE else {}
    model = estimator(loss="log_cosh", **rounds)
    if estimator.__module__.startswith("drfl.native") and "WAFL" in estimator.__name__:
        with pytest.raises(ValueError, match="supremum of log_cosh at a quadratic"):
            model.fit(X, SCORE, clients=CLIENTS)
        return
    with _short_of_its_tolerance(estimator in NATIVE):
        model.fit(X, SCORE, clients=CLIENTS)
    assert np.isfinite(model.predict(X)).all()
    if estimator not in NATIVE:
        assert model.status_.kind in ("certified", "local")


@contextlib.contextmanager
def _short_of_its_tolerance(expected):
    """Where a few rounds are enough for the test, a warning that they were few is expected."""
    with warnings.catch_warnings():
        if expected:
            warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("solver", ["bundle", "local", "admm", "ad_lpmm", "kelley"])
@pytest.mark.sampled(2)
def test_a_loss_in_every_solver(registered, solver):
    problem = drfl.Problem("log_cosh", drfl.Ball(0.05), drfl.Mixture(radius=0.2))
    best = drfl.solve(problem, clients_of(SCORE), tol=1e-7)
    result = drfl.solve(problem, clients_of(SCORE), solver=solver, tol=1e-3, max_rounds=150)
    assert best.status.kind == "certified"
    assert result.lower_bound <= best.objective * (1.0 + 1e-9)
    assert best.lower_bound <= result.objective <= best.objective * 1.01


def test_a_loss_on_supports(registered):
    box = drfl.Ball(0.05, "l1", support=drfl.Box(X.min(axis=0), X.max(axis=0)))
    result = drfl.solve(drfl.Problem("log_cosh", box), clients_of(SCORE), tol=1e-5)
    assert result.status.kind in ("certified", "local")
    for ball in (
        drfl.Ball(0.05, "l2", support=drfl.Box(X.min(axis=0), X.max(axis=0))),
        drfl.Ball(0.05, "l1", support=drfl.Polyhedron(np.eye(4), [9.0] * 4)),
    ):
        with pytest.raises(ValueError, match="log_cosh on a"):
            drfl.Problem("log_cosh", ball)


def test_a_loss_is_selected_with(registered):
    model = drfl.DRFLRegressor(loss="log_cosh", tol=1e-4)
    chosen = drfl.select(model, X, SCORE, CLIENTS, grid={"radius": [0.01, 0.1]}, folds=2, verbose=0)
    assert chosen.best_params["radius"] in (0.01, 0.1)


def test_a_guard_says_which_losses_it_knows(registered):
    problem = drfl.Problem(registered["LogCosh"](), drfl.Ball(0.05))
    guarded = drfl.Client("a", X, SCORE, guard=Guard(k=5))
    with pytest.raises(ValueError, match=r"a guard knows the losses .*, not 'log_cosh'"):
        drfl.solve(problem, [guarded])


# ---------------------------------------------------------------------------- norm and support
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("solver", ["bundle", "local"])
@pytest.mark.sampled(2)
def test_a_norm_with_every_loss(registered, loss, solver):
    y = LABELS if make_loss(loss).task == "classification" else SCORE
    ball = drfl.Ball(0.05, "largest_in_units", 2.0)
    problem = drfl.Problem(loss, ball, drfl.Mixture(radius=0.2))
    result = drfl.solve(problem, clients_of(y), solver=solver, tol=1e-4, max_rounds=100)
    assert result.status.kind == "certified"
    # In units, the norm is linf.
    units = NORMS["largest_in_units"].units
    same = drfl.Problem(loss, drfl.Ball(0.05, "linf", 2.0), drfl.Mixture(radius=0.2))
    other = drfl.solve(same, clients_of(y, X / units), tol=1e-4)
    assert result.lower_bound <= other.objective * (1.0 + 1e-9)
    assert other.lower_bound <= result.objective * (1.0 + 1e-9)


SMALL = {f"c{s}": (X[s == CLIENTS][:6], LABELS[s == CLIENTS][:6]) for s in range(3)}
TOGETHER = np.vstack([rows for rows, _ in SMALL.values()])
LOW, HIGH = TOGETHER.min(axis=0), TOGETHER.max(axis=0)
SIDES = np.vstack([np.eye(3), -np.eye(3), [[1.0, -1.0, 1.0]]])
ON_SUPPORTS = {
    "box": drfl.Box(LOW, HIGH),
    "half-open box": drfl.Box([*LOW[:2], -np.inf], HIGH),
    "open box": drfl.Box([*LOW[:2], -np.inf], [*HIGH[:2], np.inf]),
    "far polyhedron": drfl.Polyhedron(SIDES[:6], [50.0] * 6),
    "polyhedron": drfl.Polyhedron(SIDES, [*HIGH, *-LOW, float((TOGETHER @ SIDES[6]).max())]),
}
on_supports = pytest.mark.parametrize("support", ON_SUPPORTS.values(), ids=ON_SUPPORTS)


@on_supports
@pytest.mark.parametrize(("label_cost", "solver"), [(np.inf, "admm"), (2.0, "bundle")])
@pytest.mark.sampled(5)
def test_a_norm_on_supports(registered, support, label_cost, solver):
    ball = drfl.Ball(0.2, "largest_in_units", label_cost, support)
    problem = drfl.Problem("hinge", ball, drfl.Mixture(radius=0.2))
    clients = [drfl.Client(name, *rows) for name, rows in SMALL.items()]
    result = drfl.solve(problem, clients, solver=solver, tol=1e-3, max_rounds=300)
    assert result.status.kind == "certified" or support is ON_SUPPORTS["half-open box"]
    assert Referee.of(problem, SMALL).judge(result, 1e-3) == []


@on_supports
@pytest.mark.parametrize("label_cost", [np.inf, 0.5])
@pytest.mark.sampled(2)
def test_the_worst_case_of_a_norm_on_supports(registered, support, label_cost):
    ball, values = drfl.Ball(1.5, "largest_in_units", label_cost, support), []
    problem = drfl.Problem("hinge", ball)
    referee = Referee.of(problem, SMALL)
    for w in ([1.0, -2.0, 0.5], [-0.3, 0.2, 1.5]):
        rows, labels = SMALL["c1"]
        found = make_oracle(Rows(rows, labels), problem.loss, ball).evaluate(np.array(w), 0.1)
        values.append(found.value)
        assert found.value == pytest.approx(referee.worst_case(1, np.array(w), 0.1), rel=1e-6)
        worst = found.distribution()
        assert worst.cost <= 1.5 * (1.0 + 1e-9)
        assert worst.expected_loss == pytest.approx(found.value, rel=1e-6)
    plain = [
        drfl.worst_case_loss(
            *SMALL["c1"],
            w,
            0.1,
            loss="hinge",
            radius=1.5,
            label_cost=label_cost,
            norm="largest_in_units",
        ).value
        for w in ([1.0, -2.0, 0.5], [-0.3, 0.2, 1.5])
    ]
    assert (np.array(values) <= np.array(plain) * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "pinball"])
@pytest.mark.parametrize("kind", ["box", "polyhedron"])
@pytest.mark.sampled(2)
def test_a_norm_on_supports_of_a_regression(registered, kind, loss):
    data = {name: (rows, rows @ [1.0, -1.0, 0.5] + 0.1) for name, (rows, _) in SMALL.items()}
    support = drfl.Box(LOW, HIGH)
    if kind == "polyhedron":
        support = drfl.Polyhedron(np.column_stack([SIDES[:6], np.zeros(6)]), [*HIGH, *-LOW])
    problem = drfl.Problem(loss, drfl.Ball(0.2, "largest_in_units", support=support))
    clients = [drfl.Client(name, *rows) for name, rows in data.items()]
    result = drfl.solve(problem, clients, tol=1e-3, max_rounds=40)
    if kind == "polyhedron":  # where targets stay, the referee's sides are those of the rows
        support = drfl.Polyhedron(SIDES[:6], [*HIGH, *-LOW])
        problem = drfl.Problem(loss, drfl.Ball(0.2, "largest_in_units", support=support))
    assert Referee.of(problem, data).judge(result, 1e-3) == []


class Tenfold(Norm):
    """The largest move, in units of 10: a column moves by ten times the length."""

    name = "tenfold"
    units = 10.0

    def __call__(self, d):
        return LInf()(d) / self.units

    def dual(self, w):
        return self.units * LInf().dual(w)

    def steepest(self, w):
        return self.units * LInf().steepest(w)

    def project_ball(self, v):
        return self.units * LInf().project_ball(v / self.units)

    def box_lengths(self, room, g, price):
        return LInf().box_lengths(room, g, price / self.units)


def test_an_honest_client_is_believed_whatever_the_norm(monkeypatch):
    monkeypatch.setitem(NORMS, "tenfold", Tenfold())
    rows = {name: (0.01 * X, y) for name, (X, y) in SMALL.items()}
    sizes = {name: np.sqrt((X**2).mean(axis=0)) for name, (X, _) in rows.items()}
    ball = drfl.Ball(0.02, "tenfold", support=drfl.Box(-1.0, 1.0))
    problem = drfl.Problem("hinge", ball, drfl.Mixture(radius=0.2))
    clients = [drfl.Client(name, *data) for name, data in rows.items()]
    result = drfl.solve(problem, clients, solver=Bundle(column_sizes=sizes), tol=1e-6)
    assert not any(record.failures for record in result.history)
    assert result.status.kind == "certified"


@on_supports
def test_a_norm_that_says_nothing_of_supports_is_refused_there(registered, support):
    class Bare(registered["LargestInUnits"]):
        name = "bare"
        box_lengths = Norm.box_lengths
        length_program = Norm.length_program

    drfl.Problem("hinge", drfl.Ball(0.02, Bare([3.0, 2.0, 1.0])))
    with pytest.raises(ValueError, match=f"the norm 'bare' does not state .* on a {support.name}"):
        drfl.Problem("hinge", drfl.Ball(0.02, Bare([3.0, 2.0, 1.0]), support=support))


def test_norms_of_clients_are_compared_as_a_whole(registered):
    norm = registered["LargestInUnits"]
    same = {"a": drfl.Ball(0.1, norm([1.0, 2.0])), "b": drfl.Ball(0.2, norm([1.0, 2.0]))}
    assert drfl.Problem("hinge", same).norm == norm([1.0, 2.0])
    with pytest.raises(ValueError, match="all balls must have the same norm"):
        drfl.Problem("hinge", same | {"b": drfl.Ball(0.2, norm([1.0, 3.0]))})
    with pytest.raises(ValueError, match="'largest_in_units' cannot be written down"):
        drfl.Problem("hinge", same).to_dict()  # the one of that name has other units


def test_several_classes_take_no_norm_of_which_their_gauge_knows_nothing(registered):
    with pytest.raises(ValueError, match="several classes at once have the norms l1, l2 and linf"):
        drfl.Problem("hinge", drfl.Ball(0.1, "largest_in_units"), classes=3)


def given(estimator, **wanted):
    """An estimator with those of the parameters that its problem leaves open."""
    known = estimator().get_params()
    return estimator(loss="hinge", **{name: v for name, v in wanted.items() if name in known})


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: e.__name__)
@pytest.mark.sampled(2)
def test_a_norm_a_solver_and_an_engine_in_every_estimator(registered, estimator):
    model = given(
        estimator, norm="largest_in_units", radius=0.05, engine="threads", solver="bundle"
    )
    assert model.fit(X, LABELS, clients=CLIENTS).status_.kind in ("certified", "local")
    if hasattr(model, "norm"):
        assert model.problem_.norm is NORMS["largest_in_units"]
    model = given(estimator, radius=0.05, solver="kelley", tol=1e-2, max_rounds=150)
    with _short_of_its_tolerance(expected=True):
        assert model.fit(X, LABELS, clients=CLIENTS).status_.kind == "local"


def test_a_norm_in_problems(registered):
    problem = drfl.Problem("hinge", drfl.Ball(0.05, "largest_in_units"))
    assert drfl.Problem.from_dict(json.loads(json.dumps(problem.to_dict()))) == problem


@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_a_support_in_solve_and_estimators(registered):
    shares = RNG.dirichlet(np.ones(4), size=90)[:, :3]
    same = drfl.Polyhedron(np.vstack([-np.eye(3), np.ones(3)]), [0.0, 0.0, 0.0, 1.0])
    support: Support = registered["Shares"]()
    objectives = []
    for kind in (support, same):
        problem = drfl.Problem("hinge", drfl.Ball(0.02, support=kind))
        result = drfl.solve(problem, clients_of(LABELS, shares), tol=1e-3)
        assert result.status.kind in ("certified", "local")
        objectives.append(result.objective)
        assert drfl.Problem.from_dict(problem.to_dict()) == problem
    assert objectives[0] == pytest.approx(objectives[1], rel=2e-3)
    for estimator in CLASSIFIERS:
        model = given(estimator, norm="l1", radius=0.02, support=support, tol=1e-2)
        model.fit(shares, LABELS, clients=CLIENTS)
        assert model.problem_.support_kind is (
            type(support) if hasattr(model, "support") else WholeSpace
        )
    with pytest.raises(ValueError, match="shares take hinge and the l1 norm, not logistic"):
        drfl.Problem("logistic", drfl.Ball(0.02, support=support))


def test_a_support_without_moves_is_refused_before_any_work(registered):
    class Unknown(registered["Shares"]):
        name = "unknown set"

    with pytest.raises(ValueError, match="nobody knows the moves in a unknown set"):
        drfl.Problem("hinge", drfl.Ball(0.02, support=Unknown()))


# ---------------------------------------------------------------------------- server and carrier
@pytest.mark.parametrize(
    "engine", ["serial", "threads", SerialEngine(debug=True)], ids=["serial", "threads", "debug"]
)
@pytest.mark.parametrize("name", ["bundle", "kelley", "momentum"])
@pytest.mark.sampled(2)
def test_solver_method_and_engine_by_name(registered, name, engine):
    solver = METHODS[name](local_steps=1) if name in METHODS else name
    problem = drfl.Problem("hinge") if name in METHODS else drfl.Problem("hinge", drfl.Ball(0.05))
    results = [
        drfl.solve(problem, clients_of(LABELS), solver=solver, engine=e, tol=1e-3, max_rounds=40)
        for e in ("serial", engine)
    ]
    assert results[0].coef.tobytes() == results[1].coef.tobytes()


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_a_method_has_estimators(registered, engine):
    rounds = {"local_steps": 1, "beta": 0.3, "max_rounds": 30, "engine": engine}
    classifier = registered["MomentumClassifier"](**rounds).fit(X, LABELS, clients=CLIENTS)
    regressor = registered["MomentumRegressor"](**rounds).fit(X, SCORE, clients=CLIENTS)
    assert classifier.score(X, LABELS) > 0.8
    assert regressor.score(X, SCORE) > 0.8
    assert classifier.lower_bound_ == regressor.lower_bound_ == 0.0


@pytest.mark.parametrize(
    "added",
    [
        {"norm": "largest_in_units"},
        {"engine": "threads"},
        {"solver": "kelley", "max_rounds": 60},
    ],
    ids=str,
)
def test_selection_with_what_was_added(registered, added):
    model = drfl.DRFLClassifier(loss="hinge", tol=1e-3, **added)
    with _short_of_its_tolerance(expected="solver" in added):
        chosen = drfl.select(
            model, X, LABELS, CLIENTS, grid={"radius": [0.02, 0.1]}, folds=2, verbose=0
        )
    assert chosen.best_params["radius"] in (0.02, 0.1)


# ---------------------------------------------------------------------------- the program
@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for s in range(3):
        rows = np.column_stack([X, SCORE])[s == CLIENTS].tolist()
        write_csv(tmp_path / f"c{s}.csv", ["a", "b", "c", "score"], rows)
        rows = [[*x, "yes" if t > 0 else "no"] for x, t in zip(X, LABELS, strict=True)]
        kept = [row for row, s_ in zip(rows, CLIENTS, strict=True) if s_ == s]
        write_csv(tmp_path / f"k{s}.csv", ["a", "b", "c", "kind"], kept)
    return [f"--client=c{s}.csv" for s in range(3)], [f"--client=k{s}.csv" for s in range(3)]


TRAININGS = {
    "loss": (0, ["--loss", "log_cosh"]),
    "norm": (1, ["--norm", "largest_in_units", "--radius", "0.05"]),
    "solver": (1, ["--solver", "kelley", "--radius", "0.05", "--tol", "1e-3"]),
    "engine": (1, ["--engine", "threads"]),
    "method": (1, ["--compare", "momentum"]),
    "curves": (0, ["--loss", "log_cosh", "--additive", "a", "--knots", "1", "--norm", "l1"]),
    "select": (0, ["--loss", "log_cosh", "--select", "one_se", "--folds", "2"]),
}


def steps(what, files):
    """The commands that are tried with a training, and the exit code of each."""
    which, options = TRAININGS[what]
    target = ["score", "kind"][which]
    names = [part.removeprefix("--client=") for part in files[which]]
    done = [
        ["train", *files[which], "--target", target, *options, "--out", "RUN"],
        ["predict", "RUN/model.json", names[0], "--out", "predictions.csv"],
    ]
    if what in ("loss", "norm"):  # those that the model itself is made of
        done = [
            ["init", *names, "--target", target, "--out", "drfl.toml"],
            ["inspect", *names, "--target", target],
            *done,
            ["train", "--resume", "RUN"],
            ["evaluate", "RUN/model.json", names[0]],
            ["explain", "RUN/model.json", *names],
            ["report", "RUN"],
        ]
    if what == "norm":
        done += [["summary", "RUN"], ["calibrate", "RUN/model.json", names[0], "--out", "own.json"]]
    if what == "curves":
        done.append(["curves", "RUN"])
    return done


@pytest.mark.parametrize("what", TRAININGS)
def test_the_verbs_of_the_program(registered, files, what, capsys, monkeypatch):
    shorten_reports(monkeypatch)
    for step in steps(what, files):
        code = run(step)
        said = capsys.readouterr()
        assert code == 0, (step, said.err)
    if what == "loss":  # whose page states no second derivative
        assert run(["summary", "RUN"]) == 3
        assert "'log_cosh' has no second derivative" in capsys.readouterr().err


def test_no_verb_is_forgotten(files):
    tried = {step[0] for what in TRAININGS for step in steps(what, files)}
    # The others have tests of their own: below, and with real processes in test_installed.py.
    assert set(COMMANDS) - tried == {"audit", "list", "sites", "flower"}


def test_a_guard_and_its_audit_with_what_was_added(registered, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name in ("north", "south"):
        rows = [
            [*x, "yes" if x @ [1.0, -1.0, 0.5] + rng.normal() > 0.0 else "no"]
            for x in rng.normal(size=(80, 3))
        ]
        write_csv(tmp_path / f"{name}.csv", ["a", "b", "c", "kind"], rows)
    files = ["--client=north.csv", "--client=south.csv", "--target", "kind", "--guard", "5"]
    added = ["--norm", "largest_in_units", "--radius", "0.05", "--engine", "threads"]
    for step in (["train", *files, *added, "--out", "RUN"], ["audit", "RUN/ledger/north.ledger"]):
        code = run(step)
        said = capsys.readouterr()
        assert code in (0, 4), (step, said.err)  # a guard may leave a gap


@pytest.mark.parametrize("as_a_class", [False, True], ids=["by its module", "as a class"])
def test_a_solver_is_registered_by_its_module_or_as_a_class(
    registered, as_a_class, monkeypatch, capsys
):
    if as_a_class:
        monkeypatch.setitem(SOLVERS, "kelley", registered["Kelley"])
    result = drfl.solve(
        drfl.Problem("hinge", drfl.Ball(0.05)), clients_of(LABELS), solver="kelley", tol=1e-2
    )
    assert result.lower_bound <= result.objective
    assert run(["list", "solvers"]) == 0
    assert "kelley" in capsys.readouterr().out


def test_the_program_lists_what_was_added(registered, capsys):
    assert run(["list"]) == 0
    said = capsys.readouterr().out
    for name in ("log_cosh", "largest_in_units", "shares", "kelley", "momentum", "threads"):
        assert name in said
    assert "Cutting planes in the region |x_j| <= region" in said
