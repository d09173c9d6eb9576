"""Runs of the local solver: what it refuses, when the bundle method helps, what it reports."""

import math

import numpy as np
import pytest

import drfl
from drfl.solvers.base import Session, Solver, Standing, Status
from drfl.solvers.local import Local, stages
from drfl.solvers.local.session import LocalSession

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
y = np.where(X @ [1.0, 1.0, 0.0] + 0.5 * RNG.normal(size=30) > 0.0, 1.0, -1.0)
PROBLEM = drfl.Problem("hinge", drfl.Ball(0.05, "l1", 1.0), drfl.Mixture(radius=0.2))


def two():
    return [drfl.Client("a", X[:18], y[:18]), drfl.Client("b", X[18:], y[18:])]


def test_a_support_is_refused():
    problem = drfl.Problem("hinge", drfl.Ball(0.1, support=drfl.Box(-9.0, 9.0)))
    with pytest.raises(ValueError, match="whole space only: use solver='bundle'"):
        drfl.solve(problem, two(), solver="local")


def test_other_processes_are_refused():
    with pytest.raises(ValueError, match="needs the rows in this process: use engine='serial'"):
        drfl.solve(PROBLEM, two(), solver="local", engine="processes")


def test_a_shared_ball_is_refused():
    problem = drfl.Problem("hinge", drfl.Ball(0.1, label_cost=1.0), shared_ball=True)
    with pytest.raises(ValueError, match="'local' has no shared ball"):
        drfl.solve(problem, two(), solver="local")


def test_labels_are_checked_as_always():
    with pytest.raises(ValueError, match="labels"):
        drfl.solve(PROBLEM, [drfl.Client("a", X, 2.0 * y)], solver="local")


def test_a_result_has_all_its_fields():
    result = drfl.solve(PROBLEM, two(), solver="local")
    assert result.status.kind == "certified"
    assert list(result.weights) == list(result.client_losses) == ["a", "b"]
    assert all(math.isfinite(v) and v > 0.0 for v in result.client_multipliers.values())
    assert result.rounds == len(result.history) >= 1
    assert sum(result.bytes_up.values()) < 200  # nothing but a greeting
    other = drfl.solve(PROBLEM, two())
    assert result.objective == pytest.approx(other.objective, rel=2e-6)
    for name in ("a", "b"):
        assert result.client_losses[name] == pytest.approx(other.client_losses[name], abs=1e-3)
        assert result.client_multipliers[name] == pytest.approx(
            other.client_multipliers[name], rel=2e-2
        )


def test_the_same_run_gives_the_same_numbers():
    first, second = (drfl.solve(PROBLEM, two(), solver="local") for _ in range(2))
    assert first.objective == second.objective
    assert np.array_equal(first.coef, second.coef)


def test_a_solver_can_be_used_again():
    solver = Local()
    values = [drfl.solve(PROBLEM, two(), solver=solver).objective for _ in range(2)]
    assert values[0] == values[1]


def test_without_a_radius_the_bundle_method_picks_the_smallest_model():
    problem = drfl.Problem("hinge", drfl.Ball(0.0))
    separable = [drfl.Client("a", y[:, None] * np.abs(X), y)]
    mine = drfl.solve(problem, separable, solver="local")
    theirs = drfl.solve(problem, separable)
    assert np.array_equal(mine.coef, theirs.coef)
    assert mine.objective == theirs.objective


def test_the_bundle_method_takes_over_where_rounding_stops_the_other(monkeypatch):
    monkeypatch.setattr(stages.Interior, "step", lambda self: 0.0)
    result = drfl.solve(PROBLEM, two(), solver="local")
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "bundle"
    assert sum(result.bytes_up.values()) > 200
    assert result.objective == pytest.approx(drfl.solve(PROBLEM, two()).objective, rel=2e-6)


