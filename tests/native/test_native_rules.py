"""Every update is the one of its paper, step by step."""

import numpy as np
import pytest
from native_kit import SIMPLEX, Listening, Plain, model_of, run
from scipy.optimize import minimize

import drfl
from drfl.native import AFL, DRFA, QFFL, WAFL, FedADMM, FedAvg, FedProx, Scaffold, ScaffPD
from drfl.native.methods.wafl import penalised

LOSS, E, ETA, ROUNDS = "logistic", 4, 0.3, 12
PLAIN = Plain(LOSS)
S, D = PLAIN.S, PLAIN.d


def fixed(kind, **settings):
    """A method with the steps of the formulas below."""
    return kind(step_size=ETA, decay=0.0, evaluate_every=1, **settings)


def after(method, steps, exchanges=1, mixture=None):
    """The model after so many steps: the first round introduces, the last one evaluates."""
    return model_of(run(method, LOSS, mixture, 2 + exchanges * steps))


def ends(x, extra=lambda s, v: 0.0, start=None, eta=ETA):
    starts = [x] * S if start is None else start
    return [PLAIN.walk(s, starts[s], E, eta, lambda v, s=s: extra(s, v))[-1] for s in range(S)]


def test_fedavg():
    x = np.zeros(D)
    for _ in range(ROUNDS):
        x = np.mean(ends(x), axis=0)
    assert after(fixed(FedAvg, local_steps=E), ROUNDS) == pytest.approx(x, rel=1e-12)


def test_fedprox():
    x = np.zeros(D)
    for _ in range(ROUNDS):
        x = np.mean(ends(x, lambda s, v, x=x: 0.7 * (v - x)), axis=0)
    assert after(fixed(FedProx, local_steps=E, mu=0.7), ROUNDS) == pytest.approx(x, rel=1e-12)


def test_scaffold():
    x, c, own = np.zeros(D), np.zeros(D), np.zeros((S, D))
    for _ in range(ROUNDS):
        v = np.array(ends(x, lambda s, v, c=c, own=own: c - own[s]))
        new = own - c + (x - v) / (E * ETA)
        x, c, own = x + 0.8 * (v - x).mean(axis=0), c + (new - own).mean(axis=0), new
    method = fixed(Scaffold, local_steps=E, server_step=0.8)
    assert after(method, ROUNDS) == pytest.approx(x, rel=1e-11)


def test_qffl():
    q, x = 2.0, np.zeros(D)
    for _ in range(ROUNDS):
        F, d = PLAIN.values(x), (x - np.array(ends(x))) / ETA
        h = q * F ** (q - 1) * (d**2).sum(axis=1) + F**q / ETA
        x = x - F**q @ d / h.sum()
    assert after(fixed(QFFL, local_steps=E, q=q), ROUNDS) == pytest.approx(x, rel=1e-11)


def test_fedadmm():
    r, x, w, dual = 0.4, np.zeros(D), np.zeros((S, D)), np.zeros((S, D))
    for _ in range(ROUNDS):
        v = np.array(ends(x, lambda s, v, x=x, a=dual: a[s] + r * (v - x), start=w))
        new = dual + r * (v - x)
        x, w, dual = x + 0.9 * ((v - w) + (new - dual) / r).mean(axis=0), v, new
    method = fixed(FedADMM, local_steps=E, penalty=r, server_step=0.9)
    assert after(method, ROUNDS) == pytest.approx(x, rel=1e-11)


def test_afl():
    x, lam, seen = np.zeros(D), np.full(S, 0.25), []
    simplex = drfl.Mixture(np.full(S, 0.25), np.inf)
    for _ in range(ROUNDS):
        seen.append(x)
        descent = lam @ [PLAIN.gradient(s, x) for s in range(S)]
        lam, x = simplex.project(lam + 0.5 * PLAIN.values(x)), x - ETA * descent
    found = after(fixed(AFL, weight_step=0.5), ROUNDS, mixture=SIMPLEX)
    assert found == pytest.approx(np.mean(seen, axis=0), rel=1e-12)
    last = after(fixed(AFL, weight_step=0.5, averaged=False), ROUNDS, mixture=SIMPLEX)
    assert last == pytest.approx(x, rel=1e-12)


@pytest.mark.parametrize("nu", [0.0, 0.3])
@pytest.mark.parametrize("mu", [0.0, 0.2])
def test_scaff_pd(nu, mu):
    x, lam, before = np.zeros(D), np.full(S, 0.25), PLAIN.values(np.zeros(D))
    simplex = drfl.Mixture(np.full(S, 0.25), np.inf)
    eta, sigma, theta = ETA, 0.5, 1.0
    for _ in range(ROUNDS):
        F, g = PLAIN.values(x), PLAIN.gradients(x)
        aim = (1.0 + theta) * F - theta * before
        lam = simplex.project((lam + sigma * (aim + nu * 0.25)) / (1.0 + sigma * nu))
        v = np.array(ends(x, lambda s, v, g=g, lam=lam: lam @ g - g[s], eta=eta))
        x, before = x + 0.9 * (lam @ v - x), F
        theta = 1.0 / np.sqrt(1.0 + mu * E * eta * 0.9)
        eta, sigma = eta * theta, sigma / theta
    steps = {"local_steps": E, "weight_step": 0.5, "server_step": 0.9}
    method = fixed(ScaffPD, **steps, concavity=nu, strong_convexity=mu)
    assert after(method, ROUNDS, 2, SIMPLEX) == pytest.approx(x, rel=1e-10)


