r"""What can be proved of a network's worst case: an upper bound from its layers.

If the module is K-Lipschitz in the l2 norm, moving a row by d moves its output by at most
:math:`K\|d\|_2`. For order infinity every loss is then at most its largest value that near the
output, and for order 2 the mean is at most

.. math:: \text{mean } L + \mathrm{Lip}\,K\rho,\qquad
          \text{squared loss: } \bigl(\sqrt{\text{mean } r^2} + K\rho\bigr)^2 .

K is the product over the layers that are known. For order infinity intervals are carried through
the layers as well: every row is in the box of half-width :math:`\rho`, whatever the norm. The
smaller bound counts; a layer that is not known makes it infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from drfl.torch.adversary import Block
from drfl.torch.model import ModuleLoss
from drfl.uncertainty import Ball

SLACK = 1.0 + 1e-9  # more than what double precision rounds

# The largest slope of layers that work entry by entry; GELU's is 1.1290, at sqrt(2).
_SLOPES: dict[type[nn.Module], float] = {
    nn.Identity: 1.0,
    nn.Flatten: 1.0,
    nn.Unflatten: 1.0,
    nn.ReLU: 1.0,
    nn.ELU: 1.0,
    nn.Tanh: 1.0,
    nn.Softplus: 1.0,
    nn.Sigmoid: 0.25,
    nn.GELU: 1.13,
}


def lipschitz(module: nn.Module) -> float:
    """A Lipschitz constant of a module in the l2 norm; infinite where a layer is not known.

    Examples
    --------
    >>> layer = nn.Linear(2, 1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
    >>> round(lipschitz(nn.Sequential(layer, nn.ReLU())), 4)
    5.0
    """
    with torch.no_grad():
        return _lipschitz(module)


def _lipschitz(module: nn.Module) -> float:
    # By the class itself: what is derived from it may compute something else, and so may hooks.
    if module._forward_hooks or module._forward_pre_hooks:
        return math.inf
    if type(module) is nn.Sequential:
        return math.prod(_lipschitz(layer) for layer in module)
    if type(module) is nn.Linear:
        return float(torch.linalg.matrix_norm(module.weight.double(), 2)) * SLACK
    if _is_convolution(module):
        return _convolution(module)
    if type(module) is nn.ELU and module.alpha > 1.0:
        return float(module.alpha)
    return _SLOPES.get(type(module), math.inf)


def _is_convolution(module: nn.Module) -> TypeGuard[nn.Conv1d | nn.Conv2d]:
    return type(module) in (nn.Conv1d, nn.Conv2d) and module.padding_mode == "zeros"


def _convolution(layer: nn.Conv1d | nn.Conv2d) -> float:
    r"""By :math:`\|A\|_2\le\sqrt{\|A\|_1\|A\|_\infty}`: sums over a kernel's outputs and inputs."""
    kernel = layer.weight.double().abs()
    to_one = kernel.flatten(1).sum(dim=1).max()
    grouped = kernel.unflatten(0, (layer.groups, -1))
    from_one = grouped.sum(dim=1).flatten(2).sum(dim=2).max()
    return float((to_one * from_one).sqrt()) * SLACK


def box(module: nn.Module, middle: Tensor, half: Tensor) -> tuple[Tensor, Tensor] | None:
    """Middle and half-width of a box that holds the outputs of all rows in a box; None: not known.

    Examples
    --------
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -4.0]]))
    >>> middle, half = box(layer, torch.zeros(1, 2), torch.ones(1, 2))
    >>> middle.item(), half.item()
    (0.0, 7.0)
    """
    if module._forward_hooks or module._forward_pre_hooks:
        return None
    if type(module) is nn.Sequential:
        found: tuple[Tensor, Tensor] | None = (middle, half)
        for layer in module:
            found = None if found is None else box(layer, *found)
        return found
    if type(module) is nn.Linear:
        return module(middle), functional.linear(half, module.weight.abs())
    if _is_convolution(module):
        spread = module._conv_forward(half, module.weight.abs(), None)
        return module(middle), spread
    if type(module) in _RESHAPING:
        return module(middle), module(half)
    if type(module) in _INCREASING:
        low, high = module(middle - half), module(middle + half)
        return (low + high) / 2.0, (high - low) / 2.0
    return None


_RESHAPING = (nn.Identity, nn.Flatten, nn.Unflatten)
_INCREASING = (nn.ReLU, nn.Tanh, nn.Softplus, nn.Sigmoid)


def upper_bound(model: ModuleLoss, module: nn.Module, ball: Ball, blocks: Sequence[Block]) -> float:
    """What the worst case of rows cannot exceed.

    Parameters
    ----------
    model : ModuleLoss
        Whose loss it is.
    module : torch.nn.Module
        With its parameters, in double precision.
    ball : Ball
        How far rows may be moved; of order 2 or infinity.
    blocks : sequence of (rows, targets, masses)
        The rows.
    """
    with torch.no_grad():
        K, rho = lipschitz(module), ball.radius * SLACK
        if ball.order == math.inf:
            return sum(_each(model, module, ball.norm.name, K, rho, block) for block in blocks)
        mean = sum(float(m @ model.losses(module(X), y)) for X, y, m in blocks)
    lip = model.output_lipschitz
    return (mean**0.5 + K * rho) ** 2 if lip == math.inf else mean + lip * K * rho


def _each(
    model: ModuleLoss, module: nn.Module, norm: str, K: float, rho: float, block: Block
) -> float:
    X, y, mass = block
    # The l2 length of a move within rho in the ground norm.
    move = K * rho * {"l1": 1.0, "l2": 1.0, "linf": math.sqrt(X.shape[1])}[norm]
    worst = near_losses(model.loss, module(X), y, move)
    found = box(module, X, torch.full_like(X, rho))
    if found is not None:
        worst = torch.minimum(worst, box_losses(model, *found, y))
    return float(mass @ worst)


def box_losses(model: ModuleLoss, middle: Tensor, half: Tensor, y: Tensor) -> Tensor:
    """The largest losses (B,) of outputs in a box."""
    if model.loss != "cross_entropy":  # convex in the one output: at an end
        low, high = (model.losses(middle + sign * half, y) for sign in (-1.0, 1.0))
        return torch.maximum(low, high)
    own = functional.one_hot(y.long(), middle.shape[-1]).bool()
    return model.losses(torch.where(own, middle - half, middle + half), y)


def near_losses(loss: str, output: Tensor, y: Tensor, move: float) -> Tensor:
    """The largest losses (B,) of outputs within l2 distance ``move`` of these."""
    if loss == "cross_entropy":
        return functional.cross_entropy(output, y.long(), reduction="none") + 2.0**0.5 * move
    score = output.squeeze(-1)
    if loss == "logistic":
        return functional.softplus(move - y * score)
    away = (score - y).abs() + move
    if loss == "squared":
        return away**2
    return functional.huber_loss(away, torch.zeros_like(away), reduction="none", delta=1.35)