def test_many_rows_are_left_to_the_bundle_method_from_the_start(monkeypatch, tmp_path):
    monkeypatch.setattr("drfl.solvers.local.session.MANY_ROWS", sum(c.rows.n_rows for c in two()))
    mine = drfl.solve(PROBLEM, two(), solver="local")
    theirs = drfl.solve(PROBLEM, two())
    assert all(record.info["method"] == "bundle" for record in mine.history)
    assert mine.rounds == theirs.rounds + 1  # in the first the clients told their rows
    assert np.array_equal(mine.coef, theirs.coef)
    assert (mine.objective, mine.lower_bound) == (theirs.objective, theirs.lower_bound)
    stop = {"checkpoint": tmp_path / "run", "callbacks": [lambda r: r.round == 3]}
    assert drfl.solve(PROBLEM, two(), solver="local", **stop).status.kind == "stopped"
    resumed = drfl.solve(PROBLEM, two(), solver="local", checkpoint=tmp_path / "run")
    assert np.array_equal(resumed.coef, mine.coef)


@pytest.mark.parametrize(
    ("loss", "label_cost", "method"),
    [
        ("logistic", 1.0, "bundle"),
        ("smooth_hinge", 1.0, "bundle"),
        ("logistic", np.inf, "interior point"),
        ("hinge", 1.0, "interior point"),
    ],
)
def test_flips_of_smooth_losses_with_many_rows_are_left_to_the_bundle_method(
    monkeypatch, loss, label_cost, method
):
    monkeypatch.setattr("drfl.solvers.local.session.MANY_SMOOTH_ROWS", 5)
    problem = drfl.Problem(loss, drfl.Ball(0.1, "l1", label_cost))
    result = drfl.solve(problem, two(), solver="local")
    assert result.status.kind == "certified"
    assert {record.info["method"] for record in result.history} == {method}


def test_rounds_are_limited_and_the_bounds_reported(monkeypatch):
    monkeypatch.setattr("drfl.solvers.local.session.TEN", 1)
    result = drfl.solve(PROBLEM, two(), solver="local", max_rounds=2)
    assert result.status.kind == "max_rounds"
    assert result.rounds == 2
    assert result.lower_bound <= result.objective < math.inf


def test_callbacks_see_every_round(monkeypatch):
    monkeypatch.setattr("drfl.solvers.local.session.TEN", 1)
    seen = []
    drfl.solve(PROBLEM, two(), solver="local", callbacks=[seen.append])
    assert [record.round for record in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].gap <= 1e-6
    assert seen[-1].info["expected_gap"] < seen[0].info["expected_gap"]


def test_a_stopped_run_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("drfl.solvers.local.session.TEN", 1)
    path = tmp_path / "run"
    stopped = drfl.solve(
        PROBLEM, two(), solver="local", checkpoint=path, callbacks=[lambda r: r.round == 3]
    )
    assert stopped.status.kind == "stopped"
    resumed = drfl.solve(PROBLEM, two(), solver="local", checkpoint=path)
    straight = drfl.solve(PROBLEM, two(), solver="local")
    assert resumed.objective == straight.objective
    assert resumed.rounds == straight.rounds


class Claims(Session):
    """Says these bounds after a round, and gives up, or is content."""

    def __init__(self, objective, lower_bound, status):
        self.found, self.said = (objective, lower_bound, status), (math.inf, -math.inf, None)

    def propose(self):
        return {}

    def absorb(self, replies, failures):
        self.said = self.found

    @property
    def standing(self):
        objective, lower_bound, status = self.said
        half = np.full(2, 0.5)
        return Standing(status, np.zeros(3), 0.0, objective, lower_bound, 1.0, half, half, half)


GIVES_UP = Status.max_rounds(1.0, 1e-6)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0.493, 0.536), (0.5, 0.5)),  # crossed within the one that gives up
        ((0.7, 0.6), (0.5, 0.5)),  # and its bound is denied by the next one's model
        ((0.4, 0.1), (0.5, 0.5)),  # or its model by the next one's bound
    ],
)
def test_a_contradiction_of_methods_is_seen_by_the_run(first, second):
    class Staged(Solver):
        name, handlers = "staged", {}

        def start(self, task):
            made = [
                ("one", lambda: Claims(*first, GIVES_UP)),
                ("two", lambda: Claims(*second, Status.certified(0.0))),
            ]
            return LocalSession(made)

    result = drfl.solve(PROBLEM, two(), solver=Staged())
    assert result.status.kind == "failed"
    assert math.isinf(result.gap)
