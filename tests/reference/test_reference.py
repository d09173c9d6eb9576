"""The convex programs against exhaustion, against each other, and against the paper's text."""

import math
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from drfl.losses import Hinge, make_loss
from drfl.norms import NORMS
from drfl.reference import Reference, solve, worst_case_loss
from drfl.reference.client_rows import make_client
from drfl.reference.programs import client_program, minimise, mixture_program
from drfl.supports import Box, Polyhedron
from kit import brute, problems

LOSSES = [
    make_loss("hinge"),
    make_loss("smooth_hinge"),
    make_loss("logistic"),
    make_loss("huber", epsilon=0.6),
    make_loss("epsilon_insensitive", epsilon=0.2),
    make_loss("pinball", quantile=0.3),
]
PIECEWISE = [loss for loss in LOSSES if loss.pieces]
BALLS = [(0.3, 0.1), (0.3, 0.8), (2.0, 0.8), (math.inf, 0.8)]  # label cost, radius
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
by_piecewise_loss = pytest.mark.parametrize("loss", PIECEWISE, ids=lambda loss: loss.name)
by_norm = pytest.mark.parametrize("norm", NORMS)


def close(value):
    return pytest.approx(value, rel=1e-7, abs=1e-8)


def random_game(rng, loss, n=2, N=4):
    """Rows, a model and row weights."""
    X, y = problems.rows(loss.task, rng, N, n)
    return {
        "X": X,
        "y": y,
        "coef": 1.5 * rng.normal(size=n),
        "intercept": 0.3 * rng.normal(),
        "loss": loss,
        "sample_weight": 0.1 + rng.random(N),
    }


# One client, at a given w


@by_norm
@by_loss
@pytest.mark.sampled(2)
def test_whole_space(loss, norm):
    rng = np.random.default_rng(1)
    for label_cost, radius in BALLS:
        game = random_game(rng, loss) | {"radius": radius, "label_cost": label_cost, "norm": norm}
        assert worst_case_loss(**game) == close(brute.worst_case_loss(**game))


@by_norm
@by_piecewise_loss
@pytest.mark.parametrize("infinite", [0.0, 0.4], ids=["finite", "some infinite sides"])
@pytest.mark.sampled(2)
def test_box(loss, norm, infinite):
    rng = np.random.default_rng(2)
    for label_cost, radius in BALLS:
        game = random_game(rng, loss) | {"radius": radius, "label_cost": label_cost, "norm": norm}
        box = problems.box_around(rng, loss.task, game["X"], game["y"], infinite=infinite)
        game["support"] = box
        assert worst_case_loss(**game) == close(brute.worst_case_loss(**game))


@by_norm
@by_piecewise_loss
@pytest.mark.sampled(2)
def test_polyhedron(loss, norm):
    rng = np.random.default_rng(3)
    for label_cost, radius in BALLS:
        # Exhaustion in three dimensions, target included, has no l2 norm.
        curved = norm == "l2" and loss.task == "regression" and math.isfinite(label_cost)
        game = random_game(rng, loss, n=1 if curved else 2)
        game |= {"radius": radius, "label_cost": label_cost, "norm": norm}
        game["support"] = problems.polyhedron_around(rng, loss.task, game["X"], game["y"])
        assert worst_case_loss(**game) == close(brute.worst_case_loss(**game))


@by_norm
@by_piecewise_loss
@pytest.mark.sampled(2)
def test_norm_box_label_and_their_combinations_bind(loss, norm):
    """Each limit changes the value, alone and on top of the others; all agree with exhaustion."""
    X, y = np.array([[0.5, -0.2], [-0.4, 0.1], [0.3, 0.6]]), np.array([1.0, -1.0, 1.0])
    box = Box(-0.6, 0.6) if loss.task == "classification" else Box(-0.6, 0.6, -1.2, 1.1)
    game = {"X": X, "y": y, "coef": np.array([1.5, 1.0]), "intercept": 0.1, "loss": loss}

    def value(support, label_cost, radius=1.2):
        ball = {"radius": radius, "label_cost": label_cost, "norm": norm, "support": support}
        exact = brute.worst_case_loss(**game, **ball)
        assert worst_case_loss(**game, **ball) == close(exact)
        return exact

    label_cost = 0.3
    free, boxed = value(None, math.inf), value(box, math.inf)
    labels, both = value(None, label_cost), value(box, label_cost)
    assert free > value(None, math.inf, radius=0.0) + 0.03  # the norm
    assert boxed < free - 0.03  # the box
    assert labels > free + 0.03  # the label
    assert boxed + 0.03 < both < labels - 0.03  # the box and the label


