r"""What can be proved of a network's worst case: an upper bound from its layers.

If the module is K-Lipschitz in the l2 norm, moving a row by d moves its output by at most
:math:`K\|d\|`. For order infinity every loss is then at most its largest value within
:math:`K\rho` of the output, and for order 2 the mean is at most

.. math:: \text{mean } L + \mathrm{Lip}\,K\rho,\qquad
          \text{squared loss: } \bigl(\sqrt{\text{mean } r^2} + K\rho\bigr)^2 .

K is the product over the layers that are known; any other layer makes it infinite.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

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
    if isinstance(module, nn.Sequential):
        return math.prod(_lipschitz(layer) for layer in module)
    if isinstance(module, nn.Linear):
        # Rounding of the singular values is added.
        return float(torch.linalg.matrix_norm(module.weight.double(), 2)) * (1.0 + 1e-9)
    if isinstance(module, nn.Conv1d | nn.Conv2d) and module.padding_mode == "zeros":
        return _convolution(module)
    if isinstance(module, nn.ELU) and module.alpha > 1.0:
        return float(module.alpha)
    return _SLOPES.get(type(module), math.inf)


def _convolution(layer: nn.Conv1d | nn.Conv2d) -> float:
    r"""By :math:`\|A\|_2\le\sqrt{\|A\|_1\|A\|_\infty}`: sums over a kernel's outputs and inputs."""
    kernel = layer.weight.double().abs()
    to_one = kernel.flatten(1).sum(dim=1).max()
    grouped = kernel.unflatten(0, (layer.groups, -1))
    from_one = grouped.sum(dim=1).flatten(2).sum(dim=2).max()
    return float((to_one * from_one).sqrt())


def worst_losses(loss: str, output: Tensor, y: Tensor, move: float) -> Tensor:
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
