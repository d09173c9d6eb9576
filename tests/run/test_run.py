"""The loop, with a small solver: the optimum, the accounts, the ends, and what it refuses."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from drfl import DRFLClassifier, reference
from drfl.client import Client
from drfl.engines import SerialEngine
from drfl.engines.base import Answers
from drfl.losses import Hinge, Line
from drfl.native import FedAvg
from drfl.privacy.dp import DifferentialPrivacy
from drfl.problem import Problem
from drfl.run import solve
from drfl.solvers import SOLVERS, Solver, StatusKind, make_solver
from drfl.uncertainty import Ball, Mixture
from drfl.wire import Failure, Message, encode
from kit import problems
from kit.cutting_plane import CuttingPlane

NAMES = ["north", "south", "east"]
PROBLEM = Problem("hinge", Ball(0.05, "l1", 1.0), Mixture(radius=0.3))
DATA = problems.clients("classification", np.random.default_rng(3), S=3, n=2, N=15)
NAMED = list(zip(NAMES, DATA, strict=True))
CLIENTS = [Client(name, X, y) for name, (X, y) in NAMED]


class Spy(SerialEngine):
    """Keeps what was carried and whether it was closed; may lose or spoil answers."""

    def __init__(self, spoil=lambda round, name, reply: reply):
        super().__init__(debug=True)
        self.spoil, self.carried, self.closed = spoil, [], 0

    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        self.carried.append((messages, answers))
        kept = Answers({}, {}, answers.seconds)
        for name, reply in answers.replies.items():
            spoiled = self.spoil(reply.round, name, reply)
            if isinstance(spoiled, Failure):
                kept.failures[name] = spoiled
            else:
                kept.replies[name] = spoiled
        return kept

    def close(self):
        self.closed += 1
        super().close()


def run(problem=PROBLEM, clients=CLIENTS, solver=CuttingPlane(), **changes):  # noqa: B008
    return solve(problem, clients, solver=solver, **{"engine": SerialEngine(debug=True)} | changes)


# ---------------------------------------------------------------------------- the optimum
@pytest.mark.parametrize("intercept", ["shared", "none"])
def test_the_loop_finds_the_optimum(intercept):
    result = run(replace_problem(intercept=intercept))
    expected = reference.solve(
        "hinge",
        DATA,
        radius=0.05,
        label_cost=1.0,
        mixture_radius=0.3,
        intercept=intercept,
    )
    assert result.status.kind is StatusKind.LOCAL
    assert result.gap <= 1e-6
    np.testing.assert_allclose(result.objective, expected.objective, rtol=2e-6)
    assert result.lower_bound <= expected.objective + 1e-7
    assert list(result.weights) == NAMES
    value = sum(result.weights[name] * result.client_losses[name] for name in NAMES)
    np.testing.assert_allclose(value, result.objective, rtol=1e-12)
    assert result.coef.shape == (2,)
    assert intercept == "shared" or result.intercept == 0.0


def replace_problem(**changes):
    given = {"loss": PROBLEM.loss, "ball": PROBLEM.ball, "mixture": PROBLEM.mixture} | changes
    return Problem(**given)


def test_each_client_has_its_own_ball():
    radii = dict(zip(NAMES, (0.0, 0.02, 0.3), strict=True))
    balls = {name: Ball(radius, "l1", 1.0) for name, radius in radii.items()}
    result = run(replace_problem(ball=balls))
    expected = reference.solve(
        "hinge", DATA, radius=list(radii.values()), label_cost=1.0, mixture_radius=0.3
    )
    np.testing.assert_allclose(result.objective, expected.objective, rtol=2e-6)


def test_permuting_clients_permutes_the_weights():
    one, other = run(), run(clients=CLIENTS[::-1])
    assert list(other.weights) == NAMES[::-1]
    np.testing.assert_allclose(other.objective, one.objective, rtol=2e-6)
    for name in NAMES:
        np.testing.assert_allclose(other.client_losses[name], one.client_losses[name], atol=1e-4)


def test_a_run_is_reproducible_bit_for_bit():
    one, other = run(), run(engine="serial")
    assert one.coef.tobytes() == other.coef.tobytes()
    assert [r.gap for r in one.history] == [r.gap for r in other.history]


# ---------------------------------------------------------------------------- the accounts
def test_every_byte_is_counted():
    spy = Spy()
    result = run(engine=spy, max_rounds=5)
    up, down = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    for (messages, answers), record in zip(spy.carried, result.history, strict=True):
        for name in NAMES:
            down[name] += len(encode(messages[name]))
            up[name] += len(encode(answers.replies[name]))
        assert (record.bytes_up, record.bytes_down) == (up, down)
    assert (result.bytes_up, result.bytes_down) == (up, down)


def test_the_history_tells_every_round():
    result = run()
    assert [record.round for record in result.history] == list(range(1, result.rounds + 1))
    assert [record.info for record in result.history] == [
        {"cuts": k + 1} for k in range(result.rounds)
    ]
    assert all(a.objective >= b.objective for a, b in zip(result.history, result.history[1:]))  # noqa: B905
    last = result.history[-1]
    assert (last.objective, last.lower_bound, last.gap) == (
        result.objective,
        result.lower_bound,
        result.gap,
    )
    assert last.worst_client == max(result.client_losses, key=result.client_losses.get)
    assert 0.0 < last.seconds_clients == result.seconds_clients
    assert 0.0 < last.seconds_server == result.seconds_server
    assert len(result.to_frame()) == result.rounds


# ---------------------------------------------------------------------------- the ends
def test_rounds_are_limited():
    result = run(max_rounds=3)
    assert (result.rounds, result.status.kind) == (3, StatusKind.MAX_ROUNDS)
    assert f"{result.gap:.1e}" in result.status.message


def test_a_callback_sees_every_record_and_may_stop():
    seen, too = [], []
    result = run(callbacks=[lambda record: record.round == 4, seen.append, too.append])
    assert (result.rounds, result.status.kind) == (4, StatusKind.STOPPED)
    assert seen == too == list(result.history)


def test_the_solver_has_the_last_word():
    result = run(callbacks=[lambda record: record.gap <= 1e-6])
    assert result.status.kind is StatusKind.LOCAL


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_engine_is_closed_whatever_happens(error):
    def interrupt(record):
        raise error

    spy = Spy()
    with pytest.raises(error):
        run(engine=spy, callbacks=[interrupt])
    assert spy.closed == 1
    run(engine=spy, max_rounds=1)
    assert spy.closed == 2


def test_the_engine_is_closed_if_a_client_does_not_fit():
    spy = Spy()
    with pytest.raises(ValueError, match="client 'odd'"):
        run(engine=spy, clients=[Client("odd", [[1.0, 2.0]], [3.0])])
    assert spy.closed == 1


# ---------------------------------------------------------------------------- bad replies
def test_a_missing_reply_is_recorded_and_survived():
    def lose(round, name, reply):
        return Failure.DEADLINE if round in (0, 4) and name == "south" else reply

    result = run(engine=Spy(lose))
    np.testing.assert_allclose(result.objective, run().objective, rtol=2e-6)
    missing = {r.round: r.failures for r in result.history if r.failures}
    assert missing == {1: {"south": "deadline"}, 5: {"south": "deadline"}}
    assert result.history[0].worst_client is None
    assert result.history[0].objective == math.inf
    assert "missing in 2 of" in result.summary()


SPOILED = {
    "NaN": (lambda m: replace(m, arrays={**m.arrays, "value": np.array(math.nan)}), "NaN"),
    "shape": (lambda m: replace(m, arrays={**m.arrays, "slope": np.ones(7)}), "shape"),
    "stale": (lambda m: replace(m, round=m.round - 1), "round"),
    "kind": (lambda m: replace(m, kind="other/reply"), "kind"),
    "empty": (lambda m: replace(m, arrays={}), "missing"),
}


@pytest.mark.parametrize(("spoil", "reason"), SPOILED.values(), ids=SPOILED)
def test_a_bad_reply_counts_as_missing_with_its_reason(spoil, reason):
    def poison(round, name, reply):
        return spoil(reply) if (round, name) == (3, "east") else reply

    result = run(engine=Spy(poison))
    assert reason in result.history[3].failures["east"]
    assert [r.round for r in result.history if r.failures] == [4]
    np.testing.assert_allclose(result.objective, run().objective, rtol=2e-6)


def test_a_client_that_never_answers_ends_the_run():
    result = run(engine=Spy(lambda round, name, reply: Failure.ERROR))
    assert (result.status.kind, result.rounds) == (StatusKind.FAILED, 3)
    assert result.gap == result.objective == math.inf
    assert math.isnan(result.client_losses["north"])
    result.to_json()


def test_the_deadline_reaches_the_engine():
    seen = []

    class Watch(SerialEngine):
        def map(self, messages, deadline):
            seen.append(deadline)
            return super().map(messages, deadline)

    run(engine=Watch(), max_rounds=2, deadline=60)
    run(engine=Watch(), max_rounds=1)
    assert seen == [60, 60, None]


# ---------------------------------------------------------------------------- what is refused
def frame(X, *columns):
    return pd.DataFrame(X, columns=list(columns))


X, y = DATA[0]
TWO = [Client("a", frame(X, "age", "dose"), y), Client("b", frame(X, "dose", "age"), y)]


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"problem": "hinge"}, TypeError, "problem must be a Problem, got str"),
        ({"clients": []}, ValueError, "no client"),
        ({"clients": CLIENTS[0]}, TypeError, "list of drfl.Client"),
        ({"clients": [(X, y)]}, TypeError, "list of drfl.Client"),
        ({"clients": [CLIENTS[0], CLIENTS[0]]}, ValueError, "two clients are called 'north'"),
        (
            {"clients": [CLIENTS[0], Client("b", X[:, :1], y)]},
            ValueError,
            "'b' has 1 columns, but 'north' has 2",
        ),
        ({"clients": [CLIENTS[0], *TWO]}, ValueError, "column 0 is 'age' at client 'a' but 'dose'"),
        ({"tol": 0.0}, ValueError, "tol must be"),
        ({"tol": math.nan}, ValueError, "tol must be"),
        ({"tol": "small"}, TypeError, "tol must be"),
        ({"max_rounds": 0}, ValueError, "max_rounds must be"),
        ({"max_rounds": 10.0}, TypeError, "max_rounds must be"),
        ({"max_rounds": True}, TypeError, "max_rounds must be"),
        ({"callbacks": print}, TypeError, "callbacks must be a list"),
        ({"callbacks": [3]}, TypeError, "callbacks must be a list"),
        ({"deadline": 0}, ValueError, "deadline must be"),
        ({"deadline": math.inf}, ValueError, "deadline must be"),
        ({"solver": "bundel"}, ValueError, "did you mean 'bundle'"),
        ({"solver": CuttingPlane}, TypeError, "solver must be a name"),
        ({"engine": "cereal"}, ValueError, "did you mean 'serial'"),
        ({"problem": Problem(ball={"north": Ball()})}, ValueError, "no radius for client 'south'"),
        (
            {"problem": Problem(ball={s: Ball() for s in [*NAMES, "west"]})},
            ValueError,
            "a ball for 'west', but there is no such client",
        ),
        (
            {"problem": Problem(mixture=Mixture([0.5, 0.5]))},
            ValueError,
            "the mixture has 2 weights, but 3 clients exist",
        ),
        (
            {"problem": Problem(ball=Ball(0.1), shared_ball=True)},
            ValueError,
            "'cutting_plane' has no shared ball",
        ),
    ],
)
def test_bad_input_is_refused_before_any_work(changes, error, why):
    spy = Spy()
    with pytest.raises(error, match=why):
        run(**{"engine": spy} | changes)
    assert spy.carried == []
    assert spy.closed == 0


def test_columns_without_names_go_with_columns_that_have_some():
    assert run(clients=[CLIENTS[0], TWO[0]], max_rounds=1).rounds == 1


# ---------------------------------------------------------------------------- the smallest solver
@dataclass(frozen=True)
class Impatient(CuttingPlane):
    """It has its answer before the first round."""

    patience: int = 0


def test_a_solver_may_stop_before_the_first_round():
    spy = Spy()
    result = run(solver=Impatient(), engine=spy)
    assert (result.rounds, result.history, spy.carried) == (0, (), [])
    assert result.to_frame().empty


def test_messages_are_small():
    spy = Spy()
    run(engine=spy, max_rounds=2)
    messages, answers = spy.carried[1]
    assert isinstance(messages["north"], Message)
    # Three numbers down, five up, and a line that tells what they are.
    assert messages["north"].nbytes == 8 * 3 + len("drfl1 evaluate 1 x:d3\n")
    assert answers.replies["north"].nbytes == 8 * 5 + len(
        "drfl1 evaluate/reply 1 multiplier:d slope:d3 value:d\n"
    )


def test_what_was_sent_is_counted_by_kind(tmp_path):
    result = run(tol=1e-4, checkpoint=tmp_path / "run")
    for name, size in result.bytes_up.items():
        assert sum(entry.bytes for entry in result.sent if entry.client == name) == size
        assert sum(entry.count for entry in result.sent if entry.client == name) == result.rounds
    # A run that is read from its checkpoint has sent the same.
    again = run(tol=1e-4, checkpoint=tmp_path / "run")
    assert again.sent == result.sent


# ---------------------------------------------------------------------------- crossed bounds
@dataclass(frozen=True)
class Lying(Solver):
    """Another solver whose lower bound is a little above its objective."""

    truthful: Solver = field(default_factory=lambda: make_solver("bundle"))
    excess: float = 1e-6
    name = "lying"

    def __post_init__(self):
        for able in ("joint", "private"):
            object.__setattr__(self, able, getattr(self.truthful, able))

    @property
    def handlers(self):
        return self.truthful.handlers

    def start(self, task):
        session = self.truthful.start(task)
        excess, kind = self.excess, type(session)

        class Liar(kind):
            @property
            def standing(self):
                found = super().standing
                known = math.isfinite(found.objective)
                lower = found.objective * (1.0 + excess) if known else -math.inf
                return replace(found, lower_bound=lower)

        session.__class__ = Liar
        return session


EXACT = sorted(set(SOLVERS) - {"private"})  # that one adds noise, for clients with a budget
CASES = {name: (make_solver(name), PROBLEM, CLIENTS) for name in SOLVERS} | {
    "cutting plane": (CuttingPlane(), PROBLEM, CLIENTS),
    "fedavg": (FedAvg(), Problem("hinge"), CLIENTS),
    "first_order": (make_solver("first_order"), Problem("logistic", Ball(0.05, "l2")), CLIENTS),
    "private": (
        make_solver("private"),
        Problem("logistic", Ball(0.05, "l2"), Mixture(center="proportional")),
        [
            Client(
                name,
                np.tile(X, (70, 1)),
                np.tile(y, 70),
                privacy=DifferentialPrivacy(8.0, norm=9.0),
            )
            for name, (X, y) in NAMED
        ],
    ),
    "several classes": (
        make_solver("bundle"),
        Problem("logistic", Ball(0.05), classes=3),
        [Client(name, X, np.arange(len(y)) % 3.0) for name, (X, y) in NAMED],
    ),
    "central path": (make_solver("bundle"), Problem("hinge", Ball(0.05)), CLIENTS),
}


@pytest.mark.parametrize("name", CASES)
def test_crossed_bounds_end_every_run_as_failed(name, monkeypatch):
    truthful, problem, clients = CASES[name]
    if name == "central path":  # which is for many columns
        monkeypatch.setattr("drfl.solvers.bundle.state.PATH_ABOVE", 0)
    result = run(problem, clients, solver=Lying(truthful))
    assert result.status.kind is StatusKind.FAILED
    assert f"{result.lower_bound:.6g} is above the objective {result.objective:.6g}" in str(
        result.status
    )
    assert result.gap == result.history[-1].gap == math.inf
    # It ends at once: in the first round with an objective.
    assert [math.isfinite(r.objective) for r in result.history].index(True) == result.rounds - 1


@pytest.mark.parametrize("name", ["bundle", "local"])
def test_bounds_that_cross_within_rounding_do_not_contradict(name):
    result = run(solver=Lying(make_solver(name), excess=1e-13))
    assert (result.status.kind, result.gap) == (StatusKind.CERTIFIED, 0.0)


def test_a_resumed_run_with_crossed_bounds_stays_failed(tmp_path):
    first = run(solver=Lying(CuttingPlane()), checkpoint=tmp_path / "run")
    spy = Spy()
    again = run(solver=Lying(CuttingPlane()), checkpoint=tmp_path / "run", engine=spy)
    assert (str(again.status), spy.carried) == (str(first.status), [])


def test_an_estimator_raises_on_crossed_bounds(monkeypatch):
    monkeypatch.setitem(SOLVERS, "lying", f"{__name__}:Lying")
    X, y = DATA[0]
    model = DRFLClassifier(loss="hinge", label_cost=1.0, solver="lying")
    with pytest.raises(RuntimeError, match="is above the objective"):
        model.fit(X, y)


@dataclass(frozen=True)
class Steep(Hinge):
    """Twice the hinge."""

    name = "steep"
    slope_range = (-2.0, 0.0)
    pieces = (Line(-2.0, 2.0), Line(0.0, 0.0))
    flipped = Line(2.0, 2.0)

    def value(self, z):
        return 2.0 * super().value(z)

    def slope(self, z):
        return 2.0 * super().slope(z)

    def conjugate(self, v):
        return v


@pytest.mark.parametrize("solver", sorted({*EXACT} - {"first_order"}))  # smooth losses only
def test_a_steep_loss_with_flips_is_refused_and_right_without(solver):
    with pytest.raises(ValueError, match=r"slopes in \[-2, 0\].*divide the loss by 2"):
        Problem(Steep(), Ball(0.05, label_cost=1.0))
    # Without flips it is twice the hinge.
    still = Ball(0.05, "l1")
    steep, hinge = (
        run(Problem(loss, still), solver=solver, tol=1e-3) for loss in (Steep(), "hinge")
    )
    assert steep.lower_bound / 2.0 <= hinge.objective
    assert hinge.lower_bound <= steep.objective / 2.0 <= hinge.objective * (1.0 + 2e-3)


@pytest.mark.parametrize("solver", ["bundle", "local", "ad_lpmm", "admm"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_bound_of_near_models_is_told_as_such_whatever_ends_the_run(solver, stopped):
    # A column so small that the optimum, 0, is far away, where no radius bounds the model.
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20) < 0.5, -1.0, 1.0)
    clients = [Client("a", np.column_stack([rng.normal(size=20), 1e-6 * y]), y)]
    callbacks = [lambda record: record.lower_bound > 0.0] if stopped else []
    result = run(
        Problem("hinge", Ball(0.0)), clients, solver, tol=1e-9, max_rounds=12, callbacks=callbacks
    )
    assert result.lower_bound > 0.0
    assert result.status.kind == ("stopped" if stopped else "max_rounds")
    assert "models whose coefficients differ by at most" in result.status.message