@by_norm
@by_loss
def test_radius_0_is_the_empirical_loss(loss, norm):
    game = random_game(np.random.default_rng(4), loss)
    score = game["X"] @ game["coef"] + game["intercept"]
    z = score - game["y"] if loss.task == "regression" else game["y"] * score
    mean = np.average(loss.value(z), weights=game["sample_weight"])
    assert worst_case_loss(**game, radius=0.0, norm=norm, label_cost=0.1) == close(mean)


@by_norm
@by_piecewise_loss
@pytest.mark.sampled(2)
def test_a_box_is_a_polyhedron_and_a_far_box_the_whole_space(loss, norm):
    rng = np.random.default_rng(5)
    for label_cost in (0.5, math.inf):
        game = random_game(rng, loss, n=3, N=6)
        game |= {"radius": 0.4, "label_cost": label_cost, "norm": norm}
        box = problems.box_around(rng, loss.task, game["X"], game["y"])
        sides, room = np.vstack([np.eye(3), -np.eye(3)]), np.append(box.high, np.negative(box.low))
        if loss.task == "regression":
            target = np.array([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, -1.0]])
            sides = np.vstack([np.column_stack([sides, np.zeros(6)]), target])
            room = np.append(room, [box.y_high, -box.y_low])
        boxed = worst_case_loss(**game, support=box)
        assert worst_case_loss(**game, support=Polyhedron(sides, room)) == close(boxed)
        free = worst_case_loss(**game)
        assert worst_case_loss(**game, support=Box(-math.inf, math.inf)) == close(free)
        far = Box(-1e5, 1e5) if loss.task == "classification" else Box(-1e5, 1e5, -1e5, 1e5)
        # Mass rho/1e5 goes to the side, where a kink's offset is missing: a few 1e-5 less.
        assert free - 2e-4 < worst_case_loss(**game, support=far) <= free + 1e-6


@by_loss
def test_whole_weights_are_repeated_rows(loss):
    rng = np.random.default_rng(6)
    game = random_game(rng, loss) | {"radius": 0.2, "label_cost": 0.7}
    times = np.array([2, 0, 1, 3])
    weighted = worst_case_loss(**(game | {"sample_weight": times}))
    rows = {"X": np.repeat(game["X"], times, axis=0), "y": np.repeat(game["y"], times)}
    assert worst_case_loss(**(game | rows | {"sample_weight": None})) == close(weighted)


def test_a_feature_that_is_fixed_acts_as_an_intercept():
    rng = np.random.default_rng(7)
    X, y = problems.rows("classification", rng)
    ball = {"loss": "hinge", "radius": 0.3, "label_cost": 0.8}
    with_b = worst_case_loss(X, y, [1.0, -0.5], 0.4, **ball, support=Box(-3, 3))
    ones = np.column_stack([X, np.ones(len(y))])
    box = Box([-3, -3, 1], [3, 3, 1])
    assert worst_case_loss(ones, y, [1.0, -0.5, 0.4], **ball, support=box) == close(with_b)


# All clients: the optimum


def pooled(loss, rng, support, n=2):
    """Two clients with balls of their own."""
    clients = problems.clients(loss.task, rng, S=2, n=n, N=3)
    X, y = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    around = {"box": problems.box_around, "polyhedron": problems.polyhedron_around}
    made = around[support](rng, loss.task, X, y) if support else None
    return clients, {"radius": [0.1, 0.3], "label_cost": [1.0, math.inf], "support": made}


def mixture_share(center, clients):
    """The weight of every row in the mixture of the clients."""
    sizes = [len(y) for _, y in clients]
    return np.repeat(center / np.array(sizes), sizes)


CASES = [(loss, None) for loss in LOSSES] + [
    (loss, support) for loss in PIECEWISE for support in ("box", "polyhedron")
]


