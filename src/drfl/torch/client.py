r"""A network's loss at one client: its value, its gradient, and what lies between its bounds.

.. math:: F_s(x) = \sup_D\ \sum_ip_iL(x;a_i+d_i,y_i)

The supremum is replaced by the displacements that the adversary finds; the gradient is that of the
losses there, the rows staying where they were moved (Danskin).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drfl.arrays import Array
from drfl.ball import Ball
from drfl.differentiable import ClientLoss
from drfl.rows import Rows
from drfl.torch.adversary import Adversary, Block, Each, Nobody, Penalty, Together
from drfl.torch.bounds import lipschitz, worst_losses
from drfl.torch.model import ModuleLoss

BLOCK = 8192  # rows that are moved at a time


class Interval(NamedTuple):
    """What is known of a worst-case loss: what was found, and what it cannot exceed."""

    lower: float
    upper: float


class NetworkLoss(ClientLoss):
    """The worst-case loss of a network on a client's rows.

    Parameters
    ----------
    rows : Rows
        The client's.
    model : ModuleLoss
        The network.
    ball : Ball
        How far rows may be moved; its order is 2 or infinity unless its radius is 0.
    name : str
        Of the client; it fixes the draws.
    adversary : Adversary, optional
        Instead of the one of the ball.
    """

    def __init__(
        self,
        rows: Rows,
        model: ModuleLoss,
        ball: Ball,
        name: str = "",
        adversary: Adversary | None = None,
    ) -> None:
        super().__init__(name, rows.n_rows)
        self.rows = rows
        self.model, self.ball = model, ball
        self.adversary = adversary_of(ball) if adversary is None else adversary
        self._X = torch.as_tensor(np.ascontiguousarray(rows.take(slice(None))), dtype=model.dtype)
        self._y = torch.as_tensor(rows.y, dtype=model.dtype)
        mass = np.broadcast_to(rows.mass(), (rows.n_rows,)).copy()
        self._mass = torch.as_tensor(mass, dtype=model.dtype)
        _require_targets(model, self._X, self._y)

    def value(self, x: Array) -> float:
        return self._total(x, self._blocks(), gradient=False)[0]

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        return self._total(x, self._blocks(), gradient=True)

    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        X, y, mass = (part[torch.as_tensor(chosen)] for part in (self._X, self._y, self._mass))
        mass = mass * (self.rows.n_rows / len(chosen))
        return self._total(x, [(X, y, mass)], gradient=True)[1]

    def penalised(self, gamma: float) -> NetworkLoss:
        return NetworkLoss(self.rows, self.model, self.ball, self.name, Penalty(gamma))

    def bounds(self, x: Array) -> Interval:
        """The loss that was found, and what the layers of the module prove."""
        K, rho = lipschitz(self.model.module_at(x)), self.ball.radius
        flat = torch.as_tensor(x, dtype=self.model.dtype)
        squares = total = 0.0
        with torch.no_grad():
            for X, y, mass in self._blocks():
                output = self.model.output(flat, X)
                move = K * rho if self.ball.order == math.inf and rho > 0.0 else 0.0
                total += float(mass @ worst_losses(self.model.loss, output, y, move))
                squares += float(mass @ self.model.row_losses(flat, X, y))
        upper = total
        if self.ball.order != math.inf and rho > 0.0:
            lip = self.model.output_lipschitz
            upper = (squares**0.5 + K * rho) ** 2 if lip == math.inf else total + lip * K * rho
        return Interval(self.value(x), upper)

    def _blocks(self) -> list[Block]:
        starts = range(0, len(self._y), BLOCK)
        return [
            (self._X[k : k + BLOCK], self._y[k : k + BLOCK], self._mass[k : k + BLOCK])
            for k in starts
        ]

    def _total(self, x: Array, blocks: Sequence[Block], *, gradient: bool) -> tuple[float, Array]:
        flat = torch.tensor(x, dtype=self.model.dtype, requires_grad=gradient)
        fixed = flat.detach()

        def input_gradient(rows: Tensor, y: Tensor) -> Tensor:
            at = rows.detach().requires_grad_()
            (found,) = torch.autograd.grad(self.model.row_losses(fixed, at, y).sum(), at)
            return found

        value, slope = 0.0, torch.zeros_like(fixed)
        moved = self.adversary.moved(blocks, input_gradient)
        for at, (rows, y, mass) in zip(moved, blocks, strict=True):
            where = at().detach()
            with torch.set_grad_enabled(gradient):
                losses = self.model.row_losses(flat, where, y)
                total = mass @ (losses - self.adversary.price(where - rows))
            value += float(total.detach())
            if gradient:
                slope += torch.autograd.grad(total, flat)[0]
        return value, np.asarray(slope.numpy(), dtype=np.float64)


def adversary_of(ball: Ball) -> Adversary:
    """Who moves rows in a ball."""
    if ball.radius == 0.0:
        return Nobody()
    if ball.order == 2.0:
        return Together(ball.radius)
    return Each(ball.radius, ball.norm.name)


def _require_targets(model: ModuleLoss, X: Tensor, y: Tensor) -> None:
    """Refuse targets that the loss does not take, and rows that the module does not."""
    try:
        with torch.no_grad():
            output = model.output(torch.zeros(model.dimension, dtype=model.dtype), X[:1])
    except RuntimeError:
        raise ValueError(
            f"the module does not take rows of {X.shape[1]} columns: change its first layer"
        ) from None
    K = output.shape[-1] if output.dim() > 1 else 1
    if output.shape[0] != 1 or output.dim() > 2:
        raise ValueError("the module must return one row of outputs for every row")
    if model.loss == "cross_entropy":
        if not bool(((y >= 0) & (y < K) & (y == y.round())).all()):
            raise ValueError(f"cross_entropy needs classes 0 to {K - 1}, as the module has outputs")
    elif K != 1:
        raise ValueError(f"{model.loss} takes a module with one output, got {K}")
    if model.loss == "logistic" and not bool((y.abs() == 1.0).all()):
        raise ValueError("logistic needs the labels -1 and +1: code the two classes so")
