"""Where the paper's literal text is wrong, our functions give the right number.

What the text says is typed here, the truth comes from exhaustion. ``test_reference.py`` does the
same with convex programs.
"""

import math

import numpy as np
import pytest

import drfl
from drfl import Box, worst_case_loss
from drfl.datasets import load_heart, partition
from drfl.losses import LOSSES, make_loss
from drfl.norms import NORMS
from drfl.solvers import Assignment
from drfl.solvers.admm import AdLpmm, Admm
from drfl.solvers.admm.ad_lpmm import printed_constants, tight_constants, update_t
from kit import brute, problems

REGRESSION = [make_loss(name) for name in LOSSES if make_loss(name).task == "regression"]


# ---------------------------------------------------------------------- rows outside the support
def printed_hinge(X, y, w, b, radius, side):
    r"""The paper's program for the hinge in [-side, side]^n (l1, labels fixed), at a given w.

    With the multipliers of the sides solved for:
    min over lam of rho lam + mean_i max{0, 1 + tau - y_i s_i}, linear between the |w_j|.
    """
    values = []
    for lam in np.linspace(0.0, np.abs(w).max(), 2001):
        omega = np.clip(w, -lam, lam)
        tau = side * np.maximum(np.abs(w) - lam, 0.0).sum()
        values.append(radius * lam + np.maximum(0.0, 1.0 + tau - y * (X @ omega + b)).mean())
    return min(values)


