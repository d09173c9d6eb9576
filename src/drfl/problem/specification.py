r"""The problem: a loss, a ball for every client, a mixture. A specification without data.

.. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s F_s(w,b),\qquad
          F_s(w,b) = \sup_{P\in\mathrm{Ball}_s} E_P L
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from drfl import checks
from drfl._registry import listed, lookup
from drfl.arrays import Array
from drfl.curves import Curves
from drfl.differentiable import RowLoss
from drfl.gauges import DualNorm, Gauge, Pairs, ShapedCurves
from drfl.losses import Loss, make_loss
from drfl.losses.joint import JOINT, JointLoss, joint_of
from drfl.norms import L1, GroupedLInf, LInf, Norm
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
from drfl.rows import Rows
from drfl.supports import Support, WholeSpace
from drfl.uncertainty import Ball, Mixture
from drfl.worst_case.curves import CurveOracle, JointCurveOracle
from drfl.worst_case.joint import JointOracle, require_joint_ball
from drfl.worst_case.make import make_oracle, oracle_class
from drfl.worst_case.oracle import Oracle

T = TypeVar("T")

INTERCEPTS = ("shared", "per_client", "none")
"""Whose intercept there is."""


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
    intercept : {"shared", "per_client", "none"}
        Whose b there is: one for all, one of every client's own, so that
        :math:`F_s(w)=\min_bF_s(w,b)` and b stays with its client, or none. It is never
        transported.
    shared_ball : bool
        One ball around the mixture of the clients instead of a ball around each: one multiplier
        :math:`\lambda` for all of them.
    curves : Curves, optional
        Columns whose part of the score is a piecewise-linear curve; w are its slopes then. For the
        norms l1 and linf on the whole space.
    classes : int, optional
        K scores at once instead of one, for labels 0 to K - 1 and the losses "logistic" (then the
        cross-entropy of their softmax) and "hinge" (that of Crammer and Singer), on the whole
        space. W (K, n) and b (K,) are the model then.

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
    intercept: str
    shared_ball: bool
    curves: Curves | None
    classes: int | None

    def __init__(
        self,
        loss: str | Loss | RowLoss = "hinge",
        ball: Ball | Mapping[str, Ball] = Ball(),  # noqa: B008  (frozen)
        mixture: Mixture = Mixture(),  # noqa: B008  (frozen)
        *,
        intercept: str = "shared",
        shared_ball: bool = False,
        curves: Curves | None = None,
        classes: int | None = None,
        **loss_params: Any,
    ) -> None:
        set_field = object.__setattr__  # the record is frozen
        known = isinstance(loss, RowLoss) and not loss_params
        set_field(self, "loss", loss if known else make_loss(loss, **loss_params))  # type: ignore[arg-type]
        set_field(self, "ball", _checked_ball(ball))
        set_field(self, "mixture", _instance("mixture", mixture, Mixture))
        set_field(self, "intercept", intercept_of(intercept))
        set_field(self, "shared_ball", _instance("shared_ball", shared_ball, bool))
        if self.shared_ball and not isinstance(self.ball, Ball):
            raise ValueError("shared_ball=True means one ball for all clients: give one Ball")
        if self.own_intercepts and self.shared_ball:
            raise ValueError(
                "one ball around the mixture of the clients moves rows between them, and an "
                "intercept per client does not follow: take intercept='shared'"
            )
        if self.own_intercepts and self.network is not None:
            raise ValueError("a network has layers of its own: leave out intercept='per_client'")
        if self.shared_ball and self.balls[0].radius == 0.0:
            set_field(self, "shared_ball", False)  # nothing is moved: there is no multiplier
        for each in self.balls:
            if self.network is not None:
                self.network.check_ball(each)
            else:
                oracle_class(self.loss, each)  # what has no closed form is refused here
        if self.shared_ball:
            _require_finite_way(self.balls[0], self.loss)
        set_field(self, "curves", None if curves is None else _instance("curves", curves, Curves))
        if self.curves is not None:
            _require_curves(self)
        set_field(self, "classes", checks.optional(checks.whole, "classes", classes, least=2))
        if self.classes is not None:
            _require_joint(self)

    @property
    def joint(self) -> JointLoss | None:
        """The loss of several scores, where there are several."""
        return None if self.classes is None else joint_of(self.loss)

    @property
    def shared_intercept(self) -> bool:
        """Whether a model that is sent ends with an intercept."""
        return self.intercept == "shared"

    @property
    def own_intercepts(self) -> bool:
        """Whether every client has an intercept of its own."""
        return self.intercept == "per_client"

    @property
    def network(self) -> RowLoss | None:
        """The loss where it is one of rows, not of scores: a network."""
        loss: object = self.loss
        return loss if isinstance(loss, RowLoss) else None

    def oracle(self, rows: Rows, name: str) -> Oracle:
        """The exact worst case of a client's rows; with curves the rows are its columns."""
        if self.curves is not None and self.joint is not None and self.classes is not None:
            ball = self.ball_of(name)
            return JointCurveOracle(rows, self.joint, ball, self.curves, self.classes)
        if self.curves is not None:
            return CurveOracle(rows, self.loss, self.ball_of(name), self.curves)
        return self.bounding_oracle(rows, name)

    def bounding_oracle(self, rows: Rows, name: str) -> Oracle:
        """What is minimised for a client; with curves the rows are ramps, and it is a bound."""
        if self.classes is None or self.joint is None:
            return make_oracle(rows, self.loss, self.ball_of(name))
        return JointOracle(rows, self.joint, self.ball_of(name), self.classes)

    def scores(self, rows: Rows, w: Array, b: float) -> Array:
        """The scores of rows (N,), with curves from their columns."""
        return (rows if self.curves is None else rows.ramped(self.curves)).scores(w, b)

    def parts(self, X: Array, w: Array) -> Array:
        """What every column adds to the scores of scaled rows, (N, n)."""
        if self.curves is None:
            return np.asarray(X * w)
        columns = [self.curves.value(j, w, X[:, j]) for j in range(self.curves.n)]
        return np.stack(columns, axis=1)

    def coefficients(self, n_features: int) -> int:
        """How many coefficients a model of so many columns has: slopes, where there are curves."""
        if self.curves is None:
            return n_features * (self.classes or 1)
        if self.curves.n != n_features:
            raise ValueError(
                f"the curves are of {self.curves.n} columns, but clients have {n_features}"
            )
        return self.curves.n_slopes * (self.classes or 1)

    def dimension(self, n_features: int) -> int:
        """The length of a model: (w, b) and the multiplier of a shared ball, or a network's x.

        ``n_features`` is the length of w.
        """
        if self.network is not None:
            return self.network.dimension
        return n_features + self.intercepts + self.shared_ball

    @property
    def intercepts(self) -> int:
        """How many intercepts there are: none, one, or one per class."""
        return (self.classes or 1) if self.shared_intercept else 0

    def ball_of(self, name: str) -> Ball:
        """The ball of a client, around its rows as the model sees them: ramps, with curves."""
        if isinstance(self.ball, Ball):
            ball = self.ball
        elif name in self.ball:
            ball = self.ball[name]
        else:
            raise ValueError(
                f"there is no radius for client {name!r}, only for {listed(self.ball)}: give every "
                "client a ball"
            )
        return ball if self.curves is None else replace(ball, norm=self.norm)

    @property
    def balls(self) -> tuple[Ball, ...]:
        """The balls, one or one per client."""
        return (self.ball,) if isinstance(self.ball, Ball) else tuple(self.ball.values())

    @property
    def norm(self) -> Norm:
        """The ground norm that all balls share; between ramps, with curves."""
        norm = self.balls[0].norm
        if self.curves is None or isinstance(norm, L1):
            return norm
        return GroupedLInf(tuple(int(size) for size in self.curves.sizes))

    def gauge(self, n: int) -> Gauge:
        """What every price of transport is at least, a function of w (n,)."""
        if self.curves is not None and self.curves.shaped:
            return ShapedCurves(self.norm, self.curves)
        if self.classes is not None:
            assert Pairs.knows(self.norm)
            return Pairs(self.norm, self.classes, n // self.classes, self.shared_intercept)
        return DualNorm(self.norm, n)

    @property
    def support_kind(self) -> type[Support]:
        """The class of support that all balls share."""
        return type(self.balls[0].support)

    def with_balls(self, change: Callable[[Ball], Ball]) -> Problem:
        """The same problem with other balls, one or one per client as before."""
        if isinstance(self.ball, Ball):
            return replace(self, ball=change(self.ball))
        return replace(self, ball={name: change(ball) for name, ball in self.ball.items()})

    def among(self, totals: Mapping[str, float], kept: Mapping[str, str]) -> Problem:
        """The problem of some of the clients; their weights keep their proportions.

        Parameters
        ----------
        totals : mapping of str to float
            The total weight of the rows of every client, in their order.
        kept : mapping of str to str
            From what the clients that are left are called then to what they are called now.
        """
        places = {name: s for s, name in enumerate(totals)}
        some = [places[name] for name in kept.values()]
        ball = self.ball
        if not isinstance(ball, Ball):
            ball = {name: ball[before] for name, before in kept.items()}
        return replace(self, ball=ball, mixture=self.mixture.among(some, list(totals.values())))

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
            "intercept": self.intercept,
            "shared_ball": self.shared_ball,
            **({} if self.curves is None else {"curves": self.curves.to_dict()}),
            **({} if self.classes is None else {"classes": self.classes}),
        }

    @classmethod
    def from_dict(cls, data: Json) -> Problem:
        """Read what `to_dict` wrote; every field is checked."""
        ball = "balls" if isinstance(data, dict) and "balls" in data else "ball"
        keys = ["loss", ball, "mixture", "intercept", "shared_ball"]
        more = [key for key in ("curves", "classes") if isinstance(data, dict) and key in data]
        require_keys("a problem", data, [*keys, *more])
        return cls(
            loss_from_dict(data["loss"]),
            ball_from_dict(data[ball]) if ball == "ball" else balls_from_dict(data[ball]),
            mixture_from_dict(data["mixture"]),
            intercept=data["intercept"],
            shared_ball=data["shared_ball"],
            curves=Curves.from_dict(data["curves"]) if "curves" in more else None,
            classes=data.get("classes"),
        )


