r"""Constants instead of cuts: those that close a run, those of smooth cuts, and what metrics tell.

The constant C(g) of the best minorant with the slope g is a concave function whose slopes are minus
the vertices x of the loss, where n + 1 rows have their kinks: each row is a plane of vertices.
"""

from itertools import combinations

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem, rows_among

from drfl.client import Site
from drfl.privacy import SpentError, release_metric
from drfl.solvers.bundle import Bundle
from drfl.wire import Message

N, K = 150, 5


def constants(site, slopes):
    """What the client tells of these slopes; NaN where it refuses."""
    told = []
    for g in slopes:
        reply = site.answer(Message("bundle_close", 0, {"g": g[None]}), Bundle.handlers)
        told.append(reply.arrays.get("constant", np.full(1, np.nan))[0])
    return np.array(told)


def vertices(site, slopes, step):
    """Minus the slopes of C at these places, by differences."""
    d = slopes.shape[1]
    for g in slopes:
        told = constants(site, np.vstack([g, g + step * np.eye(d)]))
        x = (told[0] - told[1:]) / step
        if np.isfinite(x).all():
            yield x


@pytest.mark.parametrize("step", [1e-7, 1e-3, 1e-1])
@pytest.mark.sampled(2)
def test_planes_of_vertices_are_rows(step, table):
    """Along a line of slopes one row after the other leaves and enters the vertex."""
    n, found = 2, {}
    for guarded in (False, True):
        client = make_client(60, n, guard(K) if guarded else None)
        y, X = client.rows.y, client.rows.take(slice(None))
        total = -(y[:, None] * np.column_stack([X, np.ones(60)])).mean(axis=0)  # class sums
        line = np.linspace(0.05, 0.95, 60)[:, None] * total
        if guarded:
            line = line[:7]  # 4 scalars each: all that a ledger gives
        known = np.array(list(vertices(Site(client, make_problem()), line, step)))
        known = known[np.sort(np.unique(known.round(6), axis=0, return_index=True)[1])]
        planes = [
            np.linalg.lstsq(known[list(three)], np.ones(3), rcond=None)[0]
            for first in range(max(len(known) - 4, 1))
            for three in combinations(range(first, min(first + 5, len(known))), 3)
        ]
        found[guarded] = rows_among(np.array(planes), client, tol=1e-2 if guarded else 1e-4)
    assert found[False] or step > 1e-7
    assert not found[True]
    attack = "closing constants: vertices of the loss, and rows as the planes through them"
    table(attack, *map(len, found.values()), "rows")


class Bend:
    r"""A line on which the smooth hinge of one row begins to bend: F'' jumps by :math:`(z'd)^2/N`.

    Between two such places F is a parabola, so that three exact values tell its curvature.
    """

    def __init__(self, client, seed=3):
        rng, n = np.random.default_rng(seed), client.rows.n_features
        self.start, self.direction = 0.2 * rng.normal(size=(2, n + 1))
        y, scores = client.rows.y, client.rows.scores
        at = y * scores(self.start[:-1], float(self.start[-1]))
        self.rate = y * scores(self.direction[:-1], float(self.direction[-1]))
        self.jumps = self.rate**2 / client.rows.n_rows
        places = np.concatenate([(1.0 - at) / self.rate, -at / self.rate])
        order = np.argsort(places)
        gaps = np.diff(places[order])
        alone = np.minimum(gaps[1:], gaps[:-1])
        near = np.abs(places[order[1:-1]]) < 3.0
        best = np.argsort(-np.where(near, alone, 0.0))[:9]
        self.victims = [
            (int(order[1:-1][j]) % len(y), float(places[order[1:-1][j]]), float(alone[j]))
            for j in best
        ]

    def curvature_jump(self, tell, place, room):
        """From second differences on either side."""
        step = 0.45 * room
        t = place + step * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        f = np.array([tell(self.start + s * self.direction) for s in t])
        before, after = f[0] - 2.0 * f[1] + f[2], f[2] - 2.0 * f[3] + f[4]
        return abs(after - before) / step**2


