"""The worst-case loss of a network: against closed forms, differences, and brute force."""

import math
import weakref

import numpy as np
import pytest
import torch
from networks_kit import clients, line, mlp, rows
from scipy import optimize
from torch import nn

import drfl
from drfl.norms import NORMS, LInf, Norm
from drfl.rows import Rows
from drfl.torch import Model, NetworkLoss, lipschitz
from drfl.torch import client as network_client
from drfl.torch.adversary import Adversary, Each, Nobody, PricedMoves, Together
from drfl.torch.bounds import box

RHO = 0.3


def loss_of(model, X, y, ball=None, **kwargs):
    return NetworkLoss(Rows(X, y), model, ball or drfl.Ball(), "c", **kwargs)


def signed(seed, N=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, np.where(X[:, 0] + rng.normal(size=N) > 0.0, 1.0, -1.0), rng.normal(size=5)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_one_layer_and_order_infinity_is_the_closed_form(norm):
    X, y, x = signed(0)
    loss = loss_of(Model("line", "logistic"), X, y, drfl.Ball(RHO, norm, order=math.inf))
    margins = y * (X @ x[:4] + x[4])
    exact = np.logaddexp(0.0, -(margins - RHO * NORMS[norm].dual(x[:4]))).mean()
    assert loss.value(x) == pytest.approx(exact, rel=1e-12)
    lower, upper = loss.bounds(x)
    assert lower == pytest.approx(exact, rel=1e-12)
    assert lower <= upper
    if norm != "l1":  # which is bounded by way of l2
        assert upper == pytest.approx(exact, rel=1e-8)


class OwnNorm(Norm):
    name = "own"
    __call__, dual = LInf.__call__, LInf.dual
    steepest, project_ball = LInf.steepest, LInf.project_ball


@pytest.mark.parametrize("order", [2, math.inf])
def test_a_norm_that_networks_do_not_know_is_refused(order):
    with pytest.raises(ValueError, match=r"norm='l2', not 'own'|norms l1, l2 and linf, not 'own'"):
        drfl.Problem(Model("line", "logistic"), drfl.Ball(RHO, OwnNorm(), order=order))


def exact_order_2(margins, slope, rho):
    """The best split of a squared budget over rows that move along w, by another solver."""
    N = len(margins)

    def objective(e):
        values = np.logaddexp(0.0, -(margins - slope * e))
        return -values.mean(), -slope / (1.0 + np.exp(margins - slope * e)) / N

    budget = {
        "type": "ineq",
        "fun": lambda e: rho**2 - (e**2).mean(),
        "jac": lambda e: -2.0 * e / N,
    }
    start = np.full(N, 0.9 * rho)
    found = optimize.minimize(
        objective, start, jac=True, constraints=[budget], method="SLSQP", options={"ftol": 1e-12}
    )
    assert found.success
    return -found.fun


def test_orders_are_ordered_and_two_steps_nearly_reach_the_supremum():
    for seed in range(5):
        X, y, x = signed(seed)
        model = Model("line", "logistic")
        w, margins = x[:4], y * (X @ x[:4] + x[4])
        order_2 = loss_of(model, X, y, drfl.Ball(RHO, "l2", order=2)).value(x)
        each = loss_of(model, X, y, drfl.Ball(RHO, "l2", order=math.inf)).value(x)
        nobody = loss_of(model, X, y).value(x)
        best = exact_order_2(margins, np.linalg.norm(w), RHO)
        order_1 = nobody + RHO * np.linalg.norm(w)
        assert nobody < each <= best * (1.0 + 1e-9)
        assert each <= order_2  # what two steps find is more than the whole of order infinity
        assert nobody + 0.89 * (best - nobody) <= order_2 <= best * (1.0 + 1e-9)
        assert best <= order_1


@pytest.mark.parametrize("blocks", [1, 4])
def test_displacements_keep_to_their_budget_in_one_block_or_many(blocks, monkeypatch):
    rng = np.random.default_rng(1)
    X, y = rows(rng)
    monkeypatch.setattr(network_client, "BLOCK", len(y) // blocks)
    loss = loss_of(Model("mlp"), X, y, drfl.Ball(RHO, "l2", order=2))
    x = rng.normal(size=loss.model.dimension)
    parts = loss._blocks()
    assert len(parts) == blocks
    loss.set(x)
    moved = Together(RHO).moved(parts, loss.input_gradient)
    square = sum(
        float(m @ ((at() - rows_) ** 2).sum(dim=1))
        for at, (rows_, _, m) in zip(moved, parts, strict=True)
    )
    assert square == pytest.approx(RHO**2, rel=1e-12)
    for rows_, at in zip(parts, Each(RHO).moved(parts, loss.input_gradient), strict=True):
        assert float((at() - rows_[0]).norm(dim=1).max()) <= RHO * (1.0 + 1e-12)


def test_blocks_change_nothing_but_rounding(monkeypatch):
    rng = np.random.default_rng(2)
    X, y = rows(rng)
    for ball in (drfl.Ball(), drfl.Ball(RHO, "l2", order=2), drfl.Ball(RHO, "l2", order=math.inf)):
        monkeypatch.setattr(network_client, "BLOCK", 1000)
        loss = loss_of(Model("mlp"), X, y, ball)
        x = rng.normal(size=loss.model.dimension)
        value, slope = loss.value_and_gradient(x)
        monkeypatch.setattr(network_client, "BLOCK", 7)
        again = loss.value_and_gradient(x)
        assert again[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(again[1], slope, rtol=1e-9, atol=1e-12)


def test_the_gradient_is_that_of_the_value():
    rng = np.random.default_rng(3)
    X, y = rows(rng)
    for model, ball in (
        (Model("mlp"), drfl.Ball()),
        (Model("line", "logistic"), drfl.Ball(RHO, "l2", order=math.inf)),
    ):
        targets = np.where(y > 0.0, 1.0, -1.0) if model.loss == "logistic" else y
        loss = loss_of(model, X, targets, ball)
        x, step = rng.normal(size=model.dimension), 1e-6
        _, slope = loss.value_and_gradient(x)
        for j in range(model.dimension):
            e = step * np.eye(model.dimension)[j]
            assert (loss.value(x + e) - loss.value(x - e)) / (2 * step) == pytest.approx(
                slope[j], abs=1e-7
            )


def test_all_batches_together_are_the_whole():
    rng = np.random.default_rng(4)
    X, y = rows(rng)
    loss = loss_of(Model("mlp"), X, y)
    x = rng.normal(size=loss.model.dimension)
    parts = [loss.batch_gradient(x, np.arange(k, k + 10)) for k in range(0, 40, 10)]
    np.testing.assert_allclose(np.mean(parts, axis=0), loss.gradient(x), rtol=1e-10, atol=1e-14)


def test_the_penalty_is_paid():
    X, y, x = signed(5)
    loss = loss_of(Model("line", "logistic"), X, y).penalised(50.0)
    problem = drfl.Problem("logistic", drfl.Ball())
    from drfl.client import Client, Site
    from drfl.native.methods.wafl import PenalisedLoss

    exact = PenalisedLoss(Site(Client("c", X, y), problem), 50.0)
    assert loss.value(x) == pytest.approx(exact.value(x), rel=1e-5)
    assert loss.value(x) <= exact.value(x) * (1.0 + 1e-12)


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(6, 3),
        nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4), nn.Sigmoid()),
        nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 2), nn.ELU()),
        nn.Sequential(
            nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 3, padding=1), nn.Flatten(), nn.Linear(18, 2)
        ),
        nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 4, 2, groups=2), nn.Flatten()),
    ],
)
def test_a_lipschitz_constant_is_never_exceeded(module):
    torch.manual_seed(0)
    K = lipschitz(module)
    assert math.isfinite(K)
    with torch.no_grad():
        a = 3.0 * torch.randn(2000, 6)
        d = torch.randn(2000, 6) * 10.0 ** torch.randint(-3, 1, (2000, 1))
        ratio = (module(a + d) - module(a)).norm(dim=1) / d.norm(dim=1)
    assert float(ratio.max()) <= K * (1.0 + 1e-3)
    assert float(ratio.max()) > 0.02 * K  # and it is not a giant