def intercept_of(name: str) -> str:
    """Whose intercept there is, or a sentence that names what exists."""
    return lookup("intercept", name, {known: known for known in INTERCEPTS})


def _checked_ball(ball: Ball | Mapping[str, Ball]) -> Ball | dict[str, Ball]:
    if isinstance(ball, Ball):
        return ball
    if not isinstance(ball, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Ball) for name, value in ball.items()
    ):
        raise TypeError("ball must be a Ball, or a mapping from client names to Balls")
    if not ball:
        raise ValueError("ball is an empty mapping: give one Ball per client name")
    norms = {each.norm: each.norm.name for each in ball.values()}
    supports = {type(each.support): each.support.name for each in ball.values()}
    for what, names in (("norm", norms.values()), ("kind of support", supports.values())):
        if len(names) > 1:
            which = "choose one" if len(set(names)) > 1 else "give all the same parameters"
            raise ValueError(
                f"all balls must have the same {what}, got {listed(sorted(names))}: {which}"
            )
    return dict(ball)


def _instance(name: str, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    return value


def _require_curves(problem: Problem) -> None:
    """Ramps keep l1, and bound the worst case for linf; what others cost is not known here."""
    if problem.network is not None or problem.shared_ball:
        raise ValueError("curves are for one score and a ball around each client: leave them out")
    norm, support = problem.balls[0].norm, problem.balls[0].support
    if not isinstance(norm, L1 | LInf):
        raise ValueError(
            f"additive models need norm='l1' or norm='linf', not {norm.name!r}, for which what an "
            "adversary does to curves has no closed form: name one of them"
        )
    if not isinstance(support, WholeSpace):
        raise ValueError(
            "additive models are solved where rows can be anywhere: the pieces of a curve are used "
            "one after the other, which no support of them says; leave out the support"
        )
    shaped = problem.curves is not None and problem.curves.shaped
    if shaped and not any(ball.radius > 0.0 for ball in problem.balls):
        raise ValueError("rules for the shapes of curves need a radius above 0")


def _require_joint(problem: Problem) -> None:
    """Several classes at once have their own closed forms; what has none is refused here."""
    if problem.network is not None or problem.joint is None:
        raise ValueError(
            f"several classes at once have the losses {listed(JOINT)}, not "
            f"{problem.loss.name!r}: name one of them, or take one class against the rest"
        )
    if problem.shared_ball:
        raise ValueError(
            "one ball for all clients has one multiplier in the cuts of all, and such cuts are of "
            "one score: take a ball around each client, or one class against the rest"
        )
    moving = any(ball.radius > 0.0 and math.isfinite(ball.label_cost) for ball in problem.balls)
    if problem.own_intercepts and moving:
        raise ValueError(
            "several classes at once have intercepts per client only if labels stay: cuts that "
            "hold for all intercepts are made of the shares of the classes, which moved labels "
            "change; take label_cost=inf, or one class against the rest"
        )
    if problem.curves is not None and problem.curves.shaped:
        raise ValueError(
            "several classes at once have no rules for the shapes of curves: their scores count by "
            "their differences, of which a rule for one score says nothing; leave the rules out"
        )
    if not Pairs.knows(problem.norm):
        raise ValueError(
            f"several classes at once have the norms l1, l2 and linf, not {problem.norm.name}: "
            "name one, or take one class against the rest"
        )
    for ball in problem.balls:
        require_joint_ball(ball)


def _require_finite_way(ball: Ball, loss: Loss) -> None:
    """One multiplier for all has a closed domain only where rows cannot go to infinity."""
    targets = loss.task == "regression" and math.isfinite(ball.label_cost)
    if not isinstance(ball.support, WholeSpace) and not ball.support.is_bounded(targets=targets):
        raise ValueError(
            "shared_ball=True is solved on the whole space and on bounded supports: "
            f"give the {ball.support.name} finite sides{' (y_low, y_high too)' if targets else ''}"
        )
