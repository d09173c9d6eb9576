"""From settings and an agreement to the problem that is solved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drfl._registry import listed, lookup
from drfl.ball import Ball
from drfl.losses import LOSSES, Loss, make_loss
from drfl.mixture import Mixture
from drfl.preflight.agreement import Agreement
from drfl.problem import Problem
from drfl.supports import Box
from drfl.tables import Number
from drfl.training.settings import Settings

AUTO_RADIUS = 0.1
"""The radius "auto" is this over the root of N_s, as for the estimators."""
AUTO_MIXTURE_RADIUS = {"classification": 0.2, "regression": 0.0}
AUTO_LOSS = {"classification": "hinge", "regression": "huber"}


def check_before_reading(settings: Settings) -> None:
    """Refuse settings that are wrong whatever the data are."""
    from drfl.engines import ENGINES
    from drfl.norms import NORMS
    from drfl.solvers import SOLVERS

    if settings["loss"] != "auto":
        lookup("loss", settings["loss"], LOSSES)
    lookup("norm", settings["norm"], NORMS)
    lookup("solver", settings["solver"], SOLVERS)
    lookup("engine", settings["engine"], ENGINES)
    if not 0.0 < settings["tol"] < math.inf:
        raise ValueError(f"tol must be a finite number > 0, got {settings['tol']}")
    if settings["max_rounds"] < 1:
        raise ValueError(f"max_rounds must be at least 1, got {settings['max_rounds']}")
    Ball(norm=settings["norm"], label_cost=settings["label_cost"])
    if settings["radius"] != "auto":
        for radius in _radii(settings, list(settings.clients), [1] * len(settings.clients)):
            Ball(radius=radius)
    _mixture(settings, "classification", len(settings.clients))


def make_problem(settings: Settings, agreement: Agreement) -> Problem:
    """The problem that the settings state for these clients."""
    names = list(agreement.rows)
    task = agreement.target.task
    radii = _radii(settings, names, list(agreement.rows.values()))
    ball = Ball(
        norm=settings["norm"],
        label_cost=settings["label_cost"],
        support=_support(settings["support"], agreement),
    )
    balls = [replace_radius(ball, radius) for radius in radii]
    one = len(set(radii)) == 1
    return Problem(
        _loss(settings, task),
        balls[0] if one else dict(zip(names, balls, strict=True)),
        _mixture(settings, task, len(names)),
        fit_intercept=settings["fit_intercept"],
    )


def replace_radius(ball: Ball, radius: float) -> Ball:
    """The same ball with another radius."""
    return Ball(radius, ball.norm, ball.label_cost, ball.support)


def with_radii(problem: Problem, radius: float) -> Problem:
    """The same problem with one radius for all clients."""
    balls = problem.ball
    if isinstance(balls, Ball):
        return _with_ball(problem, replace_radius(balls, radius))
    return _with_ball(problem, {name: replace_radius(b, radius) for name, b in balls.items()})


def with_mixture_radius(problem: Problem, radius: float) -> Problem:
    """The same problem with another radius of the weights."""
    mixture = replace(problem.mixture, radius=radius)
    return Problem(problem.loss, problem.ball, mixture, fit_intercept=problem.fit_intercept)


def _with_ball(problem: Problem, ball: Ball | Mapping[str, Ball]) -> Problem:
    return Problem(problem.loss, ball, problem.mixture, fit_intercept=problem.fit_intercept)


def _radii(settings: Settings, names: Sequence[str], rows: Sequence[int]) -> list[float]:
    radius = settings["radius"]
    if radius == "auto":
        return [AUTO_RADIUS / math.sqrt(n) for n in rows]
    if not isinstance(radius, dict):
        return [radius] * len(names)
    for name in names:
        if name not in radius:
            raise ValueError(f"radius has no entry for client {name!r}: it has {listed(radius)}")
    for name in radius:
        if name not in names:
            raise ValueError(f"radius has an entry for {name!r}: the clients are {listed(names)}")
    return [radius[name] for name in names]


def _loss(settings: Settings, task: str) -> Loss:
    name = settings["loss"]
    name = AUTO_LOSS[task] if name == "auto" else name
    kind = lookup("loss", name, LOSSES)
    if kind.task != task:
        fitting = [known for known, other in LOSSES.items() if other.task == task]
        what = "a numeric target" if task == "regression" else "classes"
        raise ValueError(f"the loss {name!r} is not for {what}: take one of {listed(fitting)}")
    given = {key: settings[key] for key in ("epsilon", "quantile") if settings[key] is not None}
    try:
        return make_loss(name, **given)
    except TypeError:
        raise ValueError(f"the loss {name!r} has no {' or '.join(given)}: leave it out") from None


def _mixture(settings: Settings, task: str, clients: int) -> Mixture:
    radius, center = settings["mixture_radius"], settings["mixture_center"]
    radius = AUTO_MIXTURE_RADIUS[task] if radius == "auto" else radius
    if not isinstance(center, str) and len(center) != clients:
        raise ValueError(
            f"mixture_center has {len(center)} weights, but there are {clients} clients"
        )
    return Mixture(center, radius, settings["mixture_norm"])


def _support(bounds: Mapping[str, tuple[float, float]], agreement: Agreement) -> Any:
    """The box in scaled units; features of categories are between 0 and 1."""
    if not bounds:
        return None
    low, high = [], []
    for column in agreement.columns:
        if isinstance(column, Number):
            pair = np.array(bounds.get(column.name, (-math.inf, math.inf)))
            least, most = ((pair - column.shift) / column.scale).tolist()
        else:
            least, most = 0.0, 1.0
        low += [least] * len(column.features)
        high += [most] * len(column.features)
    target = agreement.target
    y = bounds.get(target.name, (-math.inf, math.inf))
    if target.classes is not None and target.name in bounds:
        raise ValueError(f"the target {target.name!r} has classes: the support cannot bound it")
    y_low, y_high = ((bound - target.shift) / target.scale for bound in y)
    return Box(low, high, y_low, y_high)
