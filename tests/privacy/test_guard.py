"""The guard: valid bounds, what is refused, what the ledger remembers, what may be told."""

import math
import stat

import numpy as np
import pytest

import drfl
from drfl.engines import ProcessesEngine, SerialEngine
from drfl.losses import make_loss
from drfl.privacy import (
    Guard,
    Keeper,
    Leverage,
    SpentError,
    audit,
    audit_ledger,
    guard_line,
    merge_categories,
    release_metric,
    release_moments,
    release_scalar,
)
from drfl.solvers import StatusKind
from drfl.worst_case import make_oracle

N, n = 200, 4
LOSSES = ("hinge", "smooth_hinge", "logistic", "huber", "epsilon_insensitive", "pinball")


def data(seed=0, regression=False, rows=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n))
    score = X @ np.array([1.0, -0.5, 0.3, 0.0]) + 0.5 * rng.normal(size=rows)
    return X, score if regression else np.where(score > 0.0, 1.0, -1.0)


def is_regression(loss):
    return make_loss(loss).task == "regression"


def clients(loss="hinge", guard=None, count=2):
    return [drfl.Client(f"c{s}", *data(s, is_regression(loss)), guard=guard) for s in range(count)]


def problem(loss="hinge", label_cost=math.inf, radius=0.05, **ball):
    ball = drfl.Ball(radius, "l2", label_cost, **ball)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.2, p=1), fit_intercept=True)


