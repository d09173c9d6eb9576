"""Each method approaches the optimum of its own problem, as the exact solver gives it."""

import numpy as np
import pytest
from native_kit import KINKED, SIMPLEX, SMOOTH, Plain, exact, model_of, run
from scipy.optimize import minimize

import drfl
from drfl.native import AFL, DRFA, QFFL, WAFL, FedADMM, FedAvg, FedProx, Scaffold, ScaffPD
from drfl.native.penalised import penalised

FAST = ("smooth_hinge", "huber", "hinge")
ALL = [
    pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in SMOOTH + KINKED
]
EXACT = [FedAvg(local_steps=1), FedProx(local_steps=1), Scaffold(), FedADMM()]


def gap(method, loss, max_rounds, mixture=None):
    mixture = mixture or (SIMPLEX if method.robust else drfl.Mixture())
    result, best = run(method, loss, mixture, max_rounds), exact(loss, mixture)
    assert result.lower_bound == 0.0
    assert result.gap == pytest.approx(1.0)
    # What is reported is the objective of the model that is returned.
    losses = Plain(loss).values(model_of(result))
    assert list(result.client_losses.values()) == pytest.approx(losses, rel=1e-12)
    center = drfl.Mixture(np.full(4, 0.25), mixture.radius, mixture.p)
    assert result.objective == pytest.approx(center.support(losses), rel=1e-12)
    assert result.objective >= best * (1.0 - 1e-8)
    return result.objective / best - 1.0


@pytest.mark.parametrize("method", EXACT, ids=lambda m: m.name)
@pytest.mark.parametrize("loss", SMOOTH)
def test_smooth_losses_to_six_digits(method, loss):
    assert gap(method, loss, 150) <= 1e-6


@pytest.mark.parametrize("method", EXACT, ids=lambda m: m.name)
@pytest.mark.parametrize("loss", ["hinge", "pinball"])
def test_losses_with_kinks_to_two_percent(method, loss):
    assert gap(method, loss, 150) <= 2e-2


def test_several_local_steps_have_a_bias_that_scaffold_and_fedadmm_lack():
    many = gap(FedAvg(local_steps=10), "smooth_hinge", 150)
    later = gap(FedAvg(local_steps=10), "smooth_hinge", 200)
    assert many > 1e-4
    assert later == pytest.approx(many, rel=1e-3)  # more rounds do not help
    assert 1e-6 < gap(FedProx(local_steps=10, mu=1.0), "smooth_hinge", 150) < many
    assert gap(Scaffold(local_steps=10), "smooth_hinge", 150) <= 1e-6
    assert gap(FedADMM(local_steps=10), "smooth_hinge", 150) <= 1e-6


def test_shorter_local_steps_have_less_of_it():
    long = gap(FedAvg(local_steps=10, step_size=0.1), "huber", 200)
    short = gap(FedAvg(local_steps=10, step_size=0.02), "huber", 200)
    assert 0.0 < 4.0 * short < long


@pytest.mark.parametrize("loss", ALL)
def test_afl_by_its_average(loss):
    assert gap(AFL(), loss, 200) <= (1e-2 if loss in SMOOTH else 5e-2)


@pytest.mark.parametrize("loss", ALL)
def test_drfa_by_its_average(loss):
    assert gap(DRFA(), loss, 250) <= 5e-2


@pytest.mark.parametrize("loss", ALL)
def test_scaff_pd_by_its_average(loss):
    assert gap(ScaffPD(averaged=True), loss, 300) <= (2e-2 if loss in SMOOTH else 5e-2)


@pytest.mark.parametrize("loss", SMOOTH)
def test_scaff_pd_by_its_last_model(loss):
    assert gap(ScaffPD(), loss, 300) <= 1e-5


@pytest.mark.parametrize("mixture", [drfl.Mixture(radius=0.3), drfl.Mixture(radius=0.2, p=2)])
def test_weights_may_be_bounded(mixture):
    assert gap(AFL(), "logistic", 200, mixture) <= 1e-2
    assert gap(ScaffPD(), "logistic", 300, mixture) <= 1e-5