def touched(server):
    """The mean loss as the constant of the cut sent at x tells it, its value apart."""

    def tell(x):
        assert server.ask(x)
        return float(server.cuts[-1][0] + server.slopes[-1] @ x)

    return tell


@pytest.mark.parametrize(("n", "N"), [(13, 150), (100, 1010)])
@pytest.mark.sampled(2)
def test_constants_of_smooth_cuts(n, N, table):
    """Exact constants tell one row's curvature; rounded ones of audited cuts do not."""
    bend, errors = Bend(make_client(N, n)), {False: [], True: []}
    for row, place, room in bend.victims:
        for guarded, found in errors.items():
            client = make_client(N, n, guard(K) if guarded else None)
            server = Server(client, make_problem("smooth_hinge"))
            jump = bend.curvature_jump(touched(server), place, room)
            found.append(abs(jump - bend.jumps[row]) / bend.jumps[row])
    assert np.median(errors[False]) < 1e-2
    assert np.median(errors[True]) >= 1.0
    attack = "constants of smooth cuts: where one row begins to bend: error"
    table(attack, *map(np.median, errors.values()), "curvatures")


def accuracy_of(client, tell):
    """A model's share of rightly classified rows, moved along the intercept."""
    rows, w = client.rows, np.linspace(-1.0, 1.0, client.rows.n_features)

    def at(b):
        right = (rows.scores(w, b) > 0.0) == (rows.y > 0.0)
        return tell(np.float64(b).tobytes(), right)

    return at, rows.scores(w, 0.0)


def kink(at, low, high, error):
    """Where the accuracy changes between two intercepts, from answers with such an error.

    A third of them pin down the accuracy at the left end; then it is bisection over all places that
    the answers leave possible.
    """
    places = np.linspace(low, high, 257)
    left = np.round(N * at(low)) + np.arange(-6, 7)
    possible = np.ones((2, len(left), len(places)), bool)  # more or fewer, how many at first, where
    guess = 0.5 * (low + high)
    for j in range(1, 30):
        b = (low if j < 4 else guess) + 1e-9 * j
        change = np.array([1.0, -1.0])[:, None, None] * (b > places)
        try:
            possible &= np.abs((left[:, None] + change) / N - at(b)) <= error + 1e-9
        except SpentError:
            break
        weight = np.cumsum(possible.sum(axis=(0, 1)))
        if weight[-1] == 0:
            break  # the place is between two of the grid
        guess = places[np.searchsorted(weight, 0.5 * weight[-1])]
    return guess


def test_bisection_of_metrics(table):
    """Two models between which one row changes sides: an exact accuracy tells where it is."""
    errors, rng = {False: [], True: []}, np.random.default_rng(0)
    plain = make_client(N, 13)
    scores = np.sort(-accuracy_of(plain, None)[1])  # where each row changes sides
    alone = np.minimum(np.diff(scores)[1:], np.diff(scores)[:-1])
    for j in np.argsort(-alone)[:15] + 1:
        low = scores[j] - rng.random() * alone[j - 1]
        high = low + alone[j - 1]
        ledger = make_client(N, 13, guard(K)).ledger

        def exact(question, right):
            return right.mean()

        def told(question, right, ledger=ledger):
            return release_metric(ledger, "accuracy", question, lambda: right, 30)

        for guarded, tell in ((False, exact), (True, told)):
            at, _ = accuracy_of(plain, tell)
            place = kink(at, low, high, K / N if guarded else 0.0)
            errors[guarded].append(abs(place - scores[j]) / (high - low))
    assert np.median(errors[False]) < 1e-2
    # A guess without any question has a median of 0.25.
    assert np.median(errors[True]) > 0.15
    attack = "accuracies, bisected: error of the place where a row changes sides (a guess: 0.25)"
    table(attack, *map(np.median, errors.values()), "of the gap")
