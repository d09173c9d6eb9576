r"""How far the rows of a client may be moved, and where they hurt most.

The worst case of a network is not known in closed form. An adversary moves the rows by
displacements :math:`D=(d_i)`, found by repeating the maximisation of the linearised loss with
:math:`G(D)_i=\nabla_aL(x;a_i+d_i,y_i)`:

- order 2, :math:`\sum_ip_i\|d_i\|_2^2\le\rho^2`:
  :math:`d_i\leftarrow\rho\,G_i/\sqrt{\textstyle\sum_jp_j\|G_j\|^2}`;
- order infinity, :math:`\|d_i\|\le\rho`: :math:`d_i\leftarrow\rho` times the steepest direction;
- penalty, :math:`L-\tfrac\gamma2\|d_i\|_2^2`: :math:`d_i\leftarrow G_i/\gamma`.

The value found is a lower bound of the supremum. Order 1, the paper's, has no such form: on the
whole space its supremum is attained at infinity, in the steepest direction of the network wherever
that is, and for a network nobody knows where.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor

Block = tuple[Tensor, Tensor, Tensor]
"""Rows (B, n), targets (B,) and masses (B,)."""
InputGradient = Callable[[Tensor, Tensor], Tensor]
"""Gradients of the rows' losses in the rows, at rows (B, n) with targets (B,)."""
Moved = Callable[[], Tensor]
"""The moved rows of a block, computed when they are wanted."""


class Adversary(ABC):
    """What moves rows."""

    @abstractmethod
    def moved(self, blocks: Sequence[Block], gradient: InputGradient) -> Sequence[Moved]:
        """The moved rows of every block, each computed when it is called.

        So that of many blocks one at a time is in memory.
        """

    def price(self, displacement: Tensor) -> Tensor | float:
        """What is subtracted from the losses (B,) of rows that were moved so."""
        del displacement
        return 0.0


@final
@dataclass(frozen=True)
class Nobody(Adversary):
    """Rows stay."""

    def moved(self, blocks: Sequence[Block], gradient: InputGradient) -> Sequence[Moved]:
        return [partial(_same, rows) for rows, _, _ in blocks]


@final
@dataclass(frozen=True)
class Together(Adversary):
    """Order 2: rows share a budget of squared distance."""

    radius: float
    steps: int = 2

    def moved(self, blocks: Sequence[Block], gradient: InputGradient) -> Sequence[Moved]:
        scales: list[float] = []
        kept: dict[int, Tensor] = {}  # of a single block the gradient is not computed again

        def displaced(k: int) -> Tensor:
            rows, y, _ = blocks[k]
            if k in kept:
                return rows + scales[-1] * kept[k]
            for scale in scales:
                rows = blocks[k][0] + scale * gradient(rows, y)
            return rows

        for _ in range(self.steps):
            total = 0.0
            for k, (_, y, mass) in enumerate(blocks):
                G = gradient(displaced(k) if scales else blocks[k][0], y)
                total += float(mass @ (G * G).sum(dim=1))
                if len(blocks) == 1:
                    kept[k] = G
            scales.append(self.radius / total**0.5 if total > 0.0 else 0.0)
        return [partial(displaced, k) for k in range(len(blocks))]

    def multiplier(self, blocks: Sequence[Block], gradient: InputGradient) -> float:
        r""":math:`\sqrt{\sum_ip_i\|G_i\|^2}/(2\rho)` where the rows ended."""
        rows = self.moved(blocks, gradient)
        total = sum(
            float(mass @ (gradient(at(), y) ** 2).sum(dim=1))
            for at, (_, y, mass) in zip(rows, blocks, strict=True)
        )
        return float(total**0.5 / (2.0 * self.radius))


@final
@dataclass(frozen=True)
class Each(Adversary):
    """Order infinity: every row within its own radius."""

    radius: float
    norm: str = "l2"
    steps: int = 2

    def moved(self, blocks: Sequence[Block], gradient: InputGradient) -> Sequence[Moved]:
        def displaced(rows: Tensor, y: Tensor) -> Tensor:
            at = rows
            for _ in range(self.steps):
                at = rows + self.radius * _steepest(gradient(at, y), self.norm)
            return at

        return [partial(displaced, rows, y) for rows, y, _ in blocks]


@final
@dataclass(frozen=True)
class PricedMoves(Adversary):
    """WAFL: rows pay for the square of their way."""

    gamma: float
    steps: int = 2

    def moved(self, blocks: Sequence[Block], gradient: InputGradient) -> Sequence[Moved]:
        def displaced(rows: Tensor, y: Tensor) -> Tensor:
            at = rows
            for _ in range(self.steps):
                at = rows + gradient(at, y) / self.gamma
            return at

        return [partial(displaced, rows, y) for rows, y, _ in blocks]

    def price(self, displacement: Tensor) -> Tensor:
        return 0.5 * self.gamma * (displacement * displacement).sum(dim=1)


def _same(rows: Tensor) -> Tensor:
    return rows


def _steepest(G: Tensor, norm: str) -> Tensor:
    """A direction of length 1 in the ground norm along which the loss grows fastest."""
    return STEEPEST[norm](G)


def _of_largest(G: Tensor) -> Tensor:
    best = G.abs().argmax(dim=1, keepdim=True)
    return torch.zeros_like(G).scatter_(1, best, G.gather(1, best).sign())


def _of_length_1(G: Tensor) -> Tensor:
    length = G.norm(dim=1, keepdim=True)
    return G / torch.where(length > 0.0, length, torch.ones_like(length))


STEEPEST = {"l1": _of_largest, "l2": _of_length_1, "linf": torch.sign}