@pytest.mark.parametrize("method", [Scaffold(), FedADMM(), FedAvg(local_steps=1)])
@pytest.mark.parametrize("center", ["proportional", (0.1, 0.2, 0.3, 0.4)])
def test_clients_may_have_other_weights(method, center):
    mixture = drfl.Mixture(center)
    result = run(method, "logistic", mixture, 120)
    assert result.objective == pytest.approx(exact("logistic", mixture), rel=1e-6)


@pytest.mark.parametrize("method", [Scaffold, FedADMM])
def test_some_clients_per_round_are_enough(method):
    result = run(method(participation=0.5), "smooth_hinge", None, 250)
    assert result.objective == pytest.approx(exact("smooth_hinge"), rel=1e-4)


@pytest.mark.parametrize("method", [FedAvg(local_steps=1), Scaffold(), FedADMM(), AFL(), DRFA()])
def test_batches_come_near(method):
    method = type(method)(**{**vars(method), "batch_size": 8, "seed": 3})
    mixture = SIMPLEX if method.robust else drfl.Mixture()
    result = run(method, "logistic", mixture, 200)
    assert result.objective == pytest.approx(exact("logistic", mixture), rel=6e-2)
    assert result.objective > exact("logistic", mixture)


# ---------------------------------------------------------------------------- other objectives
@pytest.mark.parametrize("q", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_qffl_minimises_powers_of_the_losses(q, loss):
    plain = Plain(loss)

    def objective(x):
        losses = plain.values(x)
        gradients = [plain.gradient(s, x) for s in range(plain.S)]
        return (losses ** (q + 1)).mean() / (q + 1), losses**q @ gradients / plain.S

    best = minimize(objective, np.zeros(plain.d), jac=True, method="BFGS", options={"gtol": 1e-9})
    result = run(QFFL(q=q, local_steps=1), loss, None, 250)
    assert result.objective == pytest.approx(objective(model_of(result))[0], rel=1e-12)
    assert result.objective == pytest.approx(best.fun, rel=1e-6)


def test_qffl_with_q_0_is_fedavg():
    one, other = run(QFFL(q=0.0), "logistic"), run(FedAvg(), "logistic")
    assert model_of(one) == pytest.approx(model_of(other), rel=1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("gamma", [3.0, 20.0])
def test_wafl_minimises_the_penalised_losses(loss, gamma):
    plain = Plain(loss)

    def objective(x):
        a = float(x[:-1] @ x[:-1]) / gamma
        return np.mean([penalised(plain.loss, plain.z(s, x), a)[0].mean() for s in range(plain.S)])

    best = minimize(objective, np.zeros(plain.d), method="BFGS", options={"gtol": 1e-7})
    result = run(WAFL(gamma=gamma, local_steps=1), loss, None, 250)
    assert result.objective == pytest.approx(objective(model_of(result)), rel=1e-12)
    assert result.objective == pytest.approx(best.fun, rel=1e-6)


def test_wafl_with_the_hinge_against_a_conic_solver():
    cp = pytest.importorskip("cvxpy")
    plain, gamma = Plain("hinge"), 5.0
    x = cp.Variable(plain.d)
    terms = [
        cp.sum(cp.pos(1.0 - cp.multiply(y, A @ x) + cp.sum_squares(x[:-1]) / (2.0 * gamma)))
        / len(y)
        for A, y in zip(plain.A, plain.y, strict=True)
    ]
    best = cp.Problem(cp.Minimize(sum(terms) / plain.S)).solve(solver=cp.CLARABEL)
    result = run(WAFL(gamma=gamma, local_steps=1), "hinge", None, 300)
    assert best * (1.0 - 1e-7) <= result.objective <= best * 1.01


def test_wafl_without_a_price_of_moving_is_fedavg():
    one, other = run(WAFL(gamma=1e12, step_size=0.1)), run(FedAvg(step_size=0.1))
    assert model_of(one) == pytest.approx(model_of(other), rel=1e-6)
