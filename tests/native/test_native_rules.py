"""Every update is the one of its paper, step by step; the known bugs of public code are absent."""

import numpy as np
import pytest
from native_kit import SIMPLEX, Listening, Plain, model_of, run

import drfl
from drfl.native import AFL, DRFA, QFFL, WAFL, FedADMM, FedAvg, FedProx, Scaffold, ScaffPD

LOSS, E, ETA, ROUNDS = "logistic", 4, 0.3, 12
PLAIN = Plain(LOSS)
S, D = PLAIN.S, PLAIN.d


def fixed(kind, **settings):
    """A method with the steps of the formulas below."""
    return kind(step_size=ETA, decay=0.0, evaluate_every=1, **settings)


def after(method, steps, exchanges=1, mixture=None):
    """The model after so many steps: the first round introduces, the last one evaluates."""
    return model_of(run(method, LOSS, mixture, 2 + exchanges * steps))


def ends(x, extra=lambda s, v: 0.0, start=None):
    starts = [x] * S if start is None else start
    return [PLAIN.walk(s, starts[s], E, ETA, lambda v, s=s: extra(s, v))[-1] for s in range(S)]


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


def test_scaff_pd():
    x, lam, before = np.zeros(D), np.full(S, 0.25), PLAIN.values(np.zeros(D))
    simplex = drfl.Mixture(np.full(S, 0.25), np.inf)
    for _ in range(ROUNDS):
        F, g = PLAIN.values(x), np.array([PLAIN.gradient(s, x) for s in range(S)])
        lam, before = simplex.project(lam + 0.5 * (2.0 * F - before)), F
        v = np.array(ends(x, lambda s, v, g=g, lam=lam: lam @ g - g[s]))
        x = x + 0.9 * (lam @ v - x)
    method = fixed(ScaffPD, local_steps=E, weight_step=0.5, server_step=0.9)
    assert after(method, ROUNDS, 2, SIMPLEX) == pytest.approx(x, rel=1e-11)


# ---------------------------------------------------------------------------- DRFA and its draws
def drfa_rounds(method, max_rounds, lose=lambda name, round: False):
    engine = Listening(lose)
    result = run(method, LOSS, SIMPLEX, max_rounds, engine)
    return result, engine.rounds


def test_drfa_follows_its_draws():
    method = fixed(DRFA, local_steps=E, weight_step=0.1, participation=0.5, seed=5)
    result, _rounds = drfa_rounds(method, 2 + 2 * ROUNDS)
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
        v = np.zeros(S)
        v[uniform] = S / 2 * PLAIN.values(midway)[uniform]
        lam = simplex.project(lam + E * 0.1 * v)
    assert model_of(result) == pytest.approx(np.mean(seen, axis=0), rel=1e-11)


def steps_of(messages, step):
    return [m.arrays for m in messages.values() if m.arrays["plan"][2] == step]


def test_drfa_draws_one_stop_for_all_and_reaches_the_last_step():
    _, rounds = drfa_rounds(fixed(DRFA, local_steps=3), 80)
    walks = [steps_of(messages, 1) for messages, _ in rounds[1::2]]
    assert all(len({int(a["stop"]) for a in asked}) == 1 for asked in walks if asked)
    assert {int(asked[0]["stop"]) for asked in walks if asked} == {1, 2, 3}


def test_drfa_asks_for_fresh_losses_at_the_midway_model_of_clients_drawn_uniformly():
    _, rounds = drfa_rounds(fixed(DRFA, local_steps=3, participation=0.5), 60)
    asked = []
    for (_, ends), (losses, _) in zip(rounds[1::2], rounds[2::2], strict=False):
        assert len(steps_of(losses, 2)) == 2
        asked += [name for name, m in losses.items() if m.arrays["plan"][2] == 2]
        midways = [r.arrays["midway"] for r in ends.values() if "midway" in r.arrays]
        point = steps_of(losses, 2)[0]["x"]
        low, high = np.min(midways, axis=0), np.max(midways, axis=0)
        assert (low - 1e-12 <= point).all()
        assert (point <= high + 1e-12).all()
    counts = [asked.count(f"c{s}") for s in range(S)]
    assert min(counts) > 5  # also clients whose weight is 0


# ---------------------------------------------------------------------------- known bugs
def test_every_client_moves_the_weights_of_afl():
    for s in range(S):
        start = drfl.Mixture(np.eye(S)[s] * 0.4 + 0.15, np.inf)
        method = fixed(AFL, weight_step=1e-3)
        session = method.start(
            drfl.Problem(LOSS, mixture=start), ["a", "b", "c", "d"], D - 1, tol=1e-6, max_rounds=9
        )
        session.known = {
            k: {"facts": np.array([1.0, 1.0, 2.0]), "value": np.array(0.5)} for k in range(S)
        }
        session._begin()
        before = session.lam
        session.requests()
        answers = {k: {"loss": np.array(float(k == s)), "gradient": np.zeros(D)} for k in range(S)}
        session.update(answers)
        moved = session.lam - before
        assert moved[s] > 0.0
        assert (np.delete(moved, s) < 0.0).all()


def test_control_variates_start_at_0_and_stay_during_a_walk():
    engine = Listening()
    run(fixed(Scaffold, local_steps=E), LOSS, None, 6, engine)
    first = [m.arrays["correction"] for m in engine.rounds[1][0].values()]
    assert not np.any(first)
    later = {name: m.arrays["correction"] for name, m in engine.rounds[3][0].items()}
    assert np.abs(list(later.values())).max() > 1e-3
    # They add up to 0, and every local step has used the same one.
    assert np.mean(list(later.values()), axis=0) == pytest.approx(np.zeros(D), abs=1e-12)
    for s, (name, message) in enumerate(engine.rounds[3][0].items()):
        correction = message.arrays["correction"]
        v = PLAIN.walk(s, message.arrays["x"], E, ETA, lambda v, c=correction: c)[-1]
        assert engine.rounds[3][1][name].arrays["model"] == pytest.approx(v, rel=1e-12)


def test_qffl_squares_the_direction_and_not_its_scaled_one():
    # With one step and small losses the two differ by a factor F^(2q) in h.
    q, x = 3.0, np.zeros(D)
    F, d = PLAIN.values(x), np.array([PLAIN.gradient(s, x) for s in range(S)])
    right = (q * F ** (q - 1) * (d**2).sum(axis=1) + F**q / ETA).sum()
    wrong = (q * F ** (q - 1) * ((F[:, None] ** q * d) ** 2).sum(axis=1) + F**q / ETA).sum()
    found = after(fixed(QFFL, local_steps=1, q=q), 1)
    assert found == pytest.approx(-(F**q) @ d / right, rel=1e-12)
    assert np.abs(found + F**q @ d / wrong).max() > 1e-3


@pytest.mark.parametrize("other", [{"step_size": 0.1}, {"local_steps": 3}, {"gamma": 2.0}])
def test_the_step_options_of_wafl_reach_the_steps(other):
    usual = {"step_size": 0.2, "local_steps": 2, "gamma": 5.0}
    one, two = WAFL(**usual), WAFL(**{**usual, **other})
    assert np.abs(after(one, 3) - after(two, 3)).max() > 1e-3
