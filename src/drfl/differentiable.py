r"""Losses of which nothing is known but values and gradients: those of networks.

A linear model is scored by one number, and `drfl.losses` knows everything about the loss of that
number. Here a model is any vector x, and the loss of a row is a function :math:`L(x; a, y)`.
Methods that use values and gradients alone work with both: they see a `ClientLoss`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Task
from drfl.rows import Rows
from drfl.uncertainty import Ball

Gradient = Callable[[Array], Array]


class RowLoss(ABC):
    """The loss of one row under a model x, for `drfl.Problem` in the place of a loss of a score.

    Attributes
    ----------
    name : str
        The registered name.
    task : {"classification", "regression"}
        Whether targets are classes or numbers.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def task(self) -> Task:
        """Whether targets are classes or numbers."""

    @property
    @abstractmethod
    def signed(self) -> bool:
        """Whether the two classes are -1 and +1, and not 0, 1, ..."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length d of x."""

    @abstractmethod
    def start(self, seed: int) -> Array:
        """The first model (d,)."""

    @abstractmethod
    def to_dict(self) -> dict[str, str]:
        """Write it down; ValueError if other places could not read it."""

    def check_travel(self) -> None:  # noqa: B027  (what is at hand can be sent, by default)
        """Raise ValueError unless other processes of this machine could find it."""

    @abstractmethod
    def check_ball(self, ball: Ball) -> None:
        """Raise ValueError unless rows can be moved in a ball like this."""

    @abstractmethod
    def at(self, rows: Rows, ball: Ball, name: str) -> ClientLoss:
        """The worst-case loss of a client; ValueError if its rows do not fit."""

    @abstractmethod
    def scores(self, x: Array, X: Array) -> Array:
        """Those of rows (N, n), as linear models have them: (N, K).

        Numbers for numbers; for two classes the log-odds of the second, K = 1; for more the
        log-odds of each against the rest. ValueError if the rows do not fit.
        """


ROW_LOSSES = {"network": "drfl.torch"}
"""By name, where their classes are; each has `from_dict`. They are imported when needed."""


def row_loss(name: str, data: dict[str, Any]) -> RowLoss:
    """Read what `RowLoss.to_dict` wrote."""
    made: RowLoss = import_module(ROW_LOSSES[name]).from_dict(data)
    return made


@dataclass(frozen=True, eq=False)
class Displaced:
    """The rows of a client where an adversary has moved them.

    Attributes
    ----------
    X : array of shape (N, n)
        The rows now.
    slopes : array of shape (N, n)
        The gradients of their losses in them.
    loss : float
        Of the rows where they were.
    found, bound : float
        The worst-case loss is at least the one, and at most the other; infinity: not known.
    price : float
        What a larger radius would add to it, to first order.
    """

    X: Array
    slopes: Array
    loss: float
    found: float
    bound: float
    price: float


class ClientLoss(ABC):
    r"""The loss of one client, :math:`F_s(x)`, and its gradient.

    Where the loss has a kink, "gradient" means one of its subgradients.

    Parameters
    ----------
    name : str
        Of the client; with a seed and a round it fixes the draws, on every engine.
    n_rows : int
        How many rows a batch is drawn from.
    """

    def __init__(self, name: str, n_rows: int) -> None:
        self.name, self.n_rows = name, n_rows

    @abstractmethod
    def value(self, x: Array) -> float:
        """F(x)."""

    @abstractmethod
    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """F(x) and a gradient."""

    @abstractmethod
    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        """The gradient of the chosen rows: right on average if all are equally likely."""

    def displaced(self, x: Array) -> Displaced:
        """Where the adversary moves the rows at x, and what is known of the worst case."""
        raise NotImplementedError(f"{type(self).__name__} does not tell where rows are moved")

    def penalised(self, gamma: float) -> ClientLoss:
        r"""The same with rows that move at the price :math:`\tfrac\gamma2\|d\|^2` each."""
        raise NotImplementedError(f"{type(self).__name__} has no penalised form for {gamma=}")

    def gradient(self, x: Array) -> Array:
        """A gradient of F at x."""
        return self.value_and_gradient(x)[1]

    def sampled(self, batch: int, seed: int, round: int) -> Gradient:
        """The gradients of one walk: of all rows, or every time of a fresh batch of so many.

        The seed, the round and the client's name fix the draws, on every engine.
        """
        if not 0 < batch < self.n_rows:
            return self.gradient
        rng = np.random.default_rng([seed, round, *self.name.encode()])

        def gradient(x: Array) -> Array:
            return self.batch_gradient(x, rng.choice(self.n_rows, batch, replace=False))

        return gradient