@by_norm
@pytest.mark.parametrize(("loss", "support"), CASES, ids=lambda v: getattr(v, "name", v))
@pytest.mark.sampled(2)
def test_the_optimum_is_a_saddle_point(loss, support, norm):
    """h(F(w)) = q'F(w) = min q'F: w is optimal against q, and q against w; F by exhaustion."""
    rng = np.random.default_rng(8)
    n = 1 if support == "polyhedron" and loss.task == "regression" else 2
    clients, balls = pooled(loss, rng, support, n)
    p = [1, 2, math.inf][list(NORMS).index(norm)]
    theta, center = 0.2, np.array([0.6, 0.4])
    best = solve(loss, clients, **balls, norm=norm, center=center, mixture_radius=theta, p=p)
    F = np.array(
        [
            brute.worst_case_loss(
                X, y, best.coef, best.intercept, loss=loss, radius=radius, label_cost=label_cost,
                norm=norm, support=balls["support"],
            )
            for (X, y), radius, label_cost in zip(
                clients, balls["radius"], balls["label_cost"], strict=True
            )
        ]
    )  # fmt: skip
    q = best.weights
    assert best.objective == pytest.approx(q @ F, rel=1e-6)
    assert q.sum() == pytest.approx(1.0)
    assert q.min() > -1e-7
    assert np.linalg.norm(q - center, p) < theta + 1e-6
    # With two clients, Q is a segment: h is at one of its ends.
    step = theta / np.linalg.norm([1, -1], p) * np.array([1, -1])
    assert best.objective == pytest.approx(max((center + step) @ F, (center - step) @ F), rel=1e-6)
    against_q = solve(loss, clients, **balls, norm=norm, center=q.clip(0) / q.clip(0).sum())
    assert against_q.objective == pytest.approx(best.objective, rel=1e-6)


@by_piecewise_loss
@pytest.mark.parametrize("infinite", [0.0, 0.4], ids=["finite", "some infinite sides"])
def test_compact_and_paper_agree(loss, infinite):
    rng = np.random.default_rng(9)
    clients, balls = pooled(loss, rng, None)
    X, y = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    balls["support"] = problems.box_around(rng, loss.task, X, y, infinite=infinite)
    compact, paper = (
        solve(loss, clients, **balls, mixture_radius=0.3, formulation=formulation)
        for formulation in ("compact", "paper")
    )
    assert compact.objective == close(paper.objective)
    assert compact.weights == pytest.approx(paper.weights, abs=1e-5)


@by_norm
@by_piecewise_loss
def test_compact_and_paper_agree_where_the_box_binds(loss, norm):
    """At a given w: at an optimum the box seldom binds, and wrong multipliers would go unseen."""
    rng = np.random.default_rng(21)
    for label_cost in (0.5, math.inf):
        game = random_game(rng, loss)
        box = problems.box_around(rng, loss.task, game["X"], game["y"])
        ball = {"radius": 0.8, "label_cost": label_cost, "norm": norm, "support": box}
        rows = {key: game[key] for key in ("loss", "X", "y", "sample_weight")}
        program = client_program(
            make_client(**rows, **ball),
            loss,
            cp.Constant(game["coef"]),
            game["intercept"],
            "compact",
        )
        assert minimise(*program, "CLARABEL") == close(worst_case_loss(**game, **ball))


@pytest.mark.parametrize("p", [1, 2, math.inf])
@pytest.mark.parametrize("theta", [0.0, 0.05, 0.4, 3.0, math.inf])
def test_the_dual_of_theorem_4_3_is_the_support_function(p, theta):
    rng = np.random.default_rng(10)
    for _ in range(3):
        losses, center = rng.random(4), rng.dirichlet(np.ones(4))
        z, q = cp.Variable(4), cp.Variable(4, nonneg=True)
        dual = minimise(mixture_program(z, center, theta, p), [z == losses], "CLARABEL")
        inside = [cp.norm(q - center, p) <= theta] if math.isfinite(theta) else []
        primal = -minimise(-losses @ q, [cp.sum(q) == 1, *inside], "CLARABEL")
        assert dual == close(primal)


