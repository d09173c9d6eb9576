"""The models of a grid are optimal, and so are those of the paper's printed program."""

import math
from dataclasses import replace

import numpy as np
import pytest

from drfl import Ball, Box, Client, Mixture, Problem, solve
from drfl.worst_case import make_oracle
from experiments.data import as_table, load, paper_sample
from experiments.fits import Grid
from experiments.literal import Printed
from experiments.methods import METHODS, grid, untuned
from experiments.protocol import PROTOCOLS, Protocol

SMALL = replace(
    Protocol(), radii=(1e-3, 5e-2), label_costs=(0.5,), mixture_radii=(1e-4, 0.5), tol=1e-4
)


@pytest.fixture(scope="module")
def table():
    return paper_sample(SMALL, 0).train


def problem_of(method, params, table):
    """What a method minimises, stated independently of the estimators."""
    theta = {"erm": 0.0, "wafl": 0.0, "drfa": math.inf}.get(method, params.get("mixture_radius"))
    ball = Ball(params.get("radius", 0.0), "l1", params.get("label_cost", math.inf))
    clients = list(table.clients(table.y))
    return Problem("hinge", ball, Mixture(radius=theta), shared_ball=method == "wafl"), clients


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.sampled(4)
def test_models_are_optimal(method, table):
    own = Grid(method, grid(method, SMALL), table, SMALL)
    models = own.fit(table)
    for k, params in enumerate(own.params):
        problem, clients = problem_of(method, params, table)
        best = solve(problem, clients, tol=1e-6).lower_bound
        w, b = models.coef[k], float(models.intercept[k])
        if method == "wafl":
            pooled = next(iter(table.pooled(np.full(3, 1 / 3)).clients(table.y)))
            found = make_oracle(pooled.rows, problem.loss, problem.ball).evaluate(w, b).value
        else:
            losses = [
                make_oracle(c.rows, problem.loss, problem.ball_of(c.name)).evaluate(w, b).value
                for c in clients
            ]
            found = problem.mixture.support(losses)
        assert found <= best * (1.0 + SMALL.tol) + 1e-9


def test_untuned_radii(table):
    params = untuned("drfl", 0.1, table)
    assert params["radius"] == [0.1 / math.sqrt(n) for n in table.totals]
    assert untuned("wafl", 0.1, table)["radius"] == 0.1 / math.sqrt(table.totals.sum())
    assert untuned("afl", 0.1, table) == {"mixture_radius": 0.2}


@pytest.mark.parametrize("box", ["widen", "clip"])
@pytest.mark.sampled(2)
def test_box_of_the_rows_changes_little(box, table):
    """On the paper's grid labels are so cheap that a box around the rows does not bind."""
    protocol = replace(SMALL, box=box, radii=(1e-2,), mixture_radii=(0.1,))
    sample = paper_sample(protocol, 0)
    inside = Grid("drfl", grid("drfl", protocol), sample.train, protocol).fit(sample.train)
    whole = replace(protocol, box="none")
    free = Grid("drfl", grid("drfl", whole), sample.train, whole).fit(sample.train)
    problem, clients = problem_of("drfl", grid("drfl", protocol)[0], sample.train)
    for models in (inside, free):
        losses = [
            make_oracle(c.rows, problem.loss, problem.ball)
            .evaluate(models.coef[0], float(models.intercept[0]))
            .value
            for c in clients
        ]
        best = solve(problem, clients, tol=1e-6).objective
        assert problem.mixture.support(losses) <= best * (1.0 + 2e-4)


# ---------------------------------------------------------------------- as printed
def printed_in_full(table, radius, cost, theta):
    """Proposition SVM1 with all its multipliers, in cvxpy."""
    cp = pytest.importorskip("cvxpy")
    n, S = table.X.shape[1], len(table.names)
    w, lam, z = cp.Variable(n), cp.Variable(S, nonneg=True), cp.Variable(S)
    rules = []
    for s in range(S):
        X, y = table.X[table.member == s], table.y[table.member == s]
        alpha = cp.Variable(len(y), nonneg=True)
        rules.append(z[s] >= radius * lam[s] + cp.sum(alpha) / len(y))
        for i in range(len(y)):
            for sign, price in ((1.0, 0.0), (-1.0, cost)):
                pi, tau = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
                slope = -sign * y[i] * w - pi + tau
                rules += [
                    1.0 + slope @ X[i] + cp.sum(pi + tau) - price * lam[s] <= alpha[i],
                    cp.norm_inf(pi - tau + sign * y[i] * w) <= lam[s],
                ]
    beta, gamma, v = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(S)
    rules += [v >= z, v >= gamma, v <= gamma + beta]
    problem = cp.Problem(cp.Minimize(theta / 2.0 * beta + cp.sum(v) / S), rules)
    return problem.solve(solver=cp.CLARABEL)


