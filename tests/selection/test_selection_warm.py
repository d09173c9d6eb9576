"""The path: which cuts stay valid, and that a warm start changes the time, never the answer."""

import math

import numpy as np
import pytest

from drfl import Ball, Box, Client, Mixture, Polyhedron, Problem, solve
from drfl.engines import SerialEngine
from drfl.selection.client_half.folds import FoldEngine, Part, on_parts
from drfl.selection.warm import WarmBundle
from drfl.solvers import Assignment
from drfl.solvers.bundle import Bundle
from drfl.worst_case import make_oracle
from kit.lossy import losing

RNG = np.random.default_rng(21)
X = np.clip(RNG.normal(size=(3, 30, 2)), -2.0, 2.0)
NOISE = RNG.normal(size=(3, 30))
SLOPE = np.array([1.0, -0.6])
BOX = Box(-2.0, 2.0)
PLANES = Polyhedron([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 1.0]], [2, 2, 2, 2, 4])

PATHS = {
    "norm": ("hinge", None, "l1", [(0.01, math.inf), (0.05, math.inf), (0.0, math.inf)]),
    "flips": ("hinge", None, "l1", [(0.05, 0.6), (0.1, 0.3), (0.02, 2.0), (0.1, math.inf)]),
    "flips after none": ("logistic", None, "linf", [(0.1, math.inf), (0.1, 0.5), (0.0, 0.5)]),
    "regression": ("huber", None, "l2", [(0.1, 0.5), (0.3, 2.0), (0.05, math.inf)]),
    "lifted": ("hinge", BOX, "l1", [(0.1, 0.8), (0.3, 0.8), (0.0, 0.8), (0.1, 0.8)]),
    "of F itself": ("logistic", BOX, "l1", [(0.05, 0.8), (0.2, 0.8), (0.02, 0.8)]),
    "polyhedron": ("hinge", PLANES, "l1", [(0.05, 0.8), (0.1, 0.8), (0.02, 0.8)]),
}


def clients_for(loss):
    y = X @ SLOPE + 0.7 * NOISE
    y = y if loss == "huber" else np.where(y > 0.0, 1.0, -1.0)
    return [Client(f"c{s}", X[s], y[s]) for s in range(3)]


def problems(loss, support, norm, steps, *, shared=False):
    thetas = [0.0] * len(steps) if shared else [0.4, 0.0, 2.0, 0.1]
    return [
        Problem(loss, Ball(rho, norm, kappa, support), Mixture(radius=theta), shared_ball=shared)
        for (rho, kappa), theta in zip(steps, thetas, strict=False)
    ]


class Path:
    """Problems solved one after the other by a warm solver, each in a window on the same engine."""

    def __init__(self, clients, shell, **settings):
        self.clients, self.solver = clients, WarmBundle(Bundle(**settings))
        self.engine = SerialEngine(debug=True)
        self.engine.start(clients, shell, on_parts(Bundle.handlers))
        self.parts = {client.name: Part(0, 1, 0) for client in clients}

    def solve(self, problem, tol=1e-6):
        window = FoldEngine(self.engine, self.parts)
        return solve(problem, self.clients, solver=self.solver, engine=window, tol=tol)

    def inherited(self, problem):
        """The model of the next problem before its first round."""
        names, n = tuple(client.name for client in self.clients), X.shape[2]
        session = self.solver.start(Assignment(problem, names, n, tol=1e-6, max_rounds=1))
        return session.state.points.model


SUPPORTS = ("lifted", "of F itself", "polyhedron")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SUPPORTS)) for n in PATHS]
)
@pytest.mark.sampled(2)
def test_a_warm_start_never_changes_the_answer(name):
    steps = problems(*PATHS[name])
    clients = clients_for(steps[0].loss.name)
    path = Path(clients, steps[0])
    for problem in steps:
        warm, cold = path.solve(problem), solve(problem, clients)
        enough = ("certified",) if problem.ball.radius > 0.0 else ("certified", "local")
        assert warm.status.kind in enough
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
        assert warm.lower_bound <= cold.objective * (1.0 + 1e-9)
        assert cold.lower_bound <= warm.objective * (1.0 + 1e-9)