@by_loss
def test_no_radius_at_all_is_erm(loss):
    rng = np.random.default_rng(11)
    clients = problems.clients(loss.task, rng, S=3)
    center = np.array([0.5, 0.2, 0.3])
    X, y = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    share = mixture_share(center, clients)
    erm = solve(loss, clients, radius=0.0, center=center)
    # z = A (w, b) + offset
    A, offset = np.column_stack([X, np.ones(len(y))]), -y
    if loss.task == "classification":
        A, offset = y[:, None] * A, 0 * y
    if loss.pieces:  # min share'alpha over (w, b, alpha)
        slack = -np.eye(len(y))
        rows = [np.hstack([piece.slope * A, slack]) for piece in loss.pieces]
        rhs = [-piece.constant - piece.slope * offset for piece in loss.pieces]
        cost = np.append(np.zeros(A.shape[1]), share)
        best = linprog(cost, np.vstack(rows), np.concatenate(rhs), bounds=(None, None)).fun
    else:
        best = minimize(
            lambda v: share @ loss.value(A @ v + offset),
            np.zeros(A.shape[1]),
            jac=lambda v: A.T @ (share * loss.slope(A @ v + offset)),
            options={"gtol": 1e-9},
        ).fun
    assert erm.objective == pytest.approx(best, rel=1e-7)
    assert share @ loss.value(A @ np.append(erm.coef, erm.intercept) + offset) == pytest.approx(
        best, rel=1e-6
    )


def test_an_lp_solver_agrees():
    if "HIGHS" not in cp.installed_solvers():
        pytest.skip("HiGHS is not installed")
    clients, balls = pooled(Hinge(), np.random.default_rng(12), "box")
    conic, simplex = (
        solve("hinge", clients, **balls, mixture_radius=0.1, solver=solver)
        for solver in ("CLARABEL", "HIGHS")
    )
    assert conic.objective == close(simplex.objective)
    assert np.abs(simplex.coef).max() > 0.01


@by_loss
def test_one_ball_around_the_mixture(loss):
    """WAFL: exhaustion on the pooled rows; and no better than a ball for each client."""
    rng = np.random.default_rng(13)
    clients = problems.clients(loss.task, rng, S=2, N=3)
    ball, center = {"radius": 0.2, "label_cost": 1.5}, np.array([0.3, 0.7])
    one = solve(loss, clients, **ball, center=center, shared=True, mixture_radius=9.0)
    X, y = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    share = mixture_share(center, clients)
    F = brute.worst_case_loss(X, y, one.coef, one.intercept, loss=loss, sample_weight=share, **ball)
    assert one.objective == pytest.approx(F, rel=1e-6)
    assert one.weights == pytest.approx(center)
    each = solve(loss, clients, **ball, center=center)
    assert each.objective <= one.objective * (1 + 1e-8)


def test_one_ball_is_strictly_worse_where_one_client_pays_more_for_a_flip():
    """The adversary of one ball spends the whole budget where a flip gains most."""
    far = (np.array([[3.0], [-3.0]]), np.array([1.0, -1.0]))
    near = (np.array([[0.5], [-0.5], [0.2]]), np.array([1.0, -1.0, -1.0]))
    ball = {"radius": 0.1, "label_cost": 1.0, "support": Box(-3, 3)}
    one = solve("hinge", [far, near], **ball, shared=True)
    each = solve("hinge", [far, near], **ball)
    assert each.objective < one.objective - 0.05


@by_norm
@pytest.mark.parametrize("loss", LOSSES[3:], ids=lambda loss: loss.name)
def test_in_regression_robustness_is_a_norm(loss, norm):
    """Common radius, whole space: h(mean L) + rho Lip max(||w||_*, 1/kappa)."""
    clients = problems.clients("regression", np.random.default_rng(14), S=3)
    for label_cost in (0.8, math.inf):
        best = solve(
            loss, clients, radius=0.3, label_cost=label_cost, norm=norm, mixture_radius=0.3
        )
        means = [loss.value(X @ best.coef + best.intercept - y).mean() for X, y in clients]
        price = max(NORMS[norm].dual(best.coef), 1.0 / label_cost)
        expected = best.weights @ means + 0.3 * loss.lipschitz * price
        assert best.objective == pytest.approx(expected, rel=1e-6)


@by_loss
def test_permuted_clients_permute_the_weights(loss):
    clients, balls = pooled(loss, np.random.default_rng(15), None)
    one = solve(loss, clients, **balls, center="proportional", mixture_radius=0.1, p=2)
    swapped = {key: value[::-1] for key, value in balls.items() if isinstance(value, list)}
    two = solve(loss, clients[::-1], **swapped, center="proportional", mixture_radius=0.1, p=2)
    assert two.objective == close(one.objective)
    assert two.weights == pytest.approx(one.weights[::-1], abs=1e-5)


