"""Every step of the proof by brute force: what it returns is below f at every point.

The clients are made up: u_s is the maximum of 0 and random lines in (x, lambda_s), so that the
lines are valid cuts and f is known exactly. A cut that is not valid, or a step that is left out,
must be found by the same checks.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from drfl import Mixture
from drfl.gauges import DualNorm, Gauge
from drfl.losses import Hinge, Logistic, make_loss
from drfl.norms import Entries, EpigraphRows, make_norm
from drfl.solvers.certificate import Certificate, ServerProblem, repair
from drfl.solvers.certificate.anchors import Anchor, Anchors, _end_lines
from drfl.solvers.certificate.cuts import Pool, Solution
from drfl.solvers.certificate.proof import (
    Aggregate,
    aggregate,
    balance,
    bound_of_constants,
    pay_by_gauge,
    payable_slopes,
    price,
    share,
    weights_in,
    within,
)
from drfl.solvers.certificate.region import Region
from drfl.solvers.certificate.repair import drawn_in, polish
from drfl.solvers.master.master import Master
from kit.pools import family_cuts

S, n, K = 3, 3, 8
FAMILIES = ((0, 1), (0, 2), (1, 1), (2, 1))  # client and groups
INF = math.inf


class Increasing(Gauge):
    r"""The largest slope of an increasing model: max w_j where all w_j >= 0, else infinite.

    Not symmetric, and not a norm: its polar of g is the sum of :math:`(-g_j)_+`.
    """

    def __init__(self, n):
        self.n = n

    def value(self, x):
        w = x[: self.n]
        return float(w.max(initial=0.0)) if (w >= 0.0).all() else INF

    def subgradient(self, x):
        return make_norm("l1").steepest(x[: self.n])

    def polar(self, g):
        return float(np.maximum(-g, 0.0).sum())

    def payable(self, g, price):
        return np.where(g < 0.0, -price * make_norm("l1").project_ball(-g / price), g)

    def rows(self):
        j, ones, none = np.arange(self.n), np.ones(self.n), np.zeros(0)
        w = Entries(np.append(j, self.n + j), np.tile(j, 2), np.append(ones, -ones))
        at = Entries(j[:0], j[:0], none)
        return EpigraphRows(2 * self.n, 0, w, at, Entries(j, 0 * j, -ones))

    def curvature(self, x, price=1.0):
        return None


GAUGES = {norm: DualNorm(make_norm(norm), n) for norm in ("l1", "l2", "linf")}
GAUGES["increasing"] = Increasing(n)


def _server(gauge="l1", kind="flips", p=1, floor=0.0, intercept=True, rho=(0.3, 0.5, 0.1)):
    return ServerProblem(
        n=n,
        dimension=n + intercept,
        kind=kind,
        rho=np.array(rho),
        floor=np.array([0.0, 1.0, 0.5]) * floor,
        gauge=GAUGES[gauge],
        mixture=Mixture((0.5, 0.3, 0.2), 0.3, p),
        half=np.zeros((S, n)),
    )


def _pool(server, rng, per_piece=K):
    pool, made, d = Pool(S, server.dimension), [], server.dimension
    for s, groups in FAMILIES:
        shape = 1, groups, per_piece
        flips = -rng.random(shape) * (rng.random(shape) < 0.5) * (server.kind == "flips")
        numbers = rng.normal(size=shape), rng.normal(size=(*shape, d)), flips
        c, g, slope = (array.swapaxes(1, 2) for array in numbers)
        made.append(family_cuts([s], c, g, slope=slope))
    pool.add(made)
    return pool


def _f(server, pool, x):
    """The exact objective: F_s is convex and piecewise linear in lambda_s; try all its kinks."""
    cuts, values = pool.cuts, np.zeros(S)
    least = np.maximum(server.gauge.value(x), server.floor)
    if not np.isfinite(least).all():
        return INF
    for s in range(S):
        mine = pool.cut_client == s
        heights = cuts.c[mine] + cuts.g[mine] @ x
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = np.append(
                -heights / cuts.slope[mine],
                (heights[:, None] - heights) / (cuts.slope[mine] - cuts.slope[mine][:, None]),
            )
        kinks = kinks[np.isfinite(kinks) & (kinks > least[s])]
        values[s] = min(
            server.rho[s] * lam + pool.values(cuts, x, np.full(S, lam))[s]
            for lam in np.append(kinks, least[s])
        )
    return server.mixture.support(values)


def _points(server, rng, count=60):
    for _ in range(count):
        x = 10.0 ** rng.uniform(-2, 3) * rng.normal(size=server.dimension)
        if isinstance(server.gauge, Increasing):
            x[:n] = np.abs(x[:n])
        yield x


def _solutions(server, pool, rng, count=30):
    """From a master, and from nowhere."""
    k, J, x = len(pool.cuts), len(pool.family_client), np.zeros(server.dimension)
    good = Master(server).solve(pool, pool.cuts, x, 1e-6 * np.eye(server.dimension))
    assert good.usable
    yield good
    for _ in range(count):
        size = 10.0 ** rng.uniform(-6, 6)
        parts = (size * rng.exponential(size=m) * (rng.random(m) < 0.6) for m in (k, J, S))
        yield Solution(x, math.nan, *parts, np.zeros((S, n)))


CASES = [
    {"gauge": "l1"},
    {"gauge": "l2", "p": 2, "floor": 1.0},
    {"gauge": "linf", "p": INF, "rho": (0.0, 0.5, 0.1)},
    {"gauge": "l1", "kind": "norm", "intercept": False},
    {"gauge": "increasing", "kind": "norm"},
    {"gauge": "increasing", "floor": 0.3},
]


def _case(k):
    rng = np.random.default_rng(k)
    server = _server(**CASES[k])
    return server, _pool(server, rng), rng


@pytest.mark.parametrize("k", range(len(CASES)))
def test_bounds_are_below_f_and_the_master_comes_close(k):
    server, pool, rng = _case(k)
    points = list(_points(server, rng))
    values = [_f(server, pool, x) for x in points]
    solutions, bounds = list(_solutions(server, pool, rng)), []
    for solution in solutions:
        certificate = Certificate(server, None)
        assert certificate.everywhere
        bounds.append(certificate.bound(pool, pool.cuts, solution, polished=True))
    best = _f(server, pool, solutions[0].x)
    assert 0.0 <= max(bounds) <= min(*values, best) * (1.0 + 1e-9)
    assert bounds[0] == pytest.approx(best, rel=1e-4)  # the gauge's rows and polar fit each other


@pytest.mark.parametrize("k", range(len(CASES)))
def test_what_is_projected_out_stays_as_it_is(k, monkeypatch):
    """Sums of pieces and slopes of clients: equations where they are few, else projected out."""
    server, pool, rng = _case(k)
    cuts, J = pool.cuts, len(pool.family_client)
    start = Solution(
        np.zeros(server.dimension),
        math.nan,
        rng.uniform(0.5, 1.0, len(cuts)),  # so many that there is more than one way
        rng.exponential(size=J),
        rng.exponential(size=S),
        np.zeros((S, n)),
    )
    held, found = within(server, pool, cuts, start), []
    for few in (100, 0):
        monkeypatch.setattr(repair, "FEW", few)
        found.append(polish(server, pool, cuts, held).cuts)
    assert np.abs(found[1] - held.cuts).max() > 1e-3 * held.cuts.max()
    assert found[1] == pytest.approx(found[0], rel=1e-10, abs=1e-12)


def test_where_nothing_can_move_rounding_does_not(monkeypatch):
    """One cut of every piece has a multiplier: what its projection leaves is rounding."""
    server, pool, _ = _case(0)
    a = np.zeros(len(pool.cuts))
    a[np.unique(pool.cuts.piece, return_index=True)[1]] = 0.1
    ones = np.ones(len(pool.family_client))
    start = Solution(np.zeros(server.dimension), math.nan, a, ones, np.ones(S), np.zeros((S, n)))
    monkeypatch.setattr(repair, "FEW", 0)
    assert (polish(server, pool, pool.cuts, start).cuts == a).all()


@pytest.mark.parametrize("k", range(len(CASES)))
def test_every_aggregate_is_a_minorant(k):
    server, pool, rng = _case(k)
    points = list(_points(server, rng, 40))
    values = np.array([_f(server, pool, x) for x in points])
    for solution in _solutions(server, pool, rng, 20):
        minorants, q = share(server, pool, pool.cuts, solution)
        assert server.mixture.contains(q)
        for balanced in (True, False):
            total = aggregate(server, minorants, q, balanced=balanced)
            assert (
                _line(server, total, points) <= values + 1e-9 * (1.0 + np.abs(points).max())
            ).all()


def _line(server, total, points):
    X = np.array(points)
    above = np.array([np.maximum(server.gauge.value(x) - server.floor, 0.0) for x in points])
    b = X[:, n] if server.has_intercept else 0.0
    return total.constant + X[:, :n] @ total.g + float(total.gb.sum()) * b + above @ total.B


# ---------------------------------------------------------------------------- planted errors
def _violated(server, pool, minorants, q, points, **changes):
    """Whether an aggregate, changed, is above f somewhere."""
    total = aggregate(server, minorants, q)
    total = replace(
        total, **{name: change(getattr(total, name)) for name, change in changes.items()}
    )
    values = np.array([_f(server, pool, x) for x in points])
    return bool((_line(server, total, points) > values + 1e-7 * (1.0 + values)).any())


def test_a_scaled_multiplier_is_found():
    """The same check fails if multipliers are raised after they were cut down to their shares."""
    server, pool, rng = _case(3)
    solution = next(_solutions(server, pool, rng))
    near = [solution.x + 0.01 * rng.normal(size=server.dimension) for _ in range(40)]
    minorants, q = share(server, pool, pool.cuts, solution)
    assert not _violated(server, pool, minorants, q, near)
    assert _violated(server, pool, minorants.thinned(1.05), q, near)
    assert _violated(server, pool, minorants, q, near, constant=lambda c: 1.05 * c)
    assert _violated(server, pool, minorants, q, near, B=lambda B: B + 0.1)


def test_a_wrong_cut_is_found():
    server, pool, rng = _case(0)
    solution = next(_solutions(server, pool, rng))
    used = int(np.argmax(solution.cuts))
    higher = replace(pool.cuts, c=pool.cuts.c + 0.2 * (np.arange(len(pool.cuts)) == used))
    bound = Certificate(server, None).bound(pool, higher, solution)
    assert bound > _f(server, pool, solution.x) * (1.0 + 1e-6)


def _one_cut(server, c, g, slope):
    """A single client with a single cut, and the multiplier 1."""
    pool, slopes = Pool(1, server.dimension), np.array(slope).reshape(1, 1, 1)
    pool.add([family_cuts([0], np.array([[[c]]]), np.array([[[g]]]), slope=slopes)])
    one = np.ones(1)
    return pool, Solution(np.zeros(server.dimension), math.nan, one, one, one, np.zeros((1, n)))


def _one_client(rho):
    return replace(
        _server(),
        rho=np.array([rho]),
        floor=np.zeros(1),
        mixture=Mixture((1.0,)),
        half=np.zeros((1, n)),
    )


def test_without_the_price_the_bound_would_be_false():
    """u = max(0, 1 - lambda), rho = 0.2: the optimum is 0.2, at lambda = 1."""
    server = _one_client(0.2)
    pool, solution = _one_cut(server, 1.0, [0.0] * (n + 1), -1.0)
    minorants, q = share(server, pool, pool.cuts, solution)
    assert pay_by_gauge(server, aggregate(server, minorants, q)) == pytest.approx(0.2)
    unpaid = Aggregate(minorants.total()[0], np.zeros(n), np.zeros(1), np.zeros(1), q)
    assert pay_by_gauge(server, unpaid) == 1.0


def test_without_the_balance_the_bound_would_be_false():
    """u = max(0, 1 + b): the optimum is 0, at b = -1."""
    server = _one_client(0.2)
    pool, solution = _one_cut(server, 1.0, [0.0] * n + [1.0], 0.0)
    minorants, q = share(server, pool, pool.cuts, solution)
    assert pay_by_gauge(server, aggregate(server, minorants, q)) == 0.0
    assert pay_by_gauge(server, aggregate(server, minorants, q, balanced=False)) == 1.0


def test_a_wrong_polar_is_found():
    """The dual norm in place of the ground norm pays for too little."""

    class Wrong(Increasing):
        def polar(self, g):
            return 0.3 * super().polar(g)

    server, pool, rng = _case(4)
    wrong = replace(server, gauge=Wrong(n))
    false = 0
    for solution in _solutions(server, pool, rng, 200):
        minorants, q = share(server, pool, pool.cuts, solution)
        total = aggregate(server, minorants, q)
        x = 1e3 * (total.g < 0.0)  # where the slope falls
        true = _f(server, pool, np.append(x, 0.0))
        assert pay_by_gauge(server, total) <= true
        false += pay_by_gauge(wrong, total) > pay_by_gauge(server, total) + 1e-6
    assert false > 0


def test_a_wrong_conjugate_is_found():
    """A line that is not under the loss makes an anchor that is above f."""

    class TooHigh(Logistic):
        def conjugate(self, v):
            return super().conjugate(v) - 0.1

    z = np.linspace(-8.0, 8.0, 81)
    for loss, honest in ((Hinge(), True), (Logistic(), True), (TooHigh(), False)):
        under = all((v * z + c <= loss.value(z) + 1e-12).all() for v, c in _end_lines(loss))
        assert under == honest


# ---------------------------------------------------------------------------- single steps
def test_weights_are_drawn_into_q():
    server, rng = _server(p=2), np.random.default_rng(0)
    for _ in range(50):
        q = weights_in(server, rng.normal(size=S) * 10.0 ** rng.uniform(-9, 9))
        assert server.mixture.contains(q)


def test_prices_are_nonnegative_and_no_more_is_given_away_than_needed():
    needs, available = np.array([-0.2, 0.5, 0.5, 0.0]), np.array([0.1, 0.2, 0.8, 0.0])
    factors, left = price(needs, available)
    np.testing.assert_allclose(factors, [1.0, 0.4, 1.0, 1.0])
    np.testing.assert_allclose(left, [0.3, 0.0, 0.3, 0.0], atol=1e-15)


def test_the_balance_cancels_and_only_lowers():
    rng = np.random.default_rng(1)
    for lean in (rng.normal(size=9), np.abs(rng.normal(size=4)), np.zeros(3)):
        factors = balance(lean)
        assert ((factors >= 0.0) & (factors <= 1.0)).all()
        assert abs(float(factors @ lean)) <= 1e-15


@pytest.mark.parametrize("gauge", GAUGES)
def test_the_polar_is_what_a_slope_costs(gauge):
    """g'x + B gauge(x) >= 0 for B = polar(g), and not for less."""
    gauge, rng = GAUGES[gauge], np.random.default_rng(2)
    for _ in range(20):
        g = rng.normal(size=n)
        X = rng.normal(size=(4000, n)) * 3.0 ** rng.normal(size=(4000, n))
        X = np.vstack([X, np.eye(n), -np.eye(n), np.sign(X[:64]), X[:64] * (g < 0.0), -g])
        if isinstance(gauge, Increasing):
            X = np.abs(X)
            X = np.vstack([X, (g < 0.0).astype(float)])
        gauges = np.array([gauge.value(x) for x in X])
        B = gauge.polar(g)
        assert (X @ g + B * gauges >= -1e-12).all()
        assert (X @ g + (B - 1e-3) * gauges < 0.0).any() or B == 0.0
        inside = gauge.payable(g, 0.5 * B) if B > 0.0 else g
        assert gauge.polar(inside) <= 0.5 * B * (1.0 + 1e-12)


