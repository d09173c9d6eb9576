"""More than two classes: all of them in one problem, or each against the rest."""

from __future__ import annotations

import math

from drfl import defaults
from drfl.gauges import Pairs
from drfl.losses import Loss
from drfl.losses.joint import joint_of
from drfl.supports import WholeSpace
from drfl.uncertainty import Ball

AT_ONCE, OVR, AUTO = "joint", "ovr", "auto"
MULTICLASS = {name: name for name in (AUTO, AT_ONCE, OVR)}
"""All classes in one problem, one against the rest, or the first where it can be."""


def together(
    classes: int | None,
    slopes: int,
    wish: str,
    *,
    loss: Loss,
    ball: Ball,
    intercept: str,
    solver: str,
    radius: object,
    shaped: bool = False,
    shared_ball: bool = False,
) -> tuple[int | None, str]:
    """How many classes one problem tells apart (None: every problem is of one score), and why so.

    "auto" is all at once where that has a closed form and a solver, and not too many coefficients;
    where it is not, there is a reason.

    Parameters
    ----------
    classes, slopes : int
        How many classes there are (None: the target is a number), and coefficients of one score.
    wish : str
        One of `MULTICLASS`.
    loss, ball, intercept, solver, radius, shared_ball
        As of `drfl.Problem` and the estimators; the radius of the ball is not meant.
    shaped : bool
        Whether there are rules for the shapes of curves.
    """
    if classes is None or classes == 2:
        return None, ""
    if shaped:
        raise ValueError(
            f"rules for the shapes of curves are for a number or two classes: of {classes} classes "
            "each has a score, and all would follow the rule, though not all can become more likely"
            " together; leave out the rules, or make the target a number or two classes"
        )
    moving = math.isfinite(ball.label_cost)
    reasons = {
        f"the loss {loss.name!r} is of one score": joint_of(loss) is None,
        f"the norm {ball.norm.name!r} is of one score": not Pairs.knows(ball.norm),
        "with a support there is one score": not isinstance(ball.support, WholeSpace),
        "one ball for all clients is of one score": shared_ball,
        "intercepts per client are of one score where labels move": (
            intercept == "per_client" and moving
        ),
        f"the solver {solver!r} is for one score": solver not in (AUTO, "bundle"),
        "the radius of confidence is of one score": radius == "confidence",
        f"{classes} classes with {slopes} coefficients each are more than {defaults.AT_ONCE} in all"
        f", which have to be asked for ({AT_ONCE})": classes * slopes > defaults.AT_ONCE,
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if wish == AT_ONCE or (wish == AUTO and not why):
        return classes, ""
    return None, why if wish == AUTO else ""