def value_as_printed(program, w, radius, cost, theta):
    """The least value of the printed program at given w, by the program itself."""
    from scipy.optimize import linprog

    rho = np.full(program.S, radius)
    mixing, c = program._mixture(theta)
    A = np.vstack(
        [
            program._rows(program.y, True, 0.0),
            program._rows(-program.y, True, cost),
            program._clipping(),
            program._losses(rho),
            mixing,
        ]
    )
    b = np.concatenate([np.full(2 * program.N, -1.0), np.zeros(len(A) - 2 * program.N)])
    bounds = [(v, v) for v in w] + [(0.0, None)] * (program.size - len(w))
    bounds[program.at["gamma"].start] = (None, None)
    return linprog(c, A, b, bounds=bounds).fun


def few_rows(outside):
    rng = np.random.default_rng(3)
    clients = []
    for s in range(2):
        X = rng.uniform(-1.0, 1.0, (6, 2)) * (1.6 if outside and s == 0 else 1.0)
        clients.append((X, np.sign(X[:, 0] + 0.3 * rng.normal(size=6))))
    return as_table(clients)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(("radius", "cost", "theta"), [(0.1, 0.5, 0.3), (0.5, 2.0, 1.0)])
def test_eliminated_multipliers(outside, radius, cost, theta):
    table = few_rows(outside)
    program = Printed(table, np.full(2, 0.5), replace(SMALL, intercept=False))
    x = program.solve(radius, cost, theta)
    found = value_as_printed(program, x, radius, cost, theta)
    assert found == pytest.approx(printed_in_full(table, radius, cost, theta), abs=1e-6)


def test_printed_program_is_right_inside_the_box():
    table = few_rows(outside=False)
    program = Printed(table, np.full(2, 0.5), replace(SMALL, intercept=False))
    x = program.solve(0.2, 0.5, 0.3)
    problem = Problem(
        "hinge", Ball(0.2, "l1", 0.5, Box(-1.0, 1.0)), Mixture(radius=0.3), intercept="none"
    )
    best = solve(problem, list(table.clients(table.y)), tol=1e-7).objective
    assert value_as_printed(program, x, 0.2, 0.5, 0.3) == pytest.approx(best, rel=1e-5)


def test_printed_program_mutes_rows_outside():
    """Its optimum is less than the least empirical loss, which no robust optimum can be."""
    X, y = load("heart")
    rng = np.random.default_rng(0)
    noisy = [(X + rng.normal(0.0, 0.5, X.shape), y)]
    table = as_table(noisy)
    program = Printed(table, np.ones(1), SMALL)
    x = program.solve(1e-3, 1.0, 0.0)
    client = [Client("a", *noisy[0])]
    least = solve(Problem("hinge"), client, tol=1e-6).lower_bound
    assert value_as_printed(program, x, 1e-3, 1.0, 0.0) < 0.8 * least


def test_vertices_are_as_good_but_longer():
    """Without a radius the simplex method ends at an optimum, not at that of the least norm."""
    protocol = replace(SMALL, ties="vertex")
    table = few_rows(outside=False)
    vertex = Grid("erm", [{}], table, protocol).fit(table)
    least = Grid("erm", [{}], table, replace(protocol, ties="smallest_norm")).fit(table)
    losses = []
    for models in (vertex, least):
        z = table.y * models.scores(table.X)[:, 0]
        losses.append(np.mean(np.maximum(0.0, 1.0 - z)))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert np.linalg.norm(vertex.coef) >= np.linalg.norm(least.coef) - 1e-6


def test_literal_choices():
    literal = PROTOCOLS["heart"].literal()
    assert (literal.box, literal.intercept, literal.ties) == ("literal", False, "vertex")
    abalone = PROTOCOLS["abalone"].literal()
    assert abalone.metric == "literal"
    sample = paper_sample(replace(abalone, train_share=0.05), 0)
    tiny = replace(abalone, radii=(0.05,), label_costs=(0.1, 1.0), mixture_radii=(0.1,))
    models = Grid("drfl", grid("drfl", tiny), sample.train, tiny).fit(sample.train)
    np.testing.assert_array_equal(models.coef[0], models.coef[1])  # it knows no label cost