@by_loss
def test_weights_and_splits_of_clients(loss):
    """Integer weights are repeated rows; twins that share a client's weight change nothing."""
    rng = np.random.default_rng(16)
    (X, y), other = problems.clients(loss.task, rng, S=2)
    times = rng.integers(0, 3, len(y))
    times[0] = 1
    settings = {"radius": 0.2, "label_cost": 2.0, "mixture_radius": 0.2}
    weighted = solve(loss, [(X, y), other], **settings, sample_weight=[times, None])
    repeated = solve(loss, [(np.repeat(X, times, axis=0), np.repeat(y, times)), other], **settings)
    assert weighted.objective == close(repeated.objective)
    whole = solve(loss, [(X, y), other], radius=0.2, center=[0.5, 0.5])
    split = solve(loss, [(X, y), (X, y), other], radius=0.2, center=[0.2, 0.3, 0.5])
    assert split.objective == close(whole.objective)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@by_loss
def test_units_do_not_matter(loss, unit):
    """Features, radius, label cost and box in another unit: the same optimum, w divided."""
    clients, balls = pooled(loss, np.random.default_rng(17), None)
    one = solve(loss, clients, **balls)
    scaled = {key: list(unit * np.array(balls[key])) for key in ("radius", "label_cost")}
    two = solve(loss, [(unit * X, y) for X, y in clients], **scaled)
    assert two.objective == close(one.objective)


@by_loss
@pytest.mark.parametrize("kind", problems.NASTY)
@pytest.mark.sampled(2)
def test_nasty_clients(loss, kind):
    """The value is consistent, and not above that of the zero model."""
    rng = np.random.default_rng(18)
    clients = [problems.NASTY[kind](loss.task, rng, 2), problems.rows(loss.task, rng)]
    best = solve(loss, clients, radius=0.05, label_cost=10.0, mixture_radius=0.2)
    ball = {"loss": loss, "radius": 0.05, "label_cost": 10.0}
    F = [worst_case_loss(X, y, best.coef, best.intercept, **ball) for X, y in clients]
    assert best.objective == pytest.approx(best.weights @ F, rel=1e-6, abs=1e-8)
    if loss.task == "classification":  # at w = 0 every margin is 0, whatever moves
        at_zero = float(loss.value(np.zeros(1))[0])
    else:
        at_zero = max(loss.value(-y).mean() for _, y in clients) + 0.05 * loss.lipschitz / 10.0
    assert best.objective <= at_zero + 1e-8


# The paper's text


def literal_svm(clients, w, b, *, radius, alpha_floor=None):
    """Proposition SVM1 as printed, on [-1, 1]^n, labels fixed; theta = 0, uniform weights."""
    n, total, constraints = clients[0][0].shape[1], 0.0, []
    for X, y in clients:
        N = len(y)
        lam, alpha = cp.Variable(nonneg=True), cp.Variable(N)
        pi, tau = cp.Variable((N, n), nonneg=True), cp.Variable((N, n), nonneg=True)
        yw = cp.outer(y, w)
        floor = 0.0 if alpha_floor is None else alpha_floor(X, lam)
        constraints += [
            1 + cp.sum(cp.multiply(-yw - pi + tau, X) + pi + tau, axis=1) - y * b <= alpha,
            cp.abs(pi - tau + yw) <= lam,
            alpha >= floor,
        ]
        total = total + (radius * lam + cp.sum(alpha) / N) / len(clients)
    return minimise(total, constraints, "CLARABEL")


def test_erratum_1_inside_the_box_the_printed_program_is_right():
    X, y = np.array([[0.9], [-0.8], [0.1]]), np.array([1.0, -1.0, -1.0])
    printed = literal_svm([(X, y)], cp.Constant([2.0]), 0.1, radius=0.2)
    ours = worst_case_loss(X, y, [2.0], 0.1, loss="hinge", radius=0.2, support=Box(-1, 1))
    assert printed == close(ours)