class Doubled(nn.Sequential):
    def forward(self, rows):
        return 2.0 * super().forward(rows)


def test_what_is_not_known_has_no_constant():
    for module in (
        nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)),
        Doubled(nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1)),
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        nn.Sequential(nn.Unflatten(1, (1, 2)), nn.Conv1d(1, 1, 1, padding_mode="circular")),
    ):
        assert lipschitz(module) == math.inf
        assert box(module, torch.zeros(1, 2), torch.ones(1, 2)) is None
    hooked = nn.Linear(2, 2)
    hooked.register_forward_hook(lambda module, inputs, output: 10.0 * output)
    assert lipschitz(hooked) == math.inf
    assert box(hooked, torch.zeros(1, 2), torch.ones(1, 2)) is None
    assert lipschitz(mlp()) < math.inf
    assert lipschitz(line()) < math.inf


@pytest.mark.parametrize("loss", ["cross_entropy", "logistic", "huber", "squared"])
@pytest.mark.parametrize("order", [2, math.inf])
def test_what_is_found_is_below_what_is_proved(loss, order):
    kind = {"cross_entropy": "classes", "logistic": "signs"}.get(loss, "numbers")
    model = Model("mlp" if loss == "cross_entropy" else "line", loss)
    for client in clients(labels=kind):
        for radius in (0.0, 0.1, 2.0):
            found = model.at(client.rows, drfl.Ball(radius, "l2", order=order), "c")
            for seed in range(3):
                x = np.random.default_rng(seed).normal(size=model.dimension)
                lower, upper = found.bounds(x)
                assert lower <= upper * (1.0 + 1e-12)
                if radius == 0.0:
                    assert lower == pytest.approx(upper, rel=1e-12)


