r"""The problem: a loss, a ball for every client, a mixture. A specification without data.

.. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s F_s(w,b),\qquad
          F_s(w,b) = \sup_{P\in\mathrm{Ball}_s} E_P L
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from drfl._registry import listed
from drfl.ball import Ball
from drfl.differentiable import RowLoss
from drfl.losses import Loss, make_loss
from drfl.mixture import Mixture
from drfl.norms import Norm
from drfl.problem.plain import (
    Json,
    ball_from_dict,
    ball_to_dict,
    balls_from_dict,
    loss_from_dict,
    loss_to_dict,
    mixture_from_dict,
    mixture_to_dict,
    require_keys,
)
from drfl.supports import Support
from drfl.worst_case.make import oracle_class

T = TypeVar("T")


@dataclass(frozen=True, init=False)
class Problem:
    r"""What is to be minimised; everything that solves, checks or reports takes one.

    Parameters
    ----------
    loss : str, Loss or RowLoss
        One of `drfl.losses.LOSSES`; its parameters follow as keywords. Or a network
        (`drfl.torch.Model`), for methods that use gradients alone.
    ball : Ball or mapping of str to Ball
        One for all clients, or one for each by the client's name. They share a norm and a kind
        of support, because the server keeps one constraint :math:`\|w\|_*\le t` for all.
    mixture : Mixture
        The uncertain weights of the clients.
    fit_intercept : bool
        Whether there is an intercept b; it is never transported.
    shared_ball : bool
        One ball around the mixture of the clients instead of a ball around each: one multiplier
        :math:`\lambda` for all of them.

    Examples
    --------
    >>> problem = Problem("huber", Ball(radius=0.1), epsilon=1.0)
    >>> problem.loss, problem.ball_of("north").radius
    (Huber(epsilon=1.0), 0.1)
    >>> Problem.from_dict(problem.to_dict()) == problem
    True
    """

    loss: Loss
    ball: Ball | Mapping[str, Ball]
    mixture: Mixture
    fit_intercept: bool
    shared_ball: bool

    def __init__(
        self,
        loss: str | Loss | RowLoss = "hinge",
        ball: Ball | Mapping[str, Ball] = Ball(),  # noqa: B008  (frozen)
        mixture: Mixture = Mixture(),  # noqa: B008  (frozen)
        *,
        fit_intercept: bool = True,
        shared_ball: bool = False,
        **loss_params: Any,
    ) -> None:
        set_field = object.__setattr__  # the record is frozen
        known = isinstance(loss, RowLoss) and not loss_params
        set_field(self, "loss", loss if known else make_loss(loss, **loss_params))  # type: ignore[arg-type]
        set_field(self, "ball", _checked_ball(ball))
        set_field(self, "mixture", _instance("mixture", mixture, Mixture))
        set_field(self, "fit_intercept", _instance("fit_intercept", fit_intercept, bool))
        set_field(self, "shared_ball", _instance("shared_ball", shared_ball, bool))
        if self.shared_ball and not isinstance(self.ball, Ball):
            raise ValueError("shared_ball=True means one ball for all clients: give one Ball")
        if self.shared_ball and self.balls[0].radius == 0.0:
            set_field(self, "shared_ball", False)  # nothing is moved: there is no multiplier
        for each in self.balls:
            if self.network is not None:
                self.network.check_ball(each)
            else:
                oracle_class(self.loss, each)  # what has no closed form is refused here
        if self.shared_ball:
            _require_finite_way(self.balls[0], self.loss)

    @property
    def network(self) -> RowLoss | None:
        """The loss where it is one of rows, not of scores: a network."""
        loss: object = self.loss
        return loss if isinstance(loss, RowLoss) else None

    def dimension(self, n_features: int) -> int:
        """The length of a model: (w, b) and the multiplier of a shared ball, or a network's x."""
        if self.network is not None:
            return self.network.dimension
        return n_features + self.fit_intercept + self.shared_ball

    def ball_of(self, name: str) -> Ball:
        """The ball of a client."""
        if isinstance(self.ball, Ball):
            return self.ball
        if name not in self.ball:
            raise ValueError(
                f"there is no radius for client {name!r}, only for {listed(self.ball)}: give every "
                "client a ball"
            )
        return self.ball[name]

    @property
    def balls(self) -> tuple[Ball, ...]:
        """The balls, one or one per client."""
        return (self.ball,) if isinstance(self.ball, Ball) else tuple(self.ball.values())

    @property
    def norm(self) -> Norm:
        """The ground norm that all balls share."""
        return self.balls[0].norm

    @property
    def support_kind(self) -> type[Support]:
        """The class of support that all balls share."""
        return type(self.balls[0].support)

    def to_dict(self) -> Json:
        """Write the problem down as what JSON can hold; infinity is the string "inf"."""
        if isinstance(self.ball, Ball):
            balls = {"ball": ball_to_dict(self.ball)}
        else:
            balls = {"balls": {name: ball_to_dict(ball) for name, ball in self.ball.items()}}
        return {
            "loss": loss_to_dict(self.loss),
            **balls,
            "mixture": mixture_to_dict(self.mixture),
            "fit_intercept": self.fit_intercept,
            "shared_ball": self.shared_ball,
        }

    @classmethod
    def from_dict(cls, data: Json) -> Problem:
        """Read what `to_dict` wrote; every field is checked."""
        ball = "balls" if isinstance(data, dict) and "balls" in data else "ball"
        require_keys("a problem", data, ["loss", ball, "mixture", "fit_intercept", "shared_ball"])
        return cls(
            loss_from_dict(data["loss"]),
            ball_from_dict(data[ball]) if ball == "ball" else balls_from_dict(data[ball]),
            mixture_from_dict(data["mixture"]),
            fit_intercept=data["fit_intercept"],
            shared_ball=data["shared_ball"],
        )


def _checked_ball(ball: Ball | Mapping[str, Ball]) -> Ball | dict[str, Ball]:
    if isinstance(ball, Ball):
        return ball
    if not isinstance(ball, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Ball) for name, value in ball.items()
    ):
        raise TypeError("ball must be a Ball, or a mapping from client names to Balls")
    if not ball:
        raise ValueError("ball is an empty mapping: give one Ball per client name")
    for what, kinds in {
        "norm": {b.norm.name for b in ball.values()},
        "kind of support": {b.support.name for b in ball.values()},
    }.items():
        if len(kinds) > 1:
            raise ValueError(
                f"all balls must have the same {what}, got {listed(sorted(kinds))}: choose one"
            )
    return dict(ball)


def _instance(name: str, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    return value


def _require_finite_way(ball: Ball, loss: Loss) -> None:
    """One multiplier for all has a closed domain only where rows cannot go to infinity."""
    targets = loss.task == "regression" and math.isfinite(ball.label_cost)
    if ball.support.name != "whole space" and not ball.support.is_bounded(targets=targets):
        raise ValueError(
            "shared_ball=True is solved on the whole space and on bounded supports: "
            f"give the {ball.support.name} finite sides{' (y_low, y_high too)' if targets else ''}"
        )