@pytest.mark.parametrize("label_cost", [math.inf, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_guarded_run_brackets_the_optimum(loss, label_cost):
    optimum = drfl.solve(problem(loss, label_cost), clients(loss), tol=1e-8).objective
    guarded = clients(loss, Guard(5, secret=b"key"))
    result = drfl.solve(problem(loss, label_cost), guarded, engine=SerialEngine(debug=True))
    assert not any(record.failures for record in result.history)
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert result.objective >= optimum * (1.0 - 1e-7)
    assert result.gap < (0.05 if math.isinf(label_cost) or is_regression(loss) else 0.5)


@pytest.mark.parametrize("label_cost", [math.inf, 0.5, 30.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_and_cuts_hold_at_every_point(loss, label_cost):
    """An upper bound where it was asked, a minorant everywhere else; also stale ones."""
    client = clients(loss, Guard(3, secret=b"key"))[0]
    ball = problem(loss, label_cost).ball
    keeper = Keeper(make_oracle(client.rows, make_loss(loss), ball), client.ledger, 100)
    exact, rng = keeper.oracle, np.random.default_rng(1)
    asked = [(x[:-1], float(x[-1])) for x in rng.normal(size=(25, n + 1))]
    cuts = []
    for w, b in asked:
        told = keeper.answer(w, b)
        assert told.upper >= exact.evaluate(w, b).value
        cuts.append(told.cut)
    for w, b in [*asked, *((x[:-1], float(x[-1])) for x in 3.0 * rng.normal(size=(25, n + 1)))]:
        worst = exact.evaluate(w, b)
        parts = np.concatenate([[1.0, worst.multiplier], w, [b]])
        least = np.array(cuts) @ parts + ball.radius * worst.multiplier
        assert least.max() <= worst.value + 1e-12


def test_leverage_is_that_of_the_projection():
    rng, leverage = np.random.default_rng(0), Leverage(40, 4)
    V = rng.normal(size=(40, 6))
    for v in V.T:
        leverage.add(v)
        leverage.add(2.0 * v)
    P = V @ np.linalg.pinv(V)
    assert leverage.rank == 6
    assert leverage.h == pytest.approx(np.diag(P), abs=1e-12)


def test_what_is_settled_may_leave_and_one_row_may_not():
    leverage = Leverage(60, 5)
    leverage.add(np.ones(60))
    one = np.ones(60)
    one[7] = 0.0
    assert not leverage.admits(one)
    assert not leverage.admits(np.ones(60) + 1e-7 * np.eye(60)[7])  # nearly known, and one row
    assert leverage.admits(np.ones(60))
    v = np.where(np.arange(60) % 3 == 0, 1.0, 0.0)
    v[3] = 40.0
    assert not leverage.admits(v)
    settled = leverage.settle(v, np.zeros(60), np.full(60, 50.0))
    assert settled is not None
    assert leverage.admits(settled)
    assert (settled != v).sum() < 60
    nearly = np.ones(60) + 1e-7 * np.eye(60)[7]
    known = leverage.settle(nearly, np.zeros(60), np.full(60, 50.0))
    assert known == pytest.approx(np.ones(60), abs=1e-7)
    assert np.ptp(known) < 1e-15  # nothing is left of the row


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rows": 49}, "49 rows are too few"),
        ({"rows": 60, "columns": 20}, "21 parameters on 60 rows"),
        ({"sample_weight": np.arange(1.0, N + 1.0)}, "drop sample_weight"),
        ({"rare": 4}, "a class has 4 rows"),
    ],
)
def test_preflight_refuses_with_one_sentence(change, why):
    X, y = data(rows=change.get("rows", N))
    X = np.tile(X, (1, 9))[:, : change.get("columns", n)]
    if "rare" in change:
        y = np.where(np.arange(len(y)) < change["rare"], 1.0, -1.0)
    with pytest.raises(ValueError, match=why) as error:
        drfl.Client("a", X, y, sample_weight=change.get("sample_weight"), guard=Guard(5))
    assert "\n" not in str(error.value)


def test_other_supports_and_shared_balls_are_refused_by_name():
    box = problem(support=drfl.Box(-9.0, 9.0))
    with pytest.raises(ValueError, match="a guard does not know the support Box"):
        drfl.solve(box, clients(guard=Guard(5)))
    shared = drfl.Problem("hinge", drfl.Ball(0.1, "l2"), drfl.Mixture(), shared_ball=True)
    with pytest.raises(ValueError, match="shared_ball"):
        drfl.solve(shared, clients(guard=Guard(5)))


@pytest.mark.parametrize("bad", [{"k": 1}, {"answers": 0}, {"scalars": -1}])
def test_a_guard_refuses_bad_numbers(bad):
    with pytest.raises(ValueError, match="guard"):
        Guard(**bad)
    with pytest.raises(TypeError, match="guard"):
        Guard(2.5)
    with pytest.raises(TypeError, match="guard must be a Guard"):
        drfl.Client("a", *data(), guard=5)


def test_a_run_in_other_processes_with_ledgers_is_the_same_and_is_remembered(tmp_path):
    def guarded(folder):
        folder.mkdir()
        return [
            drfl.Client(f"c{s}", *data(s), guard=Guard(5, folder / f"{s}", secret=b"key"))
            for s in range(2)
        ]

    serial = drfl.solve(problem(), guarded(tmp_path / "serial"))
    others = drfl.solve(problem(), guarded(tmp_path / "others"), engine=ProcessesEngine())
    assert serial.coef.tobytes() == others.coef.tobytes()
    assert serial.status.kind in (StatusKind.STALLED, StatusKind.CERTIFIED)
    for s in range(2):
        lines = [audit(tmp_path / where / f"{s}").splitlines() for where in ("serial", "others")]
        assert lines[0][1:] == lines[1][1:]
        assert lines[0][1].startswith("answers: ")
    assert stat.S_IMODE((tmp_path / "serial" / "0").stat().st_mode) == 0o600
    again = drfl.solve(
        problem(), [drfl.Client("c0", *data(0), guard=Guard(5, tmp_path / "serial" / "0"))]
    )
    assert again.gap < 1.0


def test_a_statement_tells_no_number_of_a_row(tmp_path):
    client = drfl.Client("a", *data(), guard=Guard(5, tmp_path / "ledger", secret=b"key"))
    drfl.solve(problem(), [client])
    told = audit(tmp_path / "ledger")
    assert [line.split(":")[0] for line in told.splitlines()[1:]] == [
        "answers",
        "rank",
        "largest leverage of a row",
        "scalars",
    ]
    assert audit_ledger(client.ledger).splitlines()[1:] == told.splitlines()[1:]
    with pytest.raises(ValueError, match="no ledger"):
        audit(tmp_path / "nothing")


def test_scalars_are_rounded_counted_and_repeated():
    ledger = drfl.Client("a", *data(), guard=Guard(5, secret=b"key")).ledger
    step = 100.0 / N**2
    low = release_scalar(ledger, "bound", b"1", 0.5, 2, up=False)
    assert 0.5 - step <= low <= 0.5
    high = release_scalar(ledger, "bound", b"2", 0.5, 2, up=True)
    assert 0.5 <= high <= 0.5 + step
    assert release_scalar(ledger, "bound", b"1", 0.9, 2, up=False) == low
    with pytest.raises(SpentError):
        release_metric(ledger, "accuracy", b"3", np.ones(N), 2)
    mean, square = release_moments(ledger)
    assert mean == pytest.approx(data()[0].mean(0))
    assert square == pytest.approx((data()[0] ** 2).mean(0))
    assert "scalars: 2" in audit_ledger(ledger)


def test_small_categories_are_merged():
    merged = merge_categories({"a": 30, "b": 4, "c": 2, "d": 8}, 5)
    assert merged == {"a": "a", "b": "other", "c": "other", "d": "d"}
    assert merge_categories({"a": 30, "b": 6}, 5) == {"a": "a", "b": "b"}


def test_a_report_says_which_guard_a_run_had():
    assert "none" in guard_line(None)
    assert guard_line(Guard(7)) == "guard: k = 7, ledger in memory"
