"""The closed forms on the whole space, against convex programs, exhaustion and their properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfl import reference
from drfl.losses import LOSSES, make_loss
from drfl.norms import NORMS
from drfl.rows import Rows
from drfl.uncertainty import Ball
from drfl.worst_case import whole_space
from drfl.worst_case.whole_space import WholeSpaceOracle
from kit import brute, problems
from kit.checks import assert_convex_on_segment, assert_gradient, assert_subgradient

PARAMETERS = {"huber": {"epsilon": 0.7}, "pinball": {"quantile": 0.3}}
ALL = [make_loss(name, **PARAMETERS.get(name, {})) for name in LOSSES]
MARGIN = [loss for loss in ALL if loss.task == "classification"]
RESIDUAL = [loss for loss in ALL if loss.task == "regression"]
every_loss = pytest.mark.parametrize("loss", ALL, ids=lambda loss: loss.name)
every_margin_loss = pytest.mark.parametrize("loss", MARGIN, ids=lambda loss: loss.name)
every_norm = pytest.mark.parametrize("norm", NORMS)
LABEL_COSTS = (math.inf, 1.0, 0.1, 10.0)
RADII = (0.0, 0.02, 1.5)


class Game:
    """A client, a ball and a model; F by our closed form, and by others."""

    def __init__(self, loss, X, y, w, b, *, radius, label_cost=math.inf, norm="l1", weights=None):
        self.loss, self.X, self.y, self.w, self.b, self.weights = loss, X, y, w, b, weights
        self.ball = Ball(radius, norm, label_cost)
        self.oracle = WholeSpaceOracle(Rows(X, y, weights=weights), loss, self.ball)
        self.x = np.append(w, b)
        self.share = np.ones(len(y)) if weights is None else np.asarray(weights, float)
        self.share = self.share / self.share.sum()

    def here(self):
        return self.oracle.evaluate(self.w, self.b)

    def value(self, x):
        return self.oracle.evaluate(x[:-1], float(x[-1])).value

    def slope(self):
        here = self.here()
        return np.append(here.gradient, here.intercept_gradient)

    def by(self, other):
        return other.worst_case_loss(
            self.X, self.y, self.w, self.b, loss=self.loss, radius=self.ball.radius,
            label_cost=self.ball.label_cost, norm=self.ball.norm.name, sample_weight=self.weights,
        )  # fmt: skip

    def arguments(self, x, y):
        score = x @ self.w + self.b
        return y * score if self.loss.task == "classification" else score - y

    @property
    def empirical(self):
        return float(self.share @ self.loss.value(self.arguments(self.X, self.y)))


def random_game(loss, rng, N=8, n=2, *, weighted=False, **ball):
    X, y = problems.rows(loss.task, rng, N, n)
    weights = rng.uniform(0.1, 2.0, N) if weighted else None
    w, b = rng.normal(size=n) * rng.choice([0.1, 1.0, 3.0]), float(rng.normal())
    return Game(loss, X, y, w, b, weights=weights, **ball)


# ---------------------------------------------------------------------- values
@every_norm
@every_loss
@pytest.mark.sampled(2)
def test_value_is_that_of_the_papers_program(loss, norm):
    rng = np.random.default_rng(sorted(LOSSES).index(loss.name))
    prices = []
    for k, label_cost in enumerate(LABEL_COSTS):
        for radius in RADII:
            game = random_game(
                loss,
                rng,
                n=3,
                weighted=bool(k % 2),
                radius=radius,
                label_cost=label_cost,
                norm=norm,
            )
            assert game.here().value == pytest.approx(game.by(reference), rel=1e-6)
            prices.append(game.here().multiplier > game.ball.norm.dual(game.w) * loss.lipschitz)
    assert any(prices)  # labels or targets set the price in some, features in others
    assert not all(prices)


@every_norm
@every_loss
@pytest.mark.sampled(2)
def test_value_is_that_of_exhaustion(loss, norm):
    rng = np.random.default_rng(1)
    for k in range(16):
        game = random_game(
            loss, rng, N=1 + k % 5, n=1 + k % 2, weighted=k % 3 == 0, norm=norm,
            radius=rng.choice([0.05, 0.3, 2.0]), label_cost=rng.choice([0.3, 1.0, 4.0, math.inf]),
        )  # fmt: skip
        assert game.here().value == pytest.approx(game.by(brute), rel=1e-8, abs=1e-9), k


@every_loss
@pytest.mark.parametrize("kind", problems.NASTY)
def test_nasty_rows(loss, kind):
    rng = np.random.default_rng(2)
    X, y = problems.NASTY[kind](loss.task, rng, 2)
    w = rng.normal(size=2) / max(1.0, np.abs(X).max())
    for label_cost in (0.5, math.inf):
        game = Game(loss, X, y, w, 0.3, radius=0.1, label_cost=label_cost)
        assert game.here().value == pytest.approx(game.by(brute), rel=1e-8)
        assert_subgradient(game.value, game.x, game.slope(), rng, trials=3, distances=(1e-3, 1.0))


@every_norm
@every_margin_loss
def test_the_multiplier_is_a_best_price(loss, norm):
    """The dual is typed here once more: F(lam) is least at lam*, and F is its least value."""
    rng = np.random.default_rng(3)
    for radius in (0.05, 0.4):
        for label_cost in (0.3, 3.0):
            game = random_game(loss, rng, radius=radius, label_cost=label_cost, norm=norm)
            m, least = game.arguments(game.X, game.y), game.ball.norm.dual(game.w)

            def dual(lam, m=m, game=game):
                kappa = game.ball.label_cost
                flipped = game.loss.value(-m) - kappa * lam
                return game.ball.radius * lam + np.maximum(game.loss.value(m), flipped).mean()

            here = game.here()
            assert here.multiplier >= least
            assert dual(here.multiplier) == pytest.approx(here.value, rel=1e-12)
            for lam in np.append(least + np.linspace(0, 10, 201), here.multiplier * 1.001):
                assert dual(lam) >= here.value * (1 - 1e-12)


@pytest.mark.parametrize("loss", RESIDUAL, ids=lambda loss: loss.name)
def test_in_regression_the_price_is_the_dual_of_the_metric(loss):
    rng = np.random.default_rng(4)
    for label_cost in (0.2, 5.0, math.inf):
        game = random_game(loss, rng, radius=0.3, label_cost=label_cost)
        price = loss.lipschitz * max(np.abs(game.w).max(), 1.0 / label_cost)
        here = game.here()
        assert here.multiplier == pytest.approx(price, rel=1e-15)
        assert here.value == pytest.approx(game.empirical + 0.3 * price, rel=1e-14)


# ---------------------------------------------------------------------- slopes
@every_norm
@every_loss
def test_gradient_is_a_subgradient(loss, norm):
    rng = np.random.default_rng(5)
    for label_cost in (0.3, 2.0, math.inf):
        for weighted in (False, True):
            game = random_game(
                loss, rng, N=7, n=3, weighted=weighted, radius=0.3, label_cost=label_cost, norm=norm
            )
            assert_subgradient(game.value, game.x, game.slope(), rng, trials=4)


def flipping_game(loss, rng, *, weights=None, tied=False, share=0.31):
    """Labels set the price, and one row (or several tied ones) flips in part."""
    X, y = rng.normal(size=(12, 2)), np.repeat([-1.0, 1.0, 1.0, 1.0], 3)
    if tied:  # three rows with each margin
        X = np.repeat(X[:4], 3, axis=0)
    w, b = np.array([0.2, -0.1]), 1.5
    return Game(loss, X, y, w, b, radius=share * 0.2, label_cost=0.2, weights=weights)


@every_margin_loss
@pytest.mark.parametrize("tied", [False, True], ids=["distinct", "tied"])
def test_subgradient_where_labels_flip(loss, tied):
    """A whole flip of the last row, or none, would not be a cut: its fraction is."""
    rng = np.random.default_rng(6)
    fractions = 0
    for share in (0.03, 0.31, 0.46, 0.62, 1 / 3):
        for weights in (None, rng.uniform(0.2, 2.0, 12)):
            game = flipping_game(loss, rng, weights=weights, tied=tied, share=share)
            here = game.here()
            assert here.multiplier > game.ball.norm.dual(game.w) + 0.1
            flips = game.oracle.flips(game.arguments(game.X, game.y), 0.2)
            fractions += 0.01 < flips.share_at_cut < 0.99
            assert_subgradient(game.value, game.x, game.slope(), rng, trials=8)
    assert fractions >= 6


@every_margin_loss
def test_without_the_fraction_it_would_be_no_subgradient(loss):
    """The check above can fail: round the last flip up or down."""
    rng = np.random.default_rng(7)
    game = flipping_game(loss, rng)
    m = game.arguments(game.X, game.y)
    k = np.argsort(-m)[3]  # .31 of 12 rows: three flip wholly, the next one by .72
    turn = game.loss.slope(-m[[k]]) + game.loss.slope(m[[k]])
    whole = -game.y[k] * turn * np.append(game.X[k], 1.0) / 12
    for error in (-0.72, 0.28):
        with pytest.raises(AssertionError, match="not a subgradient"):
            assert_subgradient(game.value, game.x, game.slope() + error * whole, rng)


@every_norm
@pytest.mark.parametrize("loss", [loss for loss in ALL if not loss.kinks], ids=lambda v: v.name)
def test_gradient_by_differences_where_f_is_smooth(loss, norm):
    rng = np.random.default_rng(8)
    for label_cost in (0.2, 3.0, math.inf):
        X, y = problems.rows(loss.task, rng, 9, 3)
        w = np.array([0.9, -0.5, 0.3])  # away from zeros and ties
        game = Game(loss, X, y, w, 0.2, radius=0.25, label_cost=label_cost, norm=norm)
        # Near the corners of a curvature differences are of low order.
        assert_gradient(game.value, game.x, game.slope(), step=1e-6, tol=1e-7)


@every_norm
@every_loss
def test_at_zero_the_gradient_is_a_subgradient_too(loss, norm):
    rng = np.random.default_rng(9)
    X, y = problems.rows(loss.task, rng, 6, 2)
    for label_cost in (0.4, math.inf):
        for b in (0.0, 0.8):
            game = Game(loss, X, y, np.zeros(2), b, radius=0.4, label_cost=label_cost, norm=norm)
            assert_subgradient(game.value, game.x, game.slope(), rng, trials=4)


# ---------------------------------------------------------------------- properties
@st.composite
def games(draw, losses=tuple(ALL)):
    """Small clients with rounded features: ties, duplicates and zeros come by themselves."""
    loss = draw(st.sampled_from(losses))
    N, n = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    X, w = np.round(rng.normal(size=(N, n)), 1), np.round(rng.normal(size=n), 1)
    y = (
        rng.choice([-1.0, 1.0], N)
        if loss.task == "classification"
        else np.round(rng.normal(size=N))
    )
    return Game(
        loss, X, y, w, float(np.round(rng.normal(), 1)),
        radius=draw(st.sampled_from([0.0, 0.01, 0.25, 1.0, 5.0])),
        label_cost=draw(st.sampled_from([0.1, 0.5, 1.0, 4.0, math.inf])),
        norm=draw(st.sampled_from(sorted(NORMS))),
        weights=rng.integers(1, 4, N) if draw(st.booleans()) else None,
    )  # fmt: skip


def changed(game, **changes):
    """The same game with other rows or another ball."""
    parts = {"X": game.X, "y": game.y, "weights": game.weights}
    ball = {"radius": game.ball.radius, "label_cost": game.ball.label_cost, "norm": game.ball.norm}
    both = parts | ball | changes
    return Game(game.loss, both.pop("X"), both.pop("y"), game.w, game.b, **both)


@given(game=games(), seed=st.integers(0, 1000))
def test_f_is_convex_in_the_model(game, seed):
    other = np.random.default_rng(seed).normal(size=len(game.x))
    assert_convex_on_segment(game.value, game.x, 3.0 * other)


@given(game=games(), seed=st.integers(0, 1000))
def test_the_gradient_supports_f_wherever_ties_are(game, seed):
    rng = np.random.default_rng(seed)
    assert_subgradient(game.value, game.x, game.slope(), rng, trials=3)


@given(game=games(), factor=st.floats(1.0, 10.0))
def test_f_grows_with_the_radius_and_falls_with_the_label_cost(game, factor):
    value = game.here().value
    assert value >= game.empirical - 1e-12
    wider = changed(game, radius=factor * game.ball.radius).here().value
    dearer = changed(game, label_cost=factor * game.ball.label_cost).here().value
    assert wider >= value - 1e-9 * wider
    assert dearer <= value + 1e-9 * value


@given(game=games())
def test_without_a_budget_f_is_the_empirical_loss(game):
    still = changed(game, radius=0.0)
    assert still.here().value == pytest.approx(game.empirical, rel=1e-12, abs=1e-15)
    tiny = changed(game, radius=1e-12 * min(1.0, game.ball.label_cost))
    assert tiny.here().value == pytest.approx(game.empirical, rel=1e-9, abs=1e-9)


@given(game=games())
def test_an_infinite_label_cost_is_the_limit(game):
    never, hardly = (changed(game, label_cost=cost).here() for cost in (math.inf, 1e9))
    assert hardly.value == pytest.approx(never.value, rel=1e-7)


@given(game=games(), seed=st.integers(0, 1000))
def test_permuting_and_splitting_rows_changes_nothing(game, seed):
    rng = np.random.default_rng(seed)
    here, order = game.here(), rng.permutation(len(game.y))
    shuffled = changed(game, X=game.X[order], y=game.y[order], weights=game.share[order])
    cut = rng.uniform(0.1, 0.9, len(game.y))
    split = changed(
        game,
        X=np.vstack([game.X, game.X]),
        y=np.append(game.y, game.y),
        weights=np.append(cut * game.share, (1 - cut) * game.share),
    )
    for other in (shuffled.here(), split.here()):
        assert other.value == pytest.approx(here.value, rel=1e-12)
        assert other.multiplier == pytest.approx(here.multiplier, rel=1e-12) or ambiguous(game)


def ambiguous(game):
    """Whether the budget ends just where a row does: two prices are best then, and all between."""
    m = game.arguments(game.X, game.y)
    steps = np.cumsum(game.share[np.argsort(-m)])
    return np.abs(steps - game.ball.radius / game.ball.label_cost).min() < 1e-12


@given(game=games(), seed=st.integers(0, 1000))
def test_whole_weights_are_repeated_rows(game, seed):
    times = np.random.default_rng(seed).integers(0, 4, len(game.y))
    times[0] += 1
    weighted = changed(game, weights=times).here()
    index = np.repeat(np.arange(len(game.y)), times)
    repeated = changed(game, X=game.X[index], y=game.y[index], weights=None).here()
    assert weighted.value == pytest.approx(repeated.value, rel=1e-12)
    if not ambiguous(changed(game, weights=times)):
        np.testing.assert_allclose(weighted.gradient, repeated.gradient, rtol=1e-9, atol=1e-12)


@given(game=games())
def test_float32_is_close(game):
    coarse = changed(game, X=game.X.astype(np.float32)).here().value
    assert coarse == pytest.approx(game.here().value, rel=1e-5, abs=1e-6)


# ---------------------------------------------------------------------- distributions
@given(game=games())
def test_the_distribution_is_feasible_and_reaches_f(game):
    """Cost and expected loss are computed once more, from the definition."""
    here, found, ball = game.here(), game.here().distribution(), game.ball
    assert (found.mass > 0.0).all()
    assert found.mass.sum() == pytest.approx(1.0, rel=1e-12)
    shares = np.bincount(found.source, found.mass, len(game.y))
    np.testing.assert_allclose(shares, game.share, rtol=1e-12)
    moved = ball.norm(found.x - game.X[found.source])
    change = np.abs(found.y - game.y[found.source])
    if game.loss.task == "classification":
        assert set(found.y) <= {-1.0, 1.0}
        change = (change > 0).astype(float)
    moved[change > 0] += ball.label_cost * change[change > 0]
    cost = float(found.mass @ moved)
    assert cost <= ball.radius * (1 + 1e-9)
    assert found.cost == pytest.approx(cost, rel=1e-12)
    reached = float(found.mass @ game.loss.value(game.arguments(found.x, found.y)))
    assert found.expected_loss == pytest.approx(reached, rel=1e-12)
    assert reached == pytest.approx(here.value, rel=1e-6)
    assert here.value - reached <= found.tolerance + 1e-12 * max(1.0, here.value)
    assert found.attained == (found.tolerance == 0.0)
    if math.isinf(ball.label_cost):
        assert (change == 0.0).all()


def test_attained_says_whether_the_supremum_is():
    X, y, w = np.array([[3.0], [-4.0]]), np.array([1.0, -1.0]), np.ones(1)

    def attained(loss, b=0.0, **ball):
        found = Game(make_loss(loss), X, y, w, b, **ball).here().distribution()
        return found.attained

    # No row is on the slope of the hinge: it is reached by mass that comes from infinity only.
    assert not attained("hinge", radius=0.5)
    assert attained("hinge", radius=0.0)
    assert attained("hinge", b=-3.5, radius=0.5)  # now one is
    assert not attained("smooth_hinge", b=-2.5, radius=0.5)
    assert attained("smooth_hinge", b=-3.5, radius=0.5)
    assert not attained("logistic", b=-3.5, radius=0.5)  # never on its line
    # Flips alone spend the budget.
    assert attained("logistic", radius=0.01, label_cost=0.1)


@pytest.mark.parametrize("loss", RESIDUAL, ids=lambda loss: loss.name)
@pytest.mark.parametrize("label_cost", [0.1, math.inf])
def test_a_row_on_the_line_takes_the_whole_budget(loss, label_cost):
    """One row, with residuals whose rounding must not be taken for a loss on the way out."""
    for y in (-7.3, 11.7, -1e5 / 3):
        game = Game(
            loss, np.array([[1.0]]), np.array([y]), np.array([1.1]), 0.123, radius=0.3,
            label_cost=label_cost,
        )  # fmt: skip
        side = 1.0 if game.arguments(game.X, game.y)[0] > 0 else 0.0
        steep = abs(loss.slope_range[int(side)]) == loss.lipschitz
        found = game.here().distribution()
        assert found.attained == steep
        assert found.cost == pytest.approx(0.3)


def test_the_heaviest_row_escapes():
    """A feather would have to go so far that its position overflows."""
    X, y = np.array([[-1.0], [-1.0], [0.5]]), np.ones(3)
    game = Game(
        make_loss("hinge"), X, y, np.ones(1), 0.0, radius=0.5, weights=[1e-300, 1.0, 1e-300]
    )
    found = game.here().distribution()
    assert found.attained
    assert np.abs(found.x).max() < 3.0


def test_flipped_rows_are_those_with_the_largest_margins():
    X, y = np.array([[3.0], [1.0], [-2.0], [0.5]]), np.array([1.0, 1.0, -1.0, 1.0])
    game = Game(make_loss("hinge"), X, y, 0.1 * np.ones(1), 0.0, radius=0.375, label_cost=1.0)
    # Margins .3, .1, .2, .05; a flip gains twice as much. The budget is one row and a half.
    here = game.here()
    assert here.multiplier == pytest.approx(0.4)
    assert here.value == pytest.approx((0.7 + 0.9 + 0.8 + 0.95) / 4 + 0.25 * 0.6 + 0.125 * 0.4)
    found = here.distribution()
    flipped = found.y != y[found.source]
    assert dict(zip(found.source[flipped], found.mass[flipped], strict=True)) == pytest.approx(
        {0: 0.25, 2: 0.125}
    )
    assert np.array_equal(found.x, X[found.source])
    assert found.attained


# ---------------------------------------------------------------------- large data
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("budget", [0.0004, 0.03, 0.4, 0.9999])
def test_blocks_chunks_and_samples_change_nothing(monkeypatch, weighted, budget):
    """Small blocks, chunks and samples against one of each; margins come in heavy ties."""
    rng = np.random.default_rng(10)
    X, y = np.round(rng.normal(size=(3000, 2)), 1), rng.choice([-1.0, 1.0], 3000)
    weights = rng.integers(0, 9, 3000) if weighted else None
    games = [(make_loss(name), 0.02, 0.02 * budget) for name in ("hinge", "logistic")]
    w, b = np.array([0.05, -0.02]), 0.7

    def results():
        return [
            Game(loss, X, y, w, b, radius=radius, label_cost=kappa, weights=weights).here()
            for loss, kappa, radius in games
        ]

    whole = results()
    monkeypatch.setattr("drfl.rows.operator.BLOCK_ELEMENTS", 1)
    monkeypatch.setattr(whole_space, "CHUNK", 100)
    monkeypatch.setattr(whole_space, "SAMPLE", 40)
    for small, large in zip(results(), whole, strict=True):
        assert small.value == pytest.approx(large.value, rel=1e-12)
        assert small.multiplier == pytest.approx(large.multiplier, rel=1e-12)
        np.testing.assert_allclose(small.gradient, large.gradient, rtol=1e-9, atol=1e-12)
        assert small.intercept_gradient == pytest.approx(large.intercept_gradient, abs=1e-12)


@pytest.mark.parametrize("size", [1, 2, 5, 100, 1000])
def test_the_weighted_threshold_is_that_of_a_sort(size, monkeypatch):
    monkeypatch.setattr(whole_space, "SAMPLE", 50)
    rng = np.random.default_rng(size)
    for _ in range(30):
        m = rng.choice(rng.normal(size=1 + size // 2), size)
        p = rng.integers(0, 3, size) + rng.random(size) * rng.integers(0, 2)
        p = (p + (p.sum() == 0)) / (p + (p.sum() == 0)).sum()
        budget = float(rng.choice([0.0, 0.01, 0.3, 0.77, 0.999]))
        order = np.argsort(-m)
        k = int(np.searchsorted(np.cumsum(p[order]), budget, side="right"))
        expected = m[order[k]] if k < size else -math.inf
        assert whole_space._threshold(m, p, budget) == expected
