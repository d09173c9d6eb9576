"""An independent judge of all solvers on random problems; and it sees what is planted."""

from dataclasses import replace

import numpy as np
import pytest

import drfl
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Line, Logistic, Pinball, SmoothHinge
from drfl.worst_case.whole_space import WholeSpaceOracle
from kit import problems
from kit.referee import Referee

LOSSES = (
    Hinge(),
    SmoothHinge(),
    Logistic(),
    Huber(0.5),
    EpsilonInsensitive(0.2),
    Pinball(0.8),
)
# "first_order" is judged on problems it knows and "private" on many draws of its noise, each with
# its own tests.
TOLERANCE = {"bundle": 1e-6, "local": 1e-6, "admm": 1e-2, "ad_lpmm": 1e-2}


def some_intercept(rng):
    return ("shared", "per_client", "none")[int(np.searchsorted([0.5, 0.8], rng.random()))]


def able(problem, solvers):
    """Those who know an intercept of every client."""
    return ("bundle",) if problem.own_intercepts else solvers


def drawn(seed, loss=None):
    """A problem on the whole space, with its data."""
    rng = np.random.default_rng(seed)
    loss = loss or LOSSES[rng.integers(len(LOSSES))]
    S, n = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    data = problems.clients(loss.task, rng, S=S, n=n, N=int(rng.integers(4, 20)))
    ball = drfl.Ball(
        float(rng.choice([0.01, 0.1, 0.5])),
        str(rng.choice(["l1", "l2", "linf"])),
        float(rng.choice([0.3, 1.0, 10.0, np.inf])),
    )
    center = str(rng.choice(["uniform", "proportional"]))
    mixture = drfl.Mixture(
        center, float(rng.choice([0.0, 0.3, np.inf])), [1, 2, np.inf][rng.integers(3)]
    )
    problem = drfl.Problem(loss, ball, mixture, intercept=some_intercept(rng))
    return problem, {f"c{s}": rows for s, rows in enumerate(data)}


def solved(problem, data, solver="bundle"):
    clients = [drfl.Client(name, X, y) for name, (X, y) in data.items()]
    limit = (
        30 if solver in ("admm", "ad_lpmm") else 200
    )  # the ADMMs are slow, and right on their way too
    return drfl.solve(problem, clients, solver=solver, tol=TOLERANCE[solver], max_rounds=limit)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.sampled(2)
def test_every_solver_is_judged_right(seed):
    problem, data = drawn(seed)
    referee = Referee.of(problem, data)
    best = referee.optimum()
    for solver in able(problem, TOLERANCE if seed % 4 == 0 else ("bundle", "local")):
        result = solved(problem, data, solver)
        assert referee.judge(result, TOLERANCE[solver], best) == [], solver


def drawn_on_a_support(seed):
    """A loss made of lines, rows in a box or a polyhedron; targets stay."""
    rng = np.random.default_rng(seed)
    loss = (Hinge(), EpsilonInsensitive(0.2), Pinball(0.8))[rng.integers(3)]
    S, n = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    data = problems.clients(loss.task, rng, S=S, n=n, N=int(rng.integers(4, 9)))
    X = np.vstack([rows for rows, _ in data])
    low, high = X.min(axis=0) - 0.1 * rng.random(n), X.max(axis=0) + 0.1 * rng.random(n)
    support = drfl.Box(low, high)
    if loss.task == "classification" and rng.random() < 0.5:
        faces = rng.normal(size=(2, n))
        C = np.vstack([np.eye(n), -np.eye(n), faces])
        support = drfl.Polyhedron(C, np.concatenate([high, -low, (X @ faces.T).max(axis=0) + 0.1]))
    cost = float(rng.choice([0.3, 2.0, np.inf])) if loss.task == "classification" else np.inf
    norm = str(rng.choice(["l1", "l1", "l2", "linf"]))
    ball = drfl.Ball(float(rng.choice([0.02, 0.1, 0.5])), norm, cost, support)
    mixture = drfl.Mixture(
        "uniform", float(rng.choice([0.0, 0.3])), [1, 2, np.inf][rng.integers(3)]
    )
    problem = drfl.Problem(loss, ball, mixture, intercept=some_intercept(rng))
    return problem, {f"c{s}": rows for s, rows in enumerate(data)}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.sampled(5)