def test_slopes_made_payable_prove_what_their_constants_say():
    server, rng = _server("l2", "norm", floor=1.0), np.random.default_rng(3)
    for _ in range(30):
        q = weights_in(server, rng.random(S))
        slopes = payable_slopes(server, q, rng.normal(size=(S, n + 1)))
        C = rng.random(S)
        bound = bound_of_constants(server, q, slopes, C)
        assert bound >= float(q @ C) - 1e-12
        for x in _points(server, rng, 30):
            lam = np.maximum(server.gauge.value(x), server.floor)
            F = server.rho * lam + np.maximum(C + slopes @ x, 0.0)
            assert bound <= server.mixture.support(F) + 1e-9 * (1.0 + np.abs(x).max())


def test_a_region_pays_for_a_slope_by_its_size():
    region = Region(np.array([1.0, 2.0]), np.array([0.5, 0.25]))
    corners = [(a, b) for a in (0.5, 1.5) for b in (1.75, 2.25)]
    g = np.array([2.0, -3.0])
    assert region.least(1.0, g) == pytest.approx(min(1.0 + g @ np.array(c) for c in corners))


def test_anchors_mix_to_a_minorant_of_what_they_are_minorants_of():
    """Any f above the aggregate, the anchors and the price is above the bound."""
    rng, norm = np.random.default_rng(4), make_norm("l1")
    half, unbounded = np.array([0.5, 2.0, 0.0]), np.array([False, False, True])
    for _ in range(200):
        leaning = tuple(
            Anchor(rng.normal(), rng.normal(size=n), sign * rng.random(), rng.random())
            for sign in (-1.0, 1.0)
        )
        level = Anchor(
            rng.random(), np.where(unbounded, rng.normal(size=n), 0.0), 0.0, rng.random()
        )
        nothing = np.zeros(n, np.bool_)
        anchors = Anchors(leaning, level, half, unbounded, float(rng.random()), norm, nothing)
        C, g, gb = rng.normal() + 1.0, 0.3 * rng.normal(size=n), float(rng.normal())
        bound = anchors.bound(C, g, gb)
        for _ in range(20):
            w, b = rng.normal(size=(1, n))[0] * 10.0 ** rng.uniform(-2, 2), 10.0 * rng.normal()
            reach = float(half @ np.abs(w))
            known = [a.e + a.u @ w + a.beta * b + a.omega * reach for a in (*leaning, level)]
            escape = anchors.price * norm.dual(np.where(unbounded, w, 0.0))
            f = max(0.0, C + g @ w + gb * b, escape, *known)
            assert bound <= f + 1e-9 * (1.0 + np.abs(w).max() + abs(b))