def test_erratum_1_rows_outside_the_box_are_muted():
    """A noisy client's loss vanishes from the printed objective: it is below the empirical loss."""
    clean = (np.array([[0.8], [0.6], [-0.7], [-0.9]]), np.array([1.0, 1.0, -1.0, -1.0]))
    noisy = (np.array([[2.5], [3.0], [-2.0], [-3.5]]), np.array([-1.0, -1.0, 1.0, 1.0]))
    w, b = cp.Variable(1), cp.Variable()
    printed = literal_svm([clean, noisy], w, b, radius=0.05)
    empirical = np.mean([np.maximum(1 - y * (X @ w.value + b.value), 0) for X, y in (clean, noisy)])
    assert printed < 0.5 * empirical  # yet every honest worst case is at least the empirical loss
    # In truth no distribution on the box is that near to the noisy client's rows.
    game = {"loss": "hinge", "radius": 0.05, "support": Box(-1, 1)}
    assert brute.worst_case_loss(*noisy, w.value, b.value, **game) == -math.inf
    with pytest.raises(ValueError, match="4 rows lie outside the support"):
        solve("hinge", [clean, noisy], radius=0.05, support=Box(-1, 1))
    wide = solve("hinge", [clean, noisy], radius=0.05, support=Box(-3.5, 3))
    z = [y * (X @ wide.coef + wide.intercept) for X, y in (clean, noisy)]
    assert wide.objective >= np.mean(np.maximum(1 - np.array(z), 0))


def test_erratum_1_with_a_ball_that_reaches_the_box():
    """The printed alpha >= 0 must be alpha >= -lam dist: 1.1 where the truth is 0.2."""
    client, w = (np.array([[3.0], [3.0]]), np.ones(2)), cp.Constant([1.0])
    game = {"loss": "hinge", "radius": 2.2, "support": Box(-1, 1)}
    truth = brute.worst_case_loss(*client, [1.0], **game)
    assert truth == close(0.2)
    assert literal_svm([client], w, 0.0, radius=2.2) == close(1.1)
    corrected = literal_svm(
        [client], w, 0.0, radius=2.2, alpha_floor=lambda X, lam: -lam * (np.abs(X[:, 0]) - 1)
    )
    assert corrected == close(truth)


@by_norm
@pytest.mark.parametrize("loss", LOSSES[3:], ids=lambda loss: loss.name)
def test_erratum_2_the_norm_of_w_and_minus_1(loss, norm):
    """Read literally, ||(w,-1)||_* is too small for a cheap target and too large for a dear one."""
    rng = np.random.default_rng(19)
    X, y = problems.rows("regression", rng)
    w, radius = np.array([0.3, -0.2]), 0.5
    literal = loss.value(X @ w - y).mean() + radius * loss.lipschitz * NORMS[norm].dual(
        np.append(w, -1.0)
    )
    game = {"loss": loss, "radius": radius, "norm": norm}
    for label_cost, sign in ((0.25, 1.0), (4.0, -1.0)):
        truth = brute.worst_case_loss(X, y, w, label_cost=label_cost, **game)
        assert sign * (truth - literal) > 0.05
        assert worst_case_loss(X, y, w, label_cost=label_cost, **game) == close(truth)


def literal_svr(X, y, w, polyhedron, *, epsilon, radius):
    """The corollary on support vector regression as printed (l1 norm), at a given w."""
    C, d = polyhedron.C, polyhedron.d
    N = len(y)
    lam, alpha = cp.Variable(nonneg=True), cp.Variable(N, nonneg=True)
    slack = d - np.column_stack([X, y]) @ C.T
    constraints = []
    for sign in (1.0, -1.0):
        phi = cp.Variable((N, len(d)), nonneg=True)
        model = sign * np.append(w, -1.0)
        gain = cp.sum(cp.multiply(phi, slack), axis=1)
        constraints += [
            sign * (y - X @ w) - epsilon + gain <= alpha,
            cp.norm(phi @ C + np.tile(model, (N, 1)), "inf", axis=1) <= lam,
        ]
    return minimise(radius * lam + cp.sum(alpha) / N, constraints, "CLARABEL")


def test_erratum_2_on_a_polyhedron():
    rng = np.random.default_rng(20)
    X, y = problems.rows("regression", rng, N=5, n=1)
    polyhedron, w = problems.polyhedron_around(rng, "regression", X, y), np.array([0.4])
    game = {"loss": make_loss("epsilon_insensitive", epsilon=0.1), "radius": 0.15}
    game["support"] = polyhedron
    literal = literal_svr(X, y, w, polyhedron, epsilon=0.1, radius=0.15)
    # At kappa = 1 and with the l1 norm, the literal reading happens to be the metric's dual.
    for label_cost, sign in ((0.3, 1.0), (1.0, 0.0), (4.0, -1.0)):
        truth = brute.worst_case_loss(X, y, w, label_cost=label_cost, **game)
        assert worst_case_loss(X, y, w, label_cost=label_cost, **game) == close(truth)
        if sign:
            assert sign * (truth - literal) > 0.05
        else:
            assert truth == close(literal)


