r"""What the methods for :math:`\min_x\max_{\lambda\in Q}\sum_s\lambda_sF_s(x)` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from drfl import checks
from drfl.arrays import Array
from drfl.native.session import NativeSession
from drfl.native.settings import Native

# Steps of the weights by default, in units of the mean loss of the zero model: what did well on
# standardised data where steps stay the same, and where they fade.
STEADY, FADING = 0.2, 2.0


@dataclass(frozen=True, kw_only=True)
class SaddleMethod(Native):
    r"""Settings of methods that move the model and the weights.

    Parameters
    ----------
    weight_step : float, optional
        :math:`\eta_\lambda`; it fades like the steps of the model. By default 0.2, where steps
        fade 2, over the mean loss of the zero model.
    averaged : bool
        Whether the average of all models is returned rather than the last one.
    """

    weight_step: float | None = None
    averaged: bool = True
    robust: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.optional(checks.number, "weight_step", self.weight_step, above=0.0)
        if not isinstance(self.averaged, bool):
            raise TypeError(f"averaged must be True or False, got {self.averaged!r}")


M = TypeVar("M", bound=SaddleMethod)


class SaddleSession(NativeSession[M]):
    r"""Keeps the weights :math:`\lambda`, the losses last told, and the average of the models."""

    def begin(self) -> None:
        self.lam = self.center
        self.last = self.losses.copy()  # by client, the loss that it told last
        self.mean_at_zero = float(self.center @ self.losses)
        self.average = np.zeros(self.d)

    @property
    def model(self) -> Array:
        return self.average if self.method.averaged else self.x

    def take_into_average(self) -> None:
        """Call it once for every x."""
        self.average = self.average + (self.x - self.average) / (self.t + 1)

    def climb(self, losses: Array) -> None:
        r""":math:`\lambda\leftarrow P_Q(\lambda+\eta_\lambda F)`."""
        self.lam = self.mix.project(
            self.lam + self.weight_step * self.steps.fading(self.t) * losses
        )

    @property
    def weight_step(self) -> float:
        """The step of the weights before it fades."""
        if self.method.weight_step is not None:
            return self.method.weight_step
        usual = FADING if self.steps.decay > 0.0 else STEADY
        return usual / self.mean_at_zero if self.mean_at_zero > 0.0 else 1.0