def test_a_pinned_column_pays_with_the_intercept():
    """Or in its place; what rounding leaves of its slope has no price, and needs none."""
    rng, norm, value = np.random.default_rng(6), make_norm("l1"), 3.7
    half, nowhere, pinned = np.array([0.5, 2.0, 0.0]), np.zeros(n, np.bool_), np.arange(n) == 2
    positive = 0
    for _ in range(200):
        leaning = tuple(
            Anchor(rng.normal(), np.array([*rng.normal(size=2), value * beta]), beta, rng.random())
            for beta in (-rng.random(), rng.random())
        )
        level = Anchor(rng.random(), np.zeros(n), 0.0, rng.random())
        anchors = Anchors(leaning, level, half, nowhere, 0.3, norm, pinned)
        C, gb = rng.normal() + 1.0, float(rng.choice([0.0, rng.normal()]))
        g = np.array([*0.3 * rng.normal(size=2), value * gb * (1.0 + 1e-15) + 1e-17])
        bound = anchors.bound(C, g, gb)
        alone = replace(anchors, stand_in=(2, value)).bound(C, g, 0.0)
        assert alone == pytest.approx(bound, abs=1e-12)
        positive += bound > 0.0
        for _ in range(20):
            w, b = rng.normal(size=(1, n))[0] * 10.0 ** rng.uniform(-2, 2), 10.0 * rng.normal()
            reach = float(half @ np.abs(w))
            known = [a.e + a.u @ w + a.beta * b + a.omega * reach for a in (*leaning, level)]
            f = max(0.0, C + g @ w + gb * b, *known)
            assert bound <= f + 1e-9 * (1.0 + np.abs(w).max() + abs(b))
    assert positive > 50


@pytest.mark.parametrize("name", ["hinge", "smooth_hinge", "logistic", "huber", "pinball"])
def test_end_lines_are_under_the_loss_and_touch_it(name):
    loss, z = make_loss(name), np.linspace(-200.0, 200.0, 4001)
    for v, c in _end_lines(loss):
        below = loss.value(z) - (v * z + c)
        assert below.min() >= -1e-12
        assert below.min() <= 1e-3


def test_a_slope_that_hardly_follows_is_drawn_in_by_what_does():
    """A fifth of the slope follows: three trials find how much less has to be asked for."""
    asked = []

    def trial(factor):
        asked.append(factor)
        return np.array([factor]), 1.0 + 4e-6 - 0.2 * (1.0 - factor)

    (factor,) = drawn_in(trial)
    assert 1.0 - 2.5e-5 <= factor <= 1.0 - 2e-5
    assert len(asked) == 3


def test_a_slope_that_does_not_follow_stays():
    assert drawn_in(lambda factor: (np.array([factor]), 1.1)) == np.ones(1)
    assert drawn_in(lambda factor: (np.array([factor]), 0.9)) == np.ones(1)
