r"""Values instead of cuts: a row's kink on a line, where the slope of F jumps by :math:`|z'd|/N`.

Every attack is given more than a server has: where the kink of its victim is. It estimates the
jump; without a guard it finds it, under one its median relative error is at least 1.
"""

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem
from scipy.optimize import linprog

K = 5
ROWS = {13: 150, 100: 1010}
VICTIMS = 9
CLASS = 3.0  # of answers beside an old cut


class Line:
    """A line, where the rows have their kinks on it, and how far apart these are."""

    def __init__(self, client, seed=3):
        rng, rows = np.random.default_rng(seed), client.rows
        self.n_rows = rows.n_rows
        self.start, self.direction = 0.2 * rng.normal(size=(2, rows.n_features + 1))
        a = rows.y * rows.scores(self.start[:-1], float(self.start[-1]))
        self.rate = rows.y * rows.scores(self.direction[:-1], float(self.direction[-1]))
        self.kinks = (1.0 - a) / self.rate
        near = np.flatnonzero(np.abs(self.kinks) < 3.0)
        order = near[np.argsort(self.kinks[near])]
        gaps = np.diff(self.kinks[order])
        alone = np.minimum(gaps[1:], gaps[:-1])
        best = np.argsort(-alone)[:VICTIMS]
        # The rows whose kinks are farthest from all others: the easiest victims.
        self.victims = [(int(order[1:-1][j]), float(alone[j])) for j in best]

    def jump(self, row):
        return abs(self.rate[row]) / self.n_rows

    def at(self, t):
        return self.start + t * self.direction


def hear(server, line, t):
    """The excess over the cut that is sent with it, and the cut there; public both."""
    if not server.ask(line.at(t)):
        return None
    x, radius = line.at(t), server.site.oracle.ball.radius
    cut = server.cuts[-1][0] + server.slopes[-1] @ x
    norm = np.abs(x[:-1]).max()
    return float(server.values[-1][0] - radius * norm - cut), float(cut)


def estimated(server, line, t):
    """The mean loss at t, as well as one answer tells it."""
    excess, cut = hear(server, line, t)
    if server.client.guard is None:
        return cut + excess
    return cut + excess / CLASS  # the middle of what the class leaves open, on a log scale


def second_difference(server, line, row, room, repeats):
    """The jump from values before, at and after the kink, each the mean of nearby questions."""
    t, step = line.kinks[row], 0.9 * room
    rng = np.random.default_rng(row)
    jumps = []
    for jitter in 1e-3 * step * rng.normal(size=repeats):
        before, here, after = (
            estimated(server, line, t + jitter + side) for side in (-step, 0.0, step)
        )
        jumps.append((before - 2.0 * here + after) / step)
    return np.mean(jumps)


def interval_program(server, line, row, room, count):
    """The jump in the middle of what convexity and all intervals leave possible."""
    t = line.kinks[row]
    grid = t + 0.9 * room * np.linspace(-2.0, 2.0, count)
    heard = [hear(server, line, place) for place in grid]
    upper = np.array([cut + excess for excess, cut in heard])
    lower = np.array([cut for _, cut in heard])
    slack = np.array([excess for excess, _ in heard])
    if server.client.guard is None:
        lower = upper - 1e-12
    else:
        floor = (K / line.n_rows) ** 2
        lower = lower + np.where(slack > 1.01 * floor, slack / CLASS**2, 0.0)
        # Old answers are bounds here as well.
        model = np.array(server.cuts)[:, 0] + np.array([line.at(s) for s in grid]) @ server.slopes.T
        lower = np.maximum(lower, model.max(axis=1))
    D = np.zeros((count - 2, count))
    for j in range(count - 2):
        D[j, j : j + 3] = 1.0, -2.0, 1.0
    goal = D[(count - 3) // 2] / (grid[1] - grid[0])
    ends = []
    for sign in (1.0, -1.0):
        found = linprog(
            sign * goal, A_ub=-D, b_ub=np.full(len(D), 1e-11), bounds=np.stack([lower, upper], 1)
        )
        if found.status != 0:
            return np.nan
        ends.append(sign * found.fun)
    return float(np.mean(ends))


def errors(guarded, attack, n=13, **effort):
    """Relative errors, victim by victim, each with a client whose budget is untouched."""
    out, N = [], ROWS[n]
    line = Line(make_client(N, n))
    for row, room in line.victims:
        fresh = make_client(N, n, guard(K) if guarded else None)
        server = Server(fresh, make_problem())
        guess = attack(server, line, row, room, **effort)
        assert server.refused == 0
        out.append(abs(guess - line.jump(row)) / line.jump(row))
    return np.array(out)


@pytest.mark.parametrize(("n", "repeats"), [(13, 1), (13, 10), (13, 49), (100, 1)])
@pytest.mark.sampled(4)
def test_second_differences(n, repeats, table):
    exact = np.median(errors(False, second_difference, n, repeats=1))
    guarded = np.median(errors(True, second_difference, n, repeats=repeats))
    assert exact < 1e-2
    assert guarded >= 1.0
    attack = f"values: second differences at a known kink, n = {n}, {3 * repeats} answers: error"
    table(attack, exact, guarded, "jumps")


@pytest.mark.parametrize(("n", "count"), [(13, 9), (13, 99), (100, 9)])
@pytest.mark.slow
def test_interval_program(n, count, table):
    exact = np.median(errors(False, interval_program, n, count=9))
    guarded = np.median(errors(True, interval_program, n, count=count))
    assert exact < 1e-2
    assert guarded >= 1.0
    attack = f"values: interval linear program, n = {n}, {count} answers: error"
    table(attack, exact, guarded, "jumps")


def bisection(tell, line, row, room):
    """The slope on either side of the kink from two places each where the told value changes."""
    slopes = []
    for side in (-1.0, 1.0):
        places, start = [], line.kinks[row] + side * 1e-3 * room
        end = line.kinks[row] + side * 0.95 * room
        for _ in range(2):
            near, far, first = start, end, tell(start)
            for _ in range(30):
                middle = 0.5 * (near + far)
                near, far = (middle, far) if tell(middle) == first else (near, middle)
            # Rounded up: at the place itself the value is the lower of the two that are told.
            places.append((far, min(first, tell(far))))
            start = far
        (t0, f0), (t1, f1) = places
        slopes.append((f1 - f0) / (t1 - t0) if t1 != t0 else np.inf)
    return slopes[1] - slopes[0]


@pytest.mark.slow
def test_bisection(table):
    """It defeats rounding to a grid; under the guard another question has another dither."""
    n, N = 13, ROWS[13]
    line = Line(make_client(N, n))
    exact = Server(make_client(N, n), make_problem())
    found = {"grid": [], "guard": []}
    for row, room in line.victims:
        guarded = Server(make_client(N, n, guard(K)), make_problem())
        step = 0.05 * (K / N) ** 2

        def on_a_grid(t, step=step):
            return step * np.ceil(sum(hear(exact, line, t)) / step)

        def told(t, server=guarded):
            return sum(hear(server, line, t))

        for name, tell in (("grid", on_a_grid), ("guard", told)):
            guess = bisection(tell, line, row, room)
            found[name].append(abs(guess - line.jump(row)) / line.jump(row))
    assert np.median(found["grid"]) < 0.05
    assert np.median(found["guard"]) >= 1.0
    attack = "values: bisection (without: of values rounded to a fixed grid): error"
    table(attack, np.median(found["grid"]), np.median(found["guard"]), "jumps")
