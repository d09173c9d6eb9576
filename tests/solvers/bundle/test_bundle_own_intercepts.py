"""The bundle method where every client has an intercept of its own."""

import math
from typing import ClassVar

import numpy as np
import pytest

import drfl
from drfl.losses import LOSSES, make_loss
from drfl.privacy import Guard
from drfl.solvers.bundle import Bundle
from drfl.supports import Box
from kit.cases import Case

SETTINGS = {"huber": {"epsilon": 0.3}, "epsilon_insensitive": {"epsilon": 0.3}}


def drawn(name, seed, N=25, S=3, **changes):
    """Clients whose intercepts differ."""
    rng, loss = np.random.default_rng(seed), make_loss(name, **SETTINGS.get(name, {}))
    data = []
    for s in range(S):
        X = rng.normal(size=(N, 3)).clip(-3.0, 3.0)
        z = X @ [1.0, -0.5, 0.3] + 2.0 * (s - 1)
        y = z + 0.5 * rng.normal(size=N)
        if loss.task == "classification":
            y = np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
        data.append((X, y))
    cost = (math.inf, 1.0)[seed % 2]
    ball = drfl.Ball((0.1, 0.0, 0.02)[seed % 3], ("l1", "l2", "linf")[seed % 3], cost)
    mixture = drfl.Mixture(
        radius=(0.0, 0.3, math.inf)[(seed // 2) % 3], p=(1, 2, math.inf)[seed % 3]
    )
    given = {"balls": (ball,) * S, "mixture": mixture, "intercept": "per_client"} | changes
    return Case(loss, tuple(data), **given)


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(2)
def test_against_the_reference(name, seed):
    case = drawn(name, seed)
    result = case.solve()
    reference = case.reference()
    scale = max(reference.objective, 1e-3)
    assert result.status.kind in ("certified", "local")
    assert abs(result.objective - reference.objective) <= 1e-5 * scale
    assert result.lower_bound <= reference.objective + 1e-5 * scale
    # The intercepts that the clients tell have the values that they told.
    for client, oracle in zip(case.names, case.oracles, strict=True):
        found = oracle.evaluate(result.coef, result.intercepts[client]).value
        assert found == pytest.approx(result.client_losses[client], rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("cost", [1e4, math.inf])
def test_far_rows_of_one_class_do_not_shorten_the_steps(cost):
    """They lose nothing, and so bend nothing; what they have to say is that."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=30) > 0.0, 1.0, -1.0)
    far = 100.0 * rng.normal(size=(22, 2)), np.ones(22)
    balls = (drfl.Ball(0.1, "l1", cost),) * 2
    case = Case(make_loss("hinge"), ((X, y), far), balls, drfl.Mixture(), intercept="per_client")
    result = case.solve(max_rounds=20)
    assert result.status.kind == "certified"
    assert result.objective == pytest.approx(case.reference().objective, rel=1e-5)


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive"])
def test_on_a_box(name):
    case = drawn(name, 0, N=12, balls=(drfl.Ball(0.2, "l1", math.inf, Box(-3.0, 3.0)),) * 3)
    result, reference = case.solve(), case.reference()
    assert result.status.kind == "certified"
    assert result.objective == pytest.approx(reference.objective, rel=1e-5)


def test_one_dimension_less_travels_and_no_intercept():
    case = drawn("logistic", 0)
    sent = []
    inner = Bundle.handlers

    def watched(kind):
        def handler(site, message):
            sent.append((kind, {key: a.shape for key, a in message.arrays.items()}))
            reply = inner[kind](site, message)
            sent.append((f"{kind}/reply", {key: np.asarray(a).shape for key, a in reply.items()}))
            return reply

        return handler

    class Watched(Bundle):
        handlers: ClassVar = {kind: watched(kind) for kind in inner}

    case.solve(solver=Watched())
    rounds = [shapes for kind, shapes in sent if kind == "bundle"]
    assert rounds
    asked = [shapes["x"][1] for shapes in rounds if "x" in shapes]
    assert asked
    assert set(asked) == {case.n}
    told = [kind for kind, shapes in sent if "b" in shapes]
    assert told == ["own_intercept/reply"] * 3  # once each, at the end


@pytest.mark.parametrize("name", ["hinge", "smooth_hinge", "logistic"])
@pytest.mark.parametrize(("radius", "cost"), [(0.1, math.inf), (0.1, 1.0), (0.0, math.inf)])
@pytest.mark.sampled(2)
def test_clients_of_one_class(name, radius, cost):
    X = np.arange(4.0)[:, None]
    data = ((X, np.ones(4)), (X, np.array([1.0, -1.0, 1.0, -1.0])), (X + 1.0, -np.ones(4)))
    ball = drfl.Ball(radius, "l1", cost)
    case = Case(make_loss(name), data, (ball,) * 3, intercept="per_client")
    result = case.solve()
    assert result.objective == pytest.approx(case.reference().objective, abs=1e-6)
    assert result.status.kind in ("certified", "local")


@pytest.mark.parametrize("name", ["hinge", "smooth_hinge", "logistic"])
@pytest.mark.parametrize("support", [None, Box(-5.0, 5.0)])
def test_clients_who_all_have_one_class_lose_nothing(name, support):
    X = np.arange(4.0)[:, None]
    ball = drfl.Ball(0.1, "l1", math.inf, support)
    data = ((X, np.ones(4)), (X, -np.ones(4)))
    result = Case(make_loss(name), data, (ball,) * 2, intercept="per_client").solve()
    assert result.status.kind == "certified"
    assert result.objective == pytest.approx(0.0, abs=1e-9)


def test_one_client_is_the_shared_intercept():
    case = drawn("logistic", 0, S=1)
    shared = drawn("logistic", 0, S=1, intercept="shared")
    one, other = case.solve(tol=1e-9), shared.solve(tol=1e-9)
    assert one.objective == pytest.approx(other.objective, rel=1e-8)
    assert one.intercepts["c0"] == pytest.approx(other.intercept, abs=1e-3)


def test_processes_and_a_checkpoint_give_the_same(tmp_path):
    case = drawn("hinge", 3)
    here = case.solve()
    assert case.solve(engine="processes").coef.tolist() == here.coef.tolist()
    path = tmp_path / "run"
    case.solve(checkpoint=path, callbacks=[lambda record: record.round == 3])
    resumed = case.solve(checkpoint=path)
    assert resumed.coef.tolist() == here.coef.tolist()
    assert resumed.intercepts == here.intercepts


@pytest.mark.parametrize("solver", ["local", "admm", "ad_lpmm", "private"])
def test_other_solvers_refuse_it(solver):
    with pytest.raises(ValueError, match="no intercept per client: take solver='bundle'"):
        drawn("logistic", 0).solve(solver=solver)


@pytest.mark.parametrize(
    ("name", "cost"), [("hinge", math.inf), ("logistic", 1.0), ("huber", math.inf)]
)
@pytest.mark.sampled(3)
def test_under_a_guard_bounds_hold_and_the_intercept_stays(name, cost):
    case = drawn(name, 1, N=300, balls=(drfl.Ball(0.05, "l1", cost),) * 3)
    guard = Guard(5, secret=b"0" * 16)
    clients = [drfl.Client(c, *d, guard=guard) for c, d in zip(case.names, case.data, strict=True)]
    guarded = drfl.solve(case.problem, clients, tol=1e-2, max_rounds=15)
    exact = case.solve(tol=1e-8)
    assert guarded.lower_bound <= exact.objective * (1.0 + 1e-7)
    assert guarded.objective >= exact.lower_bound * (1.0 - 1e-7)
    assert guarded.gap < 0.3
    assert all(math.isnan(b) for b in guarded.intercepts.values())
    assert {sent.message for sent in guarded.sent} <= {"bundle/reply", "bundle_close/reply"}
