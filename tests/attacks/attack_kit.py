"""A server that wants rows: what it may ask, what it hears, and what counts as a row."""

import math
from itertools import combinations, product

import numpy as np
from scipy.spatial import cKDTree

import drfl
from drfl.client import Site
from drfl.privacy import Guard
from drfl.solvers import Assignment
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.messages import CutRequest
from drfl.wire import Message

FOUND = 1e-4  # relative distance to a row at which it counts as recovered


def make_client(N, n, guard=None, *, seed=0, name="target", regression=False):
    """Rows from two overlapping clouds, or a linear model with noise."""
    rng = np.random.default_rng(seed)
    X, direction = rng.normal(size=(N, n)), rng.normal(size=n) / math.sqrt(n)
    score = X @ direction + 0.5 * rng.normal(size=N)
    y = score if regression else np.where(score > 0.0, 1.0, -1.0)
    return drfl.Client(name, X, y, guard=guard)


def guard(k=5, **settings):
    return Guard(k, secret=b"a fixed key for repeatable attacks", **settings)


def make_problem(loss="hinge", label_cost=math.inf, radius=0.01):
    ball = drfl.Ball(radius, "l1", label_cost)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.1, p=1), intercept="shared")


class Server:
    """Asks one client whatever it likes, in the form that the method has, and keeps the answers.

    ``weights`` are those of the rows in every answer. A server does not have them: they are for
    judging what an unlimited one could compute.
    """

    def __init__(self, client, problem):
        self.client, self.site = client, Site(client, problem)
        self.points, self.values, self.cuts, self.replies = [], [], [], []
        self.refused = 0

    def ask(self, x, **wishes):
        """One point; False if the client refuses."""
        x = np.asarray(x, dtype=np.float64)
        number = len(self.replies)
        request = CutRequest(x[None], (number,), (bool(wishes.pop("curvature", False)),), **wishes)
        reply = self.site.answer(request.message(number), Bundle.handlers)
        if reply.kind.startswith("failure"):
            self.refused += 1
            return False
        self.replies.append(reply)
        self.points.append(x)
        self.values.append(reply.arrays["value"][0])
        self.cuts.append(reply.arrays["cuts"][0, 0])
        return True

    def listen(self, rounds=40, tol=1e-6, others=2):
        """The honest method, its messages overheard: cuts of the client, point by point."""
        friends = [
            make_client(
                self.client.rows.n_rows, self.client.rows.n_features, seed=99 + s, name=f"f{s}"
            )
            for s in range(others)
        ]
        sites = {c.name: Site(c, self.problem_of(self.site)) for c in friends}
        sites[self.client.name] = self.site
        solver = Bundle(groups=1, curvature="never", dual_cuts=False, warm_start=False)
        stated, n = self.problem_of(self.site), self.client.rows.n_features
        session = solver.start(Assignment(stated, tuple(sites), n, tol, rounds))
        while session.standing.status is None:
            messages = session.propose()
            replies = {s: sites[s].answer(m, solver.handlers) for s, m in messages.items()}
            mine = messages[self.client.name], replies[self.client.name]
            session.absorb({s: r for s, r in replies.items() if "failure" not in r.kind}, {})
            if "cuts" in mine[1].arrays:
                d = self.site.dimension
                xs = mine[0].arrays.get("x", np.zeros((1, d)))
                self.points += list(xs)
                self.values += list(mine[1].arrays["value"])
                self.cuts += list(mine[1].arrays["cuts"][:, 0])
        return session

    @staticmethod
    def problem_of(site):
        oracle = site.oracle
        ball = oracle.ball
        return drfl.Problem(
            oracle.loss, ball, drfl.Mixture(radius=0.1, p=1), intercept=site.problem.intercept
        )

    @property
    def slopes(self):
        """The slopes in (w, b) of all cuts."""
        return np.array(self.cuts)[:, -self.site.dimension :]

    @property
    def weights(self):
        """(answers, N): recorded by the guard, or the slopes of the loss without one."""
        rows, oracle = self.client.rows, self.site.oracle
        if self.client.ledger is not None:
            sent = [
                e.arrays["weights"] for e in self.client.ledger.entries if "weights" in e.arrays
            ]
            return np.array([np.ones(rows.n_rows), rows.y, *sent])
        out = []
        for x in self.points:
            z = oracle.arguments(rows.scores(x[:-1], float(x[-1])), rows.y)
            out.append(oracle.loss.slope(z) * (rows.y if oracle.is_margin else 1.0))
        return np.array([np.ones(rows.n_rows), rows.y, *out])


def told_value(server, x):
    """The closest value at x that a client tells."""
    if server.client.guard is None:
        assert server.ask(x)
        return server.values[-1][0]
    message = Message("bundle_close", 0, {"g": np.zeros((1, len(x))), "x": x})
    return server.site.answer(message, Bundle.handlers).arrays["value"][0]


def rows_among(candidates, client, tol=FOUND):
    """Which rows are among vectors a (x, 1), a unknown: the set of their numbers."""
    X = client.rows.take(slice(None))
    candidates = candidates[np.abs(candidates[:, -1]) > 1e-12]
    x = candidates[:, :-1] / candidates[:, -1:]
    distance, nearest = cKDTree(X).query(x)
    hits = distance < tol * np.linalg.norm(X[nearest], axis=1)
    return set(nearest[hits].tolist())


def pair_differences(slopes):
    """All differences of two cuts."""
    i, j = np.triu_indices(len(slopes), 1)
    return slopes[i] - slopes[j]


def sign_combinations(slopes, size):
    """All sums of ``size`` cuts with signs, the first one positive."""
    signs = np.array([(1, *rest) for rest in product((1, -1), repeat=size - 1)])
    groups = np.array(list(combinations(range(len(slopes)), size)))
    return (signs @ slopes[groups]).reshape(-1, slopes.shape[1])


def distinct(slopes):
    """Each answer once, in the order in which they came."""
    first = np.unique(slopes, axis=0, return_index=True)[1]
    return slopes[np.sort(first)]


def leverages(weights):
    """The leverage of every row in the span of the weights, by a singular value decomposition."""
    U, s, _ = np.linalg.svd(weights.T, full_matrices=False)
    return (U[:, s > 1e-9 * s[0]] ** 2).sum(axis=1)
