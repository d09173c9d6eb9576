r"""A network's loss at one client: its value, its gradient, and what lies between its bounds.

.. math:: F_s(x) = \sup_D\ \sum_ip_iL(x;a_i+d_i,y_i)

The supremum is replaced by the displacements that the adversary finds; the gradient is that of the
losses there, the rows staying where they were moved (Danskin).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from drfl.arrays import Array
from drfl.differentiable import ClientLoss, Displaced
from drfl.rows import Rows
from drfl.torch.adversary import Adversary, Block, Each, Nobody, PricedMoves, Together
from drfl.torch.bounds import upper_bound
from drfl.torch.model import ModuleLoss
from drfl.uncertainty import Ball

BLOCK = 8192  # rows that are moved at a time
DUAL = {"l2": 2.0, "l1": float("inf"), "linf": 1.0}  # the norm of gradients, by that of rows


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
    dtype : torch.dtype, optional
        In which it is computed; by default that of the model's parameters.
    """

    def __init__(
        self,
        rows: Rows,
        model: ModuleLoss,
        ball: Ball,
        name: str = "",
        adversary: Adversary | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(name, rows.n_rows)
        self.rows = rows
        self.model, self.ball = model, ball
        self.adversary = adversary_of(ball) if adversary is None else adversary
        dtype = model.dtype if dtype is None else dtype
        # The parameters are views of one vector, which is written to: nothing is built per step.
        self.module = model.build().to(dtype)
        self._flat = torch.zeros(model.dimension, dtype=dtype)
        vector_to_parameters(self._flat, self.module.parameters())
        self._parameters = list(self.module.parameters())
        self._X = torch.as_tensor(np.ascontiguousarray(rows.take(slice(None))), dtype=dtype)
        classes = model.loss == "cross_entropy"
        self._y = torch.as_tensor(rows.y, dtype=torch.long if classes else dtype)
        mass = np.broadcast_to(rows.mass(), (rows.n_rows,)).copy()
        self._mass = torch.as_tensor(mass, dtype=dtype)
        self._require_fit()

    def value(self, x: Array) -> float:
        return self._total(x, self._blocks(), gradient=False)[0]

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        return self._total(x, self._blocks(), gradient=True)

    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        X, y, mass = (part[torch.as_tensor(chosen)] for part in (self._X, self._y, self._mass))
        mass = mass * (self.rows.n_rows / len(chosen))
        return self._total(x, [(X, y, mass)], gradient=True)[1]

    def penalised(self, gamma: float) -> NetworkLoss:
        priced = copy.copy(self)
        priced.adversary = PricedMoves(gamma)
        return priced

    def bounds(self, x: Array) -> Interval:
        """The loss that was found, and what the layers of the module prove; in double precision."""
        exact = NetworkLoss(
            self.rows, self.model, self.ball, self.name, self.adversary, torch.float64
        )
        found = exact.value(x)
        if self.ball.radius == 0.0:
            return Interval(found, found)
        upper = upper_bound(self.model, exact.module, self.ball, exact._blocks())
        return Interval(found, upper)

    def displaced(self, x: Array) -> Displaced:
        exact = NetworkLoss(
            self.rows, self.model, self.ball, self.name, self.adversary, torch.float64
        )
        found, bound = self.bounds(x)
        plain = NetworkLoss(self.rows, self.model, Ball(), self.name, Nobody(), torch.float64)
        exact.set(x)
        blocks = exact._blocks()
        moved = [at().detach() for at in exact.adversary.moved(blocks, exact.input_gradient)]
        parts = zip(moved, blocks, strict=True)
        slopes = torch.cat([exact.input_gradient(at, y) for at, (_, y, _) in parts])
        steep = torch.linalg.vector_norm(slopes, ord=DUAL[self.ball.norm.name], dim=1)
        mass = exact._mass
        price = (mass @ steep**2) ** 0.5 if self.ball.order == 2.0 else mass @ steep
        return Displaced(
            X=np.asarray(torch.cat(moved).numpy()),
            slopes=np.asarray(slopes.numpy()),
            loss=plain.value(x),
            found=found,
            bound=bound,
            price=float(price),
        )

    def losses(self, rows: Tensor, y: Tensor) -> Tensor:
        """The losses of rows (B, n) with targets (B,), under the parameters that were last set."""
        return self.model.losses(self.module(rows), y)

    def input_gradient(self, rows: Tensor, y: Tensor) -> Tensor:
        """The gradients of these losses in the rows (B, n)."""
        at = rows.detach().requires_grad_()
        (found,) = torch.autograd.grad(self.losses(at, y).sum(), at)
        return found

    def set(self, x: Array) -> None:
        """Give the module these parameters."""
        self._flat.numpy()[...] = x

    def _blocks(self) -> list[Block]:
        starts = range(0, len(self._y), BLOCK)
        return [
            (self._X[k : k + BLOCK], self._y[k : k + BLOCK], self._mass[k : k + BLOCK])
            for k in starts
        ]

    def _total(self, x: Array, blocks: Sequence[Block], *, gradient: bool) -> tuple[float, Array]:
        self.set(x)
        value, slope = 0.0, torch.zeros_like(self._flat)
        moved = self.adversary.moved(blocks, self.input_gradient)
        for at, (rows, y, mass) in zip(moved, blocks, strict=True):
            where = at().detach()
            with torch.set_grad_enabled(gradient):
                total = mass @ (self.losses(where, y) - self.adversary.price(where - rows))
            value += float(total.detach())
            if gradient:
                slope += self._gradient(total)
        return value, np.asarray(slope.numpy(), dtype=np.float64)

    def _gradient(self, total: Tensor) -> Tensor:
        parts = torch.autograd.grad(total, self._parameters, materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in parts])

    def _require_fit(self) -> None:
        """Refuse targets that the loss does not take, and rows that the module does not."""
        before = torch.get_rng_state()
        try:
            with torch.no_grad():
                output = self.module(self._X[:1])
        except (RuntimeError, ValueError):
            raise ValueError(
                f"the module does not take rows of {self._X.shape[1]} columns: change its first "
                "layer"
            ) from None
        if not torch.equal(before, torch.get_rng_state()):
            raise ValueError(
                "the module draws at random (dropout?), and a run has to repeat itself: leave it "
                "out (a radius regularises)"
            )
        loss, y = self.model.loss, torch.as_tensor(self.rows.y)
        K = output.shape[-1] if output.dim() > 1 else 1
        if output.shape[0] != 1 or output.dim() > 2:
            raise ValueError("the module must return one row of outputs for every row")
        if loss == "cross_entropy":
            if not bool(((y >= 0) & (y < K) & (y == y.round())).all()):
                raise ValueError(f"{loss} needs classes 0 to {K - 1}, as the module has outputs")
        elif K != 1:
            raise ValueError(f"{loss} takes a module with one output, got {K}")
        if loss == "logistic" and not bool((y.abs() == 1.0).all()):
            raise ValueError("logistic needs the labels -1 and +1: code the two classes so")


def adversary_of(ball: Ball) -> Adversary:
    """Who moves rows in a ball."""
    if ball.radius == 0.0:
        return Nobody()
    if ball.order == 2.0:
        return Together(ball.radius)
    return Each(ball.radius, ball.norm.name)
