"""The bugs that are known of public code are absent: a test for each."""

import numpy as np
import pytest
from native_kit import SIMPLEX, Listening, Plain, model_of, run

import drfl
from drfl.native import AFL, DRFA, QFFL, WAFL, Scaffold
from drfl.solvers import Assignment

LOSS, E, ETA = "logistic", 4, 0.3
PLAIN = Plain(LOSS)
S, D = PLAIN.S, PLAIN.d


def fixed(kind, **settings):
    return kind(step_size=ETA, decay=0.0, evaluate_every=1, **settings)


# ---------------------------------------------------------------------------- DRFA
def drfa_rounds(method, max_rounds):
    engine = Listening()
    run(method, LOSS, SIMPLEX, max_rounds, engine)
    return engine.rounds


def steps_of(messages, step):
    return [m.arrays for m in messages.values() if m.arrays["plan"][2] == step]


def test_drfa_draws_one_stop_for_all_and_reaches_the_last_step():
    rounds = drfa_rounds(fixed(DRFA, local_steps=3), 80)
    walks = [steps_of(messages, 1) for messages, _ in rounds[1::2]]
    assert all(len({int(a["stop"]) for a in asked}) == 1 for asked in walks if asked)
    assert {int(asked[0]["stop"]) for asked in walks if asked} == {1, 2, 3}


def test_drfa_asks_for_fresh_losses_at_the_midway_model_of_clients_drawn_uniformly():
    rounds = drfa_rounds(fixed(DRFA, local_steps=3, participation=0.5), 60)
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


def test_the_losses_of_the_walk_do_not_move_the_weights_of_drfa():
    method = fixed(DRFA, local_steps=3, weight_step=0.1)
    names = tuple(f"c{s}" for s in range(S))
    stated = drfl.Problem(LOSS, mixture=SIMPLEX)
    session = method.start(Assignment(stated, names, D - 1, tol=1e-6, max_rounds=9))
    introduce(session)
    before = session.lam
    session.requests()
    walked = {s: {"model": np.full(D, 9.0), "midway": np.ones(D)} for s in range(S)}
    session.update(walked)
    assert np.array_equal(session.lam, before)
    _, asked = session.requests()
    assert all(np.array_equal(arrays["x"], np.ones(D)) for arrays in asked.values())
    session.update({s: {"loss": np.array(float(s == 1))} for s in asked})
    assert session.lam[1] > before[1]


# ---------------------------------------------------------------------------- the others
def introduce(session):
    facts = {"facts": np.array([1.0, 1.0, 2.0]), "value": np.array(0.5)}
    session.known = dict.fromkeys(range(S), facts)
    session._begin()


def test_every_client_moves_the_weights_of_afl():
    for s in range(S):
        start = drfl.Mixture(np.eye(S)[s] * 0.4 + 0.15, np.inf)
        method = fixed(AFL, weight_step=1e-3)
        stated = drfl.Problem(LOSS, mixture=start)
        session = method.start(Assignment(stated, tuple("abcd"), D - 1, tol=1e-6, max_rounds=9))
        introduce(session)
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
    F, d = PLAIN.values(x), PLAIN.gradients(x)
    right = (q * F ** (q - 1) * (d**2).sum(axis=1) + F**q / ETA).sum()
    wrong = (q * F ** (q - 1) * ((F[:, None] ** q * d) ** 2).sum(axis=1) + F**q / ETA).sum()
    found = model_of(run(fixed(QFFL, local_steps=1, q=q), LOSS, None, 3))
    assert found == pytest.approx(-(F**q) @ d / right, rel=1e-12)
    assert np.abs(found + F**q @ d / wrong).max() > 1e-3


@pytest.mark.parametrize("other", [{"step_size": 0.1}, {"local_steps": 3}, {"gamma": 2.0}])
def test_the_step_options_of_wafl_reach_the_steps(other):
    usual = {"step_size": 0.2, "local_steps": 2, "gamma": 5.0}
    one, two = WAFL(**usual), WAFL(**{**usual, **other})
    models = [model_of(run(method, LOSS, None, 5)) for method in (one, two)]
    assert np.abs(models[0] - models[1]).max() > 1e-3


@pytest.mark.parametrize("q", [0.3, 2.0])
def test_a_loss_of_0_does_not_stop_qffl(q):
    # F^(q-1) would be infinite for q < 1, and 0/0 if all losses were 0.
    X, y = np.array([[-2.0], [2.0]]), np.array([-1.0, 1.0])
    easy, hard = drfl.Client("easy", X, y), drfl.Client("hard", X, [1.0, 1.0])
    for sites in ([easy], [easy, hard]):
        method = QFFL(q=q, local_steps=1)
        result = drfl.solve(drfl.Problem("hinge"), sites, solver=method, max_rounds=60)
        assert np.isfinite(model_of(result)).all()
        assert result.objective < 0.9 * result.history[0].objective