def test_every_solver_is_judged_right_on_supports(seed):
    problem, data = drawn_on_a_support(seed)
    referee = Referee.of(problem, data)
    best = referee.optimum()
    some = ("bundle", "admm", "ad_lpmm") if seed % 3 == 0 else ("bundle",)
    for solver in able(problem, some):
        result = solved(problem, data, solver)
        assert referee.judge(result, TOLERANCE[solver], best) == [], solver


# ---------------------------------------------------------------------------- planted in results
def _scaled(field, factor):
    def change(result):
        values = {name: factor * value for name, value in getattr(result, field).items()}
        return replace(result, **{field: values})

    return change


PLANTED = {
    "objective": lambda r: replace(r, objective=r.objective * (1.0 + 1e-5)),
    "lower bound": lambda r: replace(r, lower_bound=r.lower_bound * (1.0 + 1e-3)),
    "coefficients": lambda r: replace(r, coef=r.coef * 1.001),
    "intercept": lambda r: replace(r, intercept=r.intercept + 0.01),
    "gap": lambda r: replace(r, gap=r.gap + 0.1),
    "losses": _scaled("client_losses", 1.0 + 1e-5),
    "higher multipliers": _scaled("client_multipliers", 1.1),
    "lower multipliers": _scaled("client_multipliers", 0.9),
    "weights": _scaled("weights", 0.99),
}


@pytest.mark.parametrize("error", PLANTED)
@pytest.mark.sampled(2)
def test_the_referee_sees_an_error_in_a_result(error):
    rng = np.random.default_rng(0)
    data = {f"c{s}": r for s, r in enumerate(problems.clients("classification", rng, N=12))}
    problem = drfl.Problem("hinge", drfl.Ball(0.02, "l2", 1.0), drfl.Mixture(radius=0.3))
    referee, result = Referee.of(problem, data), solved(problem, data)
    assert referee.judge(result, 1e-6) == []
    assert referee.judge(PLANTED[error](result), 1e-6) != []


# ---------------------------------------------------------------------------- planted in the code
def _wrong_slope(monkeypatch):
    right = Hinge.slope
    monkeypatch.setattr(Hinge, "slope", lambda self, z: 0.9 * right(self, z))
    return Hinge()


def _wrong_conjugate(monkeypatch):
    right = SmoothHinge.conjugate
    monkeypatch.setattr(SmoothHinge, "conjugate", lambda self, v: 1.5 * right(self, v))
    return SmoothHinge()


def _scaled_multiplier(monkeypatch):
    right = WholeSpaceOracle.fixed_multiplier

    def wrong(self, norm):
        lam, slope = right(self, norm)
        return 0.9 * lam, slope

    monkeypatch.setattr(WholeSpaceOracle, "fixed_multiplier", wrong)
    return Huber(0.5)


def _wrong_line(monkeypatch):
    monkeypatch.setattr(SmoothHinge, "rounded", (Line(0.0, 0.0), Line(-1.0, 1.1)))
    return SmoothHinge()


def _wrong_flip(monkeypatch):
    monkeypatch.setattr(Hinge, "flipped", Line(1.0, 1.2))
    return Hinge()


@pytest.mark.parametrize(
    ("plant", "solver"),
    [
        (_wrong_slope, "bundle"),
        (_wrong_conjugate, "bundle"),
        (_scaled_multiplier, "bundle"),
        (_scaled_multiplier, "local"),
        (_wrong_line, "local"),
        (_wrong_flip, "local"),
    ],
)
@pytest.mark.sampled(2)
def test_the_referee_sees_an_error_in_the_code(plant, solver, monkeypatch):
    loss, seen = plant(monkeypatch), []
    for seed in range(8):
        problem, data = drawn(seed, loss)
        if solver not in able(problem, (solver,)):
            continue
        seen = Referee.of(problem, data).judge(solved(problem, data, solver), 1e-6)
        if seen:
            break
    assert seen
