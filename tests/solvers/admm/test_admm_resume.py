"""Runs of the ADMMs that are stopped and resumed, and their settings."""

import math

import numpy as np
import pytest
from admm_kit import PROBLEM, SHARED, SOLVERS, clients, solve

from drfl.client import Site
from drfl.solvers.admm import AdLpmm, Admm
from drfl.wire import Message, WireError
from kit.lossy import ChangingEngine


# ---------------------------------------------------------------------------- resuming
@pytest.mark.parametrize(
    ("solver", "problem", "stops"),
    [
        # More than 50 rounds: by then a client has been told its multipliers again.
        (SOLVERS["ad_lpmm"], PROBLEM, (1, 13, 53)),
        (SOLVERS["admm"], SHARED, (1, 13, 53)),
        (SOLVERS["ad_lpmm"], SHARED, (7,)),
        (SOLVERS["admm"], PROBLEM, (7,)),
        (AdLpmm(c=0.1, batch_size=8, seed=3), PROBLEM, (7,)),
    ],
    ids=["ad_lpmm", "admm, one ball", "ad_lpmm, one ball", "admm", "batches"],
)
@pytest.mark.sampled(2)
def test_resuming_repeats_the_run_to_the_bit(solver, problem, stops, tmp_path):
    settings = {"tol": 1e-9, "max_rounds": stops[-1] + 4}
    whole = solve(solver, problem, **settings)
    for stop in stops:
        path = tmp_path / str(stop)
        halt = [lambda record, stop=stop: record.round >= stop]
        solve(solver, problem, checkpoint=path, callbacks=halt, **settings)
        again = solve(solver, problem, checkpoint=path, **settings)
        assert again.coef.tobytes() == whole.coef.tobytes()
        assert again.rounds == whole.rounds
        assert again.bytes_up == whole.bytes_up
        assert again.bytes_down == whole.bytes_down
        assert [r.gap for r in again.history] == [r.gap for r in whole.history]


@pytest.mark.parametrize("name", SOLVERS)
def test_resuming_after_lost_answers(name, tmp_path):
    def forgetful():
        return ChangingEngine(
            lambda who, reply: None if (3 * reply.round + int(who[1])) % 7 == 5 else reply
        )

    settings, path = {"tol": 1e-9, "max_rounds": 30}, tmp_path / "run"
    whole = solve(SOLVERS[name], engine=forgetful(), **settings)
    halt = [lambda record: record.round >= 20]
    solve(SOLVERS[name], engine=forgetful(), checkpoint=path, callbacks=halt, **settings)
    again = solve(SOLVERS[name], engine=forgetful(), checkpoint=path, **settings)
    assert again.coef.tobytes() == whole.coef.tobytes()
    assert any(record.failures for record in again.history)


# ---------------------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"c": 0.0}, "c must be"),
        ({"c": math.inf}, "c must be"),
        ({"batch_size": 0}, "batch_size"),
        ({"certify_every": 0}, "certify_every"),
        ({"seed": -1}, "seed"),
    ],
)
def test_ad_lpmm_refuses_senseless_settings(settings, word):
    with pytest.raises(ValueError, match=word):
        AdLpmm(**settings)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"relaxation": 2.0}, "relaxation"),
        ({"penalty": 0.0}, "penalty"),
        ({"certify_every": 0}, "certify_every"),
    ],
)
def test_admm_refuses_senseless_settings(settings, word):
    with pytest.raises(ValueError, match=word):
        Admm(**settings)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (AdLpmm, {"c": "0.1"}),
        (AdLpmm, {"c": True}),
        (AdLpmm, {"tight": 1}),
        (AdLpmm, {"batch_size": 2.5}),
        (AdLpmm, {"seed": None}),
        (Admm, {"relaxation": "1"}),
        (Admm, {"adaptive": None}),
        (Admm, {"certify_every": 1.0}),
    ],
)
def test_settings_of_the_wrong_type_are_refused(kind, settings):
    with pytest.raises(TypeError, match=next(iter(settings))):
        kind(**settings)


def test_a_client_without_multipliers_says_so():
    site = Site(clients()[0], PROBLEM, debug=True)
    message = Message("admm", 4, {"x": np.zeros(4), "z": np.array(0.0)})
    with pytest.raises(WireError, match="lost its multipliers"):
        site.answer(message, Admm.handlers)


def test_over_relaxation_and_adaptive_penalties_save_rounds():
    plain = solve(Admm(relaxation=1.0, adaptive=False, penalty=0.05))
    assert solve(Admm(penalty=0.05)).rounds < plain.rounds