def test_the_weights_of_scaff_pd_maximise_what_they_should():
    # The step of the weights against a generic solver of the maximum that it is.
    rng, simplex = np.random.default_rng(0), drfl.Mixture(np.full(S, 0.25), np.inf)
    for nu, sigma in ((0.0, 0.5), (0.3, 2.0)):
        lam, aim = rng.dirichlet(np.ones(S)), rng.normal(size=S)
        found = simplex.project((lam + sigma * (aim + nu * 0.25)) / (1.0 + sigma * nu))

        def cost(q, nu=nu, sigma=sigma, lam=lam, aim=aim):
            near = ((q - lam) ** 2).sum() / (2.0 * sigma)
            return -q @ aim + 0.5 * nu * ((q - 0.25) ** 2).sum() + near

        sums = {"type": "eq", "fun": lambda q: q.sum() - 1.0}
        best = minimize(
            cost, lam, bounds=[(0.0, 1.0)] * S, constraints=[sums], options={"ftol": 1e-14}
        )
        assert found == pytest.approx(best.x, abs=1e-6)


def test_wafl():
    x, gamma = np.zeros(D), 3.0
    for _ in range(ROUNDS):
        moved = []
        for s in range(S):
            v = x
            for _ in range(E):
                _, slopes = penalised(PLAIN.loss, PLAIN.z(s, v), v[:-1] @ v[:-1] / gamma)
                g = PLAIN.A[s].T @ (PLAIN.y[s] * slopes) / len(slopes)
                g[:-1] += v[:-1] * (slopes**2).mean() / gamma
                v = v - ETA * g
            moved.append(v)
        x = np.mean(moved, axis=0)
    assert after(fixed(WAFL, local_steps=E, gamma=gamma), ROUNDS) == pytest.approx(x, rel=1e-11)


# ---------------------------------------------------------------------------- draws
def drawn(round, seed=5):
    return np.sort(np.random.default_rng([seed, round]).choice(S, 2, replace=False))


def test_scaffold_with_some_of_the_clients():
    x, c, own = np.zeros(D), np.zeros(D), np.zeros((S, D))
    for k in range(ROUNDS):
        A = drawn(1 + k)
        v = np.array(ends(x, lambda s, v, c=c, own=own: c - own[s]))[A]
        new = own[A] - c + (x - v) / (E * ETA)
        change = 2 / S * (new - own[A]).mean(axis=0)  # |A|/S of the mean
        x, c = x + (v - x).mean(axis=0), c + change
        own[A] = new
    method = fixed(Scaffold, local_steps=E, participation=0.5, seed=5)
    assert after(method, ROUNDS) == pytest.approx(x, rel=1e-11)


def test_fedadmm_with_some_of_the_clients():
    r, x, w, dual = 0.4, np.zeros(D), np.zeros((S, D)), np.zeros((S, D))
    for k in range(ROUNDS):
        A = drawn(1 + k)
        v = np.array(ends(x, lambda s, v, x=x, a=dual: a[s] + r * (v - x), start=w))[A]
        change = (v - w[A]) + (v - x)
        w[A], dual[A] = v, dual[A] + r * (v - x)
        x = x + 0.5 * change.mean(axis=0)  # half of the weights took part
        assert x == pytest.approx((w + dual / r).mean(axis=0), abs=1e-12)
    method = fixed(FedADMM, local_steps=E, penalty=r, participation=0.5, seed=5)
    assert after(method, ROUNDS) == pytest.approx(x, rel=1e-11)


def test_every_local_step_has_a_batch_of_its_own():
    x = np.zeros(D)
    for k in range(3):
        moved = []
        for s in range(S):
            rng, v = np.random.default_rng([7, 1 + k, *f"c{s}".encode()]), x
            for _ in range(E):
                rows = rng.choice(len(PLAIN.y[s]), 6, replace=False)
                slopes = PLAIN.loss.slope(PLAIN.z(s, v))[rows] * PLAIN.y[s][rows]
                v = v - ETA * PLAIN.A[s][rows].T @ slopes / 6
            moved.append(v)
        x = np.mean(moved, axis=0)
    assert after(fixed(FedAvg, local_steps=E, batch_size=6, seed=7), 3) == pytest.approx(x)


def test_drfa_follows_its_draws():
    method = fixed(DRFA, local_steps=E, weight_step=0.1, participation=0.5, seed=5)
    engine = Listening()
    result = run(method, LOSS, SIMPLEX, 2 + 2 * ROUNDS, engine)
    x, lam, seen = np.zeros(D), np.full(S, 0.25), []
    simplex = drfl.Mixture(np.full(S, 0.25), np.inf)
    for k in range(ROUNDS):
        number = 1 + 2 * k
        seen.append(x)
        rng = np.random.default_rng([5, number])
        drawn = rng.choice(S, 2, p=lam / lam.sum())
        stop = int(rng.integers(1, E, endpoint=True))
        walks = [PLAIN.walk(s, x, E, ETA) for s in drawn]
        x = np.mean([w[-1] for w in walks], axis=0)
        midway = np.mean([w[stop - 1] for w in walks], axis=0)
        uniform = np.random.default_rng([5, number + 1]).choice(S, 2, replace=False)
        for s in uniform:
            request = engine.rounds[number + 1][0][f"c{s}"].arrays
            assert request["plan"][2] == 2
            assert request["x"] == pytest.approx(midway, rel=1e-11)
        v = np.zeros(S)
        v[uniform] = S / 2 * PLAIN.values(midway)[uniform]
        lam = simplex.project(lam + E * 0.1 * v)
    assert model_of(result) == pytest.approx(np.mean(seen, axis=0), rel=1e-11)
