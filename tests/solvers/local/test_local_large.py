"""With many rows the local solver looks at samples first and fixes most rows; the proof stands."""

import math

import numpy as np
import pytest

import drfl
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, SmoothHinge
from drfl.rows import Rows
from drfl.solvers.local import stages as solver_stages
from drfl.worst_case import make_oracle

LOSSES = [Hinge(), SmoothHinge(), Logistic(), Huber(0.5), EpsilonInsensitive(0.1), Pinball(0.3)]


def rows(loss, seed, N=11_000, n=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n))
    target = X @ [1.0, -0.5, 0.2, 0.0] + 0.3 + rng.normal(size=N)
    return X, target if loss.task == "regression" else np.where(target > 0.0, 1.0, -1.0)


@pytest.fixture
def stages(monkeypatch):
    """How many rows the method sees, stage by stage."""
    seen = []

    class Watched(solver_stages.Iterate):
        def __init__(self, program, stack, *rest):
            super().__init__(program, stack, *rest)
            seen.append(len(stack.mass))

    monkeypatch.setattr(solver_stages, "Iterate", Watched)
    return seen


@pytest.mark.parametrize("label_cost", [math.inf, 0.5])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_the_optimum_of_many_rows(loss, label_cost, stages):
    X, y = rows(loss, seed=1)
    ball = drfl.Ball(0.02, "l1", label_cost)
    problem, clients = drfl.Problem(loss, ball), [drfl.Client("a", X, y)]
    result = drfl.solve(problem, clients, solver="local", tol=1e-5)
    assert result.status.kind == "certified"
    assert result.history[-1].info["method"] == "interior point"
    exact = make_oracle(Rows(X, y), loss, ball).evaluate(result.coef, result.intercept).value
    assert result.objective == pytest.approx(exact, rel=1e-12)
    other = drfl.solve(problem, clients, tol=1e-5)
    assert result.lower_bound <= other.objective
    assert other.lower_bound <= result.objective
    assert stages[0] < 3000  # a sample
    if loss.pieces:
        assert max(stages) < 6000  # and never all rows


def test_clients_of_all_sizes(stages):
    loss, made = Hinge(), []
    for seed, N in enumerate((9000, 3000, 40, 1)):
        made.append(drfl.Client(f"c{seed}", *rows(loss, seed, N)))
    mixture = drfl.Mixture("proportional", radius=0.3, p=2)
    problem = drfl.Problem(loss, drfl.Ball(0.02, "l1", 0.5), mixture)
    result = drfl.solve(problem, made, solver="local", tol=1e-5)
    other = drfl.solve(problem, made, tol=1e-5)
    assert result.status.kind == "certified"
    assert len(stages) > 1
    assert result.lower_bound <= other.objective
    assert other.lower_bound <= result.objective


def test_rows_sorted_by_label_and_far_from_the_kinks():
    """Separable data: no row is near a kink at first, and the sample alone decides."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 6000)
    X = rng.normal(size=(12_000, 2)) * 0.1 + 3.0 * y[:, None]
    problem = drfl.Problem("hinge", drfl.Ball(0.5, "l1"))
    result = drfl.solve(problem, [drfl.Client("a", X, y)], solver="local", tol=1e-6)
    assert result.status.kind == "certified"


def test_a_wrong_first_choice_of_rows_is_made_good(monkeypatch, stages):
    """With hardly any row left free the choice has to be repeated, until the proof succeeds."""
    monkeypatch.setattr(solver_stages, "UNSURE", 0.1)
    X, y = rows(Hinge(), seed=2)
    problem = drfl.Problem("hinge", drfl.Ball(0.02, "l1"))
    result = drfl.solve(problem, [drfl.Client("a", X, y)], solver="local", tol=1e-6)
    assert result.status.kind == "certified"
    assert len(stages) > 2