@pytest.mark.parametrize("classes", [None, 3])
def test_split_flips_come_and_go(classes):
    """Two groups, and one with what its flips add, are two pieces with other masses."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(3, 150, 2))
    score = rows @ SLOPE + 0.7 * rng.normal(size=(3, 150))
    y = np.where(score > 0.0, 1.0, -1.0) if classes is None else np.digitize(score, [-0.5, 0.5])
    clients = [Client(f"c{s}", rows[s], y[s].astype(float)) for s in range(3)]
    steps = [(0.02, 2.0), (0.0, 2.0), (0.05, 2.0), (0.05, math.inf), (0.03, 1.0)]
    problems = [Problem("logistic", Ball(rho, "l2", k), classes=classes) for rho, k in steps]
    for start in range(len(steps)):
        path = Path(clients, problems[0], groups=2)
        for problem in problems[start:] + problems[:start]:
            warm, cold = path.solve(problem, tol=1e-3), solve(problem, clients)
            assert warm.objective == pytest.approx(cold.objective, rel=2e-3)
            assert warm.lower_bound <= cold.objective * (1.0 + 1e-9)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.sampled(2)
def test_the_cuts_that_are_kept_are_below_the_new_losses(name):
    first, *others = problems(*PATHS[name])
    clients = clients_for(first.loss.name)
    rng, kept = np.random.default_rng(2), 0.0
    for problem in others:
        path = Path(clients, first)
        path.solve(first)
        model = path.inherited(problem)
        oracles = [make_oracle(c.rows, problem.loss, problem.ball_of(c.name)) for c in clients]
        for x in rng.normal(size=(40, 3)) * np.array([2.0, 2.0, 0.7]):
            truth = np.array([oracle.evaluate(x[:2], x[2]).value for oracle in oracles])
            below = model(x)
            assert (below <= truth + 1e-9).all()
            kept = max(kept, below.max())
    assert kept > 0.1  # some were kept: 0 would be below everything


@pytest.mark.parametrize("costs", [(math.inf, 0.3), (0.3, math.inf)], ids=["first", "later"])
@pytest.mark.parametrize("classes", [None, 3])
def test_cuts_of_flips_are_told_from_cuts_of_groups(classes, costs):
    """With a label cost that is finite or not there are two pieces, or one, in a family."""
    rng = np.random.default_rng(0)
    rows, W = rng.normal(size=(3, 120, 6)), rng.normal(size=(classes or 1, 6))
    scores = rows @ W.T + rng.normal(size=(3, 120, classes or 1))
    y = scores.argmax(axis=2) if classes else np.sign(scores[..., 0])
    clients = [Client(f"c{s}", rows[s], y[s].astype(float)) for s in range(3)]
    solver = WarmBundle(Bundle())
    for cost in costs * 2:
        problem = Problem(
            "logistic", Ball(0.01, "l2", cost), Mixture("uniform", 0.3), classes=classes
        )
        warm, cold = (solve(problem, clients, solver=how) for how in (solver, Bundle()))
        assert not any(record.failures for record in warm.history)
        assert warm.status.kind == "certified"
        assert warm.lower_bound <= cold.objective
        assert cold.lower_bound <= warm.objective


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "hinge"])
def test_the_gap_is_relative_to_the_problem_at_hand(loss, shared):
    clients, solver = clients_for("huber" if loss != "hinge" else loss), WarmBundle(Bundle())
    for rho, theta in ((1000.0, 0.5), (0.001, 0.0), (0.1, 2.0)):
        ball = Ball(rho, "l2", 0.01)
        problem = Problem(loss, ball, Mixture(radius=theta), shared_ball=shared)
        warm, cold = (solve(problem, clients, solver=how) for how in (solver, Bundle()))
        scale = max(warm.objective, 1e-3 * cold.history[0].objective)  # its first point is w = 0
        gap = max(warm.objective - warm.lower_bound, 0.0) / scale
        assert warm.gap == pytest.approx(gap, rel=1e-9)


def test_a_gap_on_a_support_is_not_relative_to_a_larger_problem():
    """With movable targets the objective at w = 0 falls with the radius, by how much is unknown."""
    clients, solver = clients_for("huber"), WarmBundle(Bundle())
    for rho in (1000.0, 0.001):
        ball = Ball(rho, "l1", 1e-4, BOX)
        problem = Problem("epsilon_insensitive", ball, Mixture(radius=0.2), epsilon=3.0)
        warm, cold = (solve(problem, clients, solver=how) for how in (solver, Bundle()))
        scale = max(warm.objective, 1e-3 * cold.history[0].objective)
        assert warm.gap >= (warm.objective - warm.lower_bound) / scale * (1.0 - 1e-9)


def test_a_run_without_a_model_is_not_inherited():
    clients = clients_for("hinge")
    steps = [Problem("hinge", Ball(rho), Mixture(radius=0.2)) for rho in (0.1, 0.2, 0.3)]
    solver = WarmBundle(Bundle())
    solve(steps[0], clients, solver=solver)
    lost = solve(steps[1], clients, solver=solver, engine=losing(1.0, 0))
    assert lost.objective == math.inf
    assert solve(steps[2], clients, solver=solver).status.kind == "certified"


def test_a_shared_multiplier_keeps_its_cuts():
    steps = problems("hinge", None, "l1", [(0.05, 0.6), (0.1, 0.6), (0.1, 0.3)], shared=True)
    clients = clients_for("hinge")
    path = Path(clients, steps[0])
    for problem in steps:
        warm, cold = path.solve(problem), solve(problem, clients)
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


def test_small_steps_of_the_radius_cost_few_rounds():
    radii = [0.01, 0.012, 0.015, 0.02, 0.025]
    steps = [Problem("hinge", Ball(rho), Mixture(radius=0.2)) for rho in radii]
    path = Path(clients_for("hinge"), steps[0])
    warm = [path.solve(problem).rounds for problem in steps]
    cold = [solve(problem, path.clients).rounds for problem in steps]
    assert warm[0] == cold[0]
    assert sum(warm[1:]) < 0.6 * sum(cold[1:])


def test_lost_answers_change_nothing_but_the_time():
    clients = clients_for("hinge")
    engine = losing(0.25, seed=3)
    engine.start(clients, Problem("hinge"), on_parts(Bundle.handlers))
    solver, parts = WarmBundle(Bundle()), {client.name: Part(0, 1, 0) for client in clients}
    for rho in (0.02, 0.05, 0.1):
        problem = Problem("hinge", Ball(rho, label_cost=0.7), Mixture(radius=0.2))
        warm = solve(problem, clients, solver=solver, engine=FoldEngine(engine, parts))
        cold = solve(problem, clients)
        assert warm.status.kind == "certified"
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


def test_other_clients_or_another_loss_begin_anew():
    clients = clients_for("hinge")
    path = Path(clients, Problem("hinge"))
    path.solve(Problem("hinge", Ball(0.1)))
    for problem, group in [
        (Problem("hinge", Ball(0.1)), clients[:2]),
        (Problem("hinge", Ball(0.1, norm="l2")), clients),
        (Problem("smooth_hinge", Ball(0.1)), clients),
    ]:
        path.solver.start(Assignment(Problem("hinge", Ball(0.1)), ("c0",), 2, 1e-6, 9))
        window = SerialEngine(debug=True)
        warm = solve(problem, group, solver=path.solver, engine=window)
        cold = solve(problem, group)
        assert warm.rounds == cold.rounds
        np.testing.assert_array_equal(warm.coef, cold.coef)