def noisy_client():
    """Rows of [-1, 1] after Gaussian noise: many leave the box, on the wrong side for our w."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 1)) + 2.0 * rng.normal(size=(200, 1))
    return X, -np.sign(X[:, 0])


def test_inside_the_box_the_printed_program_is_right():
    X, y = noisy_client()
    side = np.abs(X).max()
    ours = worst_case_loss(X, y, [1.5], 0.1, loss="hinge", radius=0.3, support=Box(-side, side))
    assert ours.value == pytest.approx(printed_hinge(X, y, np.array([1.5]), 0.1, 0.3, side))


def test_rows_outside_are_an_error_not_a_silence():
    """The printed program says less than the empirical loss: the noisy rows are muted."""
    X, y = noisy_client()
    w, b, radius = np.array([1.5]), 0.1, 0.01
    empirical = np.maximum(0.0, 1.0 - y * (X @ w + b)).mean()
    printed = printed_hinge(X, y, w, b, radius, 1.0)
    assert printed < 0.8 * empirical
    game = {"loss": "hinge", "radius": radius, "support": Box(-1.0, 1.0)}
    with pytest.raises(ValueError, match=r"1\d\d rows lie outside the box .* the largest distance"):
        worst_case_loss(X, y, w, b, **game)
    wide = worst_case_loss(X, y, w, b, **game, on_outside="widen")
    assert wide.value >= empirical
    around = Box(min(X.min(), -1.0), max(X.max(), 1.0))
    few = slice(0, 12)
    truth = brute.worst_case_loss(X[few], y[few], w, b, loss="hinge", radius=radius, support=around)
    ours = worst_case_loss(X[few], y[few], w, b, loss="hinge", radius=radius, support=around)
    assert ours.value == pytest.approx(truth)


# ---------------------------------------------------------------------- the dual of the metric
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", REGRESSION, ids=lambda loss: loss.name)
def test_the_price_of_regression_is_the_dual_of_its_metric(loss, norm):
    """||(w,-1)||_* read literally: too small for a cheap target, too large for a dear one."""
    X, y = problems.rows("regression", np.random.default_rng(1), 6, 2)
    w, radius = np.array([0.3, -0.2]), 0.5
    mean = loss.value(X @ w - y).mean()
    literal = mean + radius * loss.lipschitz * NORMS[norm].dual(np.append(w, -1.0))
    for label_cost, sign in ((0.25, 1.0), (4.0, -1.0), (math.inf, -1.0)):
        game = {"loss": loss, "radius": radius, "norm": norm, "label_cost": label_cost}
        ours = worst_case_loss(X, y, w, **game).value
        assert ours == pytest.approx(brute.worst_case_loss(X, y, w, **game), rel=1e-8)
        assert sign * (ours - literal) > 0.04


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["epsilon_insensitive", "pinball"])
def test_on_polyhedra_features_and_target_are_bounded_each_by_its_own(name, norm):
    """Literally one norm of (w, -1) is at most lam; it is ||.||_* <= lam and |.| <= kappa lam."""
    rng = np.random.default_rng(2)
    loss = make_loss(name)
    X, y = problems.rows("regression", rng, 5, 1)
    game = {"loss": loss, "radius": 0.15, "norm": norm}
    game["support"] = problems.polyhedron_around(rng, "regression", X, y)
    values = []
    for label_cost in (0.3, 1.0, 4.0):
        ours = worst_case_loss(X, y, [0.4], label_cost=label_cost, **game).value
        truth = brute.worst_case_loss(X, y, [0.4], label_cost=label_cost, **game)
        assert ours == pytest.approx(truth, rel=1e-7)
        values.append(ours)
    assert values[0] > values[1] + 0.01 > values[2] + 0.02  # the literal text knows no kappa


# ---------------------------------------------------------------------- the soft threshold
def test_the_soft_threshold_shrinks_negative_entries_too():
    """Printed as [x - delta]_+ sgn(x), which sends every negative entry to 0."""
    v = np.array([-3.0, 2.5, 0.1])
    p = NORMS["l1"].project_ball(v)
    np.testing.assert_allclose(p, [-0.75, 0.25, 0.0])
    delta = 2.25
    printed = np.maximum(v - delta, 0.0) * np.sign(v)
    assert ((p - v) ** 2).sum() < ((printed - v) ** 2).sum() - 1.0


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_the_update_of_t_with_entries_of_both_signs_is_the_prox(p):
    """Three points are enough to refute a prox: nothing near it may have a smaller value."""
    rng = np.random.default_rng(0)
    t_old, z_old, eta, sigma, center = (*rng.normal(size=(4, 4)), np.full(4, 0.25))
    theta, c, c1, dual = 0.1, 0.3, 0.6, {1: math.inf, 2: 2, math.inf: 1}[p]
    t = update_t(t_old, z_old, eta, 0.1, sigma, center, theta, p, c, c1)
    linear = center + sigma + c * (t_old - z_old - 0.1 - eta)

    def value(t):
        return linear @ t + theta * np.linalg.norm(t, dual) + c1 / 2 * ((t - t_old) ** 2).sum()

    assert t.min() < 0.0 < t.max()
    for size in (1e-3, 0.1, 2.0):
        for step in rng.normal(size=(20, 4)):
            assert value(t + size * step) >= value(t) - 1e-12


# ---------------------------------------------------------------------- Algorithm 1
def three_clients(N=15):
    rng = np.random.default_rng(4)
    rows = [problems.rows("classification", rng, N=N + s, n=2) for s in range(3)]
    return [drfl.Client(f"c{s}", *pair) for s, pair in enumerate(rows)]


def game(**mixture):
    return drfl.Problem("hinge", drfl.Ball(0.02, "l1", 3.0), drfl.Mixture(**mixture))


@pytest.mark.parametrize("S", [1, 2, 10, 200])
def test_the_proximal_constants_are_larger_than_need_be(S):
    """Printed c' = c'' = 2Sc; the largest eigenvalues of A'A are 2 and S + 1."""
    A1 = np.hstack([np.eye(S), -np.eye(S)])
    A2 = np.hstack([-np.ones((S, 1)), -np.eye(S)])
    for A, tight, eigenvalue in zip((A1, A2), tight_constants(0.3, S), (2.0, S + 1.0), strict=True):
        assert np.linalg.eigvalsh(A.T @ A)[-1] == pytest.approx(eigenvalue)
        least = np.linalg.eigvalsh(tight * np.eye(A.shape[1]) - 0.3 * A.T @ A)[0]
        assert least == pytest.approx(0.0, abs=1e-10)  # positive semidefinite, and not more
    assert min(printed_constants(0.3, S)) >= max(tight_constants(0.3, S)) - 1e-12


@pytest.mark.slow
def test_the_printed_constants_cost_rounds():
    heart = load_heart()
    parts = partition.random(270, 10, np.random.default_rng(0))
    made = [drfl.Client(f"c{s}", heart.data[i], heart.target[i]) for s, i in enumerate(parts)]
    ball, mixture = drfl.Ball(0.01, "l1", 1e3), drfl.Mixture(radius=0.1)
    problem = drfl.Problem("hinge", ball, mixture, intercept="none")
    level = drfl.solve(problem, made).objective * 1.001
    rounds = []
    for tight in (True, False):
        solver = AdLpmm(c=0.01, tight=tight)
        result = drfl.solve(problem, made, solver=solver, tol=1e-6, max_rounds=250)
        rounds.append(next(r.round for r in result.history if r.objective <= level))
    assert 1.5 * rounds[0] <= rounds[1]


def test_a_radius_of_zero_divides_by_nothing():
    """The t-update divides by theta; with theta = 0 it is u, and Q is one point."""
    best = drfl.solve(game(), three_clients())
    solver = AdLpmm(c=0.1, tight=True)
    result = drfl.solve(game(), three_clients(), solver=solver, tol=1e-3, max_rounds=600)
    assert result.status.kind == "certified"
    assert result.objective <= best.objective * (1.0 + 1e-3)
    assert list(result.weights.values()) == pytest.approx([1 / 3] * 3)


def rounds_of(solver, problem, n_rounds, N=15):
    """Requests, answers and the session of every round, with everyone answering."""
    made = three_clients(N)
    sites = {client.name: drfl.client.Site(client, problem, debug=True) for client in made}
    session = solver.start(Assignment(problem, tuple(sites), 2, 1e-12, n_rounds + 1))
    for _ in range(n_rounds):
        asked = session.propose()
        answers = {name: sites[name].answer(m, solver.handlers) for name, m in asked.items()}
        before = {"w": session.w, "z": session.z, "dual": session.dual.copy()}
        session.absorb(answers, {})
        yield asked, answers, before, session


def test_multipliers_start_at_zero_and_the_client_steps_at_the_new_w():
    """No start is printed; and C_s is printed at w_s^{k+1}, of which there is none: it is w^{k+1}.

    The multipliers after a step are psi + c (w - w_hat) and zeta + c (pi - z) with the very w and
    z that the client was sent; z_s and zeta_s are numbers.
    """
    c = 0.1
    for k, (asked, answers, before, session) in enumerate(rounds_of(AdLpmm(c=c), game(), 4)):
        if k == 0:
            for message in asked.values():
                assert not message.arrays["duals"].any()
                assert not message.arrays["pair"].any()
        for s, (name, reply) in enumerate(answers.items()):
            sent = asked[name].arrays
            np.testing.assert_array_equal(sent["x"], before["w"])
            assert sent["z"] == before["z"][s]
            assert sent["z"].shape == reply.arrays["pi"].shape == ()
            psi = before["dual"][s, :-1] + c * (before["w"] - reply.arrays["model"])
            zeta = before["dual"][s, -1] + c * (reply.arrays["pi"] - before["z"][s])
            np.testing.assert_allclose(session.dual[s], np.append(psi, zeta), rtol=1e-14)


@pytest.mark.parametrize("solver", [AdLpmm(c=0.1), Admm(adaptive=False)], ids=lambda s: s.name)
def test_no_array_is_as_long_as_the_rows_and_no_multiplier_travels(solver):
    """As printed alpha_s, N_s numbers, leaves the client, and psi_s, zeta_s go down every round."""
    N, d = 31, 3
    for k, (asked, answers, _, _) in enumerate(rounds_of(solver, game(radius=0.2), 9, N)):
        for message in [*asked.values(), *answers.values()]:
            lengths = {n for array in message.arrays.values() for n in array.shape}
            assert max(lengths, default=0) < N
        # n + 1 numbers down and n + 1 up (w has an intercept), but for the evaluation of w.
        if k not in (0, 1, 5):
            for message, reply in zip(asked.values(), answers.values(), strict=True):
                assert {name: array.size for name, array in message.arrays.items()} == {
                    "x": d,
                    "z": 1,
                }
                assert sum(array.size for array in reply.arrays.values()) == d + 1


def test_batches_hover_and_their_average_is_better():
    """A fresh sample in every round does not converge; the average of the iterates nearly does."""
    problem, made = game(radius=0.2), three_clients(60)
    best = drfl.solve(problem, made).objective
    solver = AdLpmm(c=0.1, tight=True, batch_size=20, seed=1)
    result = drfl.solve(problem, made, solver=solver, tol=1e-6, max_rounds=120)
    assert result.status.kind == "max_rounds"
    late = [record.info for record in result.history[60:] if "at_average" in record.info]
    iterate = [info["at_iterate"] / best - 1.0 for info in late]
    average = [info["at_average"] / best - 1.0 for info in late]
    assert len(late) >= 10
    assert min(iterate) > 3e-4  # it hovers
    assert np.median(average) < 0.3 * np.median(iterate)
    assert result.objective <= best * (1.0 + 2.0 * min(average))


# ---------------------------------------------------------------------- flips, and no effect
def test_where_flips_set_the_price_the_box_does_not_bind():
    """For kappa <= 1, the paper's grid, a box as tight as can be often changes nothing."""
    X, y = problems.rows("classification", np.random.default_rng(3), 30, 2)
    tight = Box(X.min(axis=0), X.max(axis=0))
    w = np.array([0.3, -0.2])
    for label_cost, radius, binds in ((1.0, 0.01, False), (1.0, 0.1, False), (1e3, 2.0, True)):
        game = {"loss": "hinge", "radius": radius, "label_cost": label_cost}
        free = worst_case_loss(X, y, w, 1.0, **game)
        boxed = worst_case_loss(X, y, w, 1.0, **game, support=tight)
        assert (free.multiplier > np.abs(w).max()) == (not binds)
        assert (boxed.value < free.value - 1e-3) == binds
        if not binds:
            assert boxed.value == pytest.approx(free.value, rel=1e-12)


@pytest.mark.parametrize("loss", REGRESSION, ids=lambda loss: loss.name)
def test_below_one_over_kappa_the_radius_moves_no_gradient(loss):
    """Targets are the cheaper thing to move: F is the empirical loss and a constant."""
    X, y = problems.rows("regression", np.random.default_rng(4), 20, 3)
    w = np.array([0.4, -0.1, 0.2])
    still, moved = (
        worst_case_loss(X, y, w, 0.1, loss=loss, radius=radius, label_cost=2.0)
        for radius in (0.0, 0.7)
    )
    np.testing.assert_array_equal(moved.gradient, still.gradient)
    assert moved.value == pytest.approx(still.value + 0.7 * loss.lipschitz / 2.0)
    beyond = worst_case_loss(X, y, 2 * w, 0.1, loss=loss, radius=0.7, label_cost=2.0)
    plain = worst_case_loss(X, y, 2 * w, 0.1, loss=loss, radius=0.0, label_cost=2.0)
    assert beyond.gradient[0] == pytest.approx(plain.gradient[0] + 0.7 * loss.lipschitz)