CONVOLUTION = nn.Sequential(
    nn.Unflatten(1, (1, 6)),
    nn.Conv1d(1, 3, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(18, 2),
)


@pytest.mark.parametrize("module", [mlp(), CONVOLUTION.double()])
def test_outputs_stay_in_their_box(module):
    torch.manual_seed(0)
    n = 4 if isinstance(module[0], nn.Linear) else 6
    with torch.no_grad():
        a = torch.randn(50, n).double()
        middle, half = box(module, a, torch.full_like(a, RHO))
        for _ in range(20):
            d = RHO * (2.0 * torch.rand(50, n).double() - 1.0)
            assert ((module(a + d) - middle).abs() <= half * (1.0 + 1e-12)).all()
            assert ((module(a + RHO * d.sign()) - middle).abs() <= half * (1.0 + 1e-12)).all()


ORDS = {"l1": 1, "l2": 2, "linf": np.inf}


@pytest.mark.parametrize("norm", list(ORDS))
def test_no_attack_exceeds_what_is_proved(norm):
    """The largest of many attacks, far more than the two steps of the training."""
    rng = np.random.default_rng(7)
    X, y = rows(rng, 12)
    ball = drfl.Ball(RHO, norm, order=math.inf)
    x = rng.normal(size=Model("mlp").dimension)
    loss = loss_of(Model("mlp"), X, y, ball, adversary=Each(RHO, norm, steps=30))
    lower, upper = loss_of(Model("mlp"), X, y, ball).bounds(x)
    assert lower <= upper < math.inf
    assert loss.value(x) <= upper
    loss.set(x)
    most = loss.losses(loss._X, loss._y).detach().clone()
    for _ in range(300):
        d = rng.normal(size=X.shape) if norm != "linf" else rng.choice([-1.0, 1.0], X.shape)
        d = RHO * d / np.linalg.norm(d, ord=ORDS[norm], axis=1, keepdims=True)
        with torch.no_grad():
            most = torch.maximum(most, loss.losses(torch.as_tensor(X + d), loss._y))
    assert float(most.mean()) <= upper


def test_the_multiplier_is_the_slope_in_the_squared_radius():
    """d F / d rho = 2 rho times it, up to what two steps miss."""
    X, y, x = signed(3)
    loss = loss_of(Model("line", "logistic"), X, y, drfl.Ball(RHO, "l2", order=2))
    loss.set(x)
    found = Together(RHO, steps=40).multiplier(loss._blocks(), loss.input_gradient)

    def value(radius):
        return loss_of(Model("line", "logistic"), X, y, adversary=Together(radius, steps=40)).value(
            x
        )

    slope = (value(RHO + 1e-4) - value(RHO - 1e-4)) / 2e-4
    assert slope == pytest.approx(2.0 * RHO * found, rel=1e-4)


class Counted(Adversary):
    """Counts the blocks of moved rows that live at the same time."""

    def __init__(self, inner):
        self.inner, self.alive, self.most = inner, 0, 0

    def moved(self, blocks, gradient):
        return [lambda at=at: self._count(at()) for at in self.inner.moved(blocks, gradient)]

    def price(self, displacement):
        return self.inner.price(displacement)

    def _count(self, where):
        where = where.clone()
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(where.untyped_storage(), self._gone)
        return where

    def _gone(self):
        self.alive -= 1


@pytest.mark.parametrize("inner", [Nobody(), Together(RHO), Each(RHO), PricedMoves(3.0)])
def test_one_block_of_moved_rows_is_in_memory_at_a_time(inner, monkeypatch):
    rng = np.random.default_rng(8)
    X, y = rows(rng)
    monkeypatch.setattr(network_client, "BLOCK", 5)
    counted = Counted(inner)
    loss = loss_of(Model("mlp"), X, y, adversary=counted)
    loss.value_and_gradient(rng.normal(size=loss.model.dimension))
    assert counted.most <= 2  # the next is made before the name of the last is taken