@pytest.mark.parametrize("formulation", ["compact", "paper"])
def test_erratum_7_the_box_changes_the_optimum(formulation):
    X = np.array([[1.0], [-1.0]])
    clients = [(X, X[:, 0])] * 2
    settings = {"radius": [0.0, 100.0], "center": [0.9, 0.1], "formulation": formulation}
    assert solve("hinge", clients, **settings, support=Box(-1, 1)).objective == close(0.2)
    assert solve("hinge", clients, **settings).objective == close(1.0)
    # Without an intercept, and a box far from 0.
    client = (np.array([[0.9], [1.0]]), np.ones(2))
    settings = {"radius": 100.0, "intercept": "none", "formulation": formulation}
    assert solve("hinge", [client], **settings, support=Box(0.9, 1)).objective == close(0.0)
    assert solve("hinge", [client], **settings).objective == close(1.0)


# Manners


def test_the_answer_is_a_record():
    client = (np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    best = solve("hinge", [client], radius=0.5, intercept="none")
    assert isinstance(best, Reference)
    assert best.coef.shape == (1,)
    assert best.intercept == 0.0
    assert best.weights == pytest.approx([1.0])


ROWS = {"X": [[0.0], [1.0]], "y": [1.0, -1.0], "coef": [1.0], "loss": "hinge", "radius": 0.1}


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"y": [1.0, 0.0]}, ValueError, "labels -1 and \\+1"),
        ({"y": [1.0]}, ValueError, "X must be"),
        ({"X": [[0.0], [math.nan]]}, ValueError, "finite"),
        ({"coef": [1.0, 2.0]}, ValueError, "coef must have shape"),
        ({"radius": -1.0}, ValueError, "radius"),
        ({"radius": math.inf}, ValueError, "radius"),
        ({"label_cost": 0.0}, ValueError, "label_cost"),
        ({"label_cost": math.nan}, ValueError, "label_cost"),
        ({"norm": "l3"}, ValueError, "unknown norm"),
        ({"loss": "hing"}, ValueError, "did you mean 'hinge'"),
        ({"sample_weight": [1.0, -1.0]}, ValueError, "sample_weight"),
        ({"sample_weight": [0.0, 0.0]}, ValueError, "sample_weight"),
        ({"support": Box(0.0, 0.5)}, ValueError, r"1 rows lie outside .* \[1\]"),
        ({"support": Polyhedron([[1.0, 0.0]], [2.0])}, ValueError, "C has 2 columns"),
        ({"support": Box(0, 1), "loss": "logistic"}, ValueError, "logistic on the whole space"),
        ({"support": "box"}, TypeError, "support must be"),
    ],
)
def test_bad_input_is_refused(change, error, sentence):
    with pytest.raises(error, match=sentence):
        worst_case_loss(**(ROWS | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"clients": []}, "no client"),
        ({"radius": [0.1]}, "1 entries for 2 clients"),
        ({"p": 3}, "p in 1, 2, inf"),
        ({"mixture_radius": -0.1}, "radius >= 0"),
        ({"center": [0.5, 0.6]}, "center"),
        ({"center": "fair"}, "center"),
        ({"formulation": "short"}, "formulation"),
        ({"shared": True, "radius": [0.1, 0.2]}, "one ball"),
        ({"clients": [([[0.0]], [1.0]), ([[0.0, 1.0]], [1.0])]}, "numbers of features"),
    ],
)
def test_bad_settings_are_refused(change, sentence):
    settings = {"clients": [([[0.0]], [1.0]), ([[1.0]], [-1.0])], "radius": 0.1}
    with pytest.raises(ValueError, match=sentence):
        solve("hinge", **(settings | change))


def test_no_optimum_is_an_error():
    x = cp.Variable()
    with pytest.raises(RuntimeError, match="no optimum"):
        minimise(x, [], "CLARABEL")


def test_cvxpy_is_imported_when_needed_only(monkeypatch):
    script = "import sys, drfl.reference; sys.exit('cvxpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"drfl\[oracle\]"):
        worst_case_loss(**ROWS)
