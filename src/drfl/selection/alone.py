"""A client's own model, of the training rows of a part: one vector crosses, in one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Checked, Client, Handler, Site
from drfl.problem import Problem
from drfl.run import solve
from drfl.selection.folds import on_parts
from drfl.solvers import StatusKind
from drfl.supports import WholeSpace
from drfl.wire import Field, Message, WireError, validate

KIND = "select_alone"
REQUEST = {"tol": Field("float64")}
REPLY = {"coef": Field("float64", ("n",)), "intercept": Field("float64")}


def possible(problem: Problem) -> bool:
    """Whether clients can do it: the method for rows in one process knows the whole space alone."""
    balls = [problem.ball] if not isinstance(problem.ball, Mapping) else problem.ball.values()
    plain = problem.curves is None and not problem.shared_ball
    return plain and all(isinstance(ball.support, WholeSpace) for ball in balls)


def fit(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    rows, tol = site.rows, float(message.arrays["tol"])
    if not 0.0 < tol < 1.0:
        raise WireError("there is no such tolerance")
    weight = None if rows.p is None else rows.p * rows.total
    client = Client(
        site.name, rows.X, rows.y, sample_weight=weight, shift=rows.shift, scale=rows.scale
    )
    # Alone, a client's own intercept is the only one.
    intercept = "none" if site.problem.intercept == "none" else "shared"
    problem = Problem(site.oracle.loss, site.oracle.ball, intercept=intercept)
    result = solve(problem, [client], solver="local", tol=tol)
    if result.status.kind is StatusKind.FAILED:
        raise ArithmeticError("the client's own rows gave no model")
    return {"coef": result.coef, "intercept": np.array(result.intercept)}


HANDLERS: Mapping[str, Handler] = on_parts({KIND: Checked(fit, REQUEST, REPLY)})


def request(tol: float) -> Message:
    """Ask for it; `drfl.selection.folds.FoldEngine` adds the part and the ball."""
    return Message(KIND, 0, {"tol": np.array(tol)})


def read(message: Message, n: int) -> tuple[NDArray[np.float64], float]:
    """Coefficients (n,) and the intercept of an answer."""
    validate(message, f"{KIND}/reply", 0, REPLY, {"n": n})
    return np.array(message.arrays["coef"]), float(message.arrays["intercept"])
