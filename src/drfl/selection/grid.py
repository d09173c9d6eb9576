"""The grid: which points there are, and which of them state the same problem."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from drfl.defaults import ANCHOR, radius_of
from drfl.estimators.base import RobustModel
from drfl.estimators.choices import Choices
from drfl.problem import Problem
from drfl.selection.clients import SelectionClients
from drfl.uncertainty import Ball, Mixture

FACTORS = (0.0, 0.02, 0.05, 0.1, ANCHOR, 0.5, 1.0, 2.0)
"""The default radii are these times the root of columns over rows."""
THETAS = (0.0, 0.2, 1.0)
"""The default mixture radii where a client is left out."""


@dataclass(frozen=True)
class Candidate:
    """A grid point: parameters, checked, and the problem that they state for all clients."""

    params: dict[str, Any]
    choices: Choices
    problem: Problem
    radius: float  # the mean over the clients: how cautious it is
    key: str  # candidates with the same key have the same solutions

    @property
    def shell(self) -> Problem:
        """What clients are placed for: radius, label cost and weights come with the messages."""
        # A shared ball has a multiplier only where its radius is positive.
        radius = 1.0 if self.choices.shared_ball else 0.0
        ball = replace(self.choices.ball, radius=radius, label_cost=math.inf)
        curves = self.problem.curves
        return Problem(
            self.choices.loss,
            ball,
            intercept=self.choices.intercept,
            shared_ball=self.choices.shared_ball,
            curves=None if curves is None else curves.free(),  # rules are the server's
            classes=self.problem.classes,
        )

    @property
    def order(self) -> tuple[Any, ...]:
        """Along the path radii ascend; everything else changes more rarely."""
        mixture, cost = self.problem.mixture, self.choices.ball.label_cost
        return str(mixture.center), mixture.p, mixture.radius, cost, self.radius


def default_grid(
    clients: SelectionClients, params: Mapping[str, Any], rule: str
) -> dict[str, list[Any]]:
    """What is tried where the user names no grid: radii, and for a new client mixture radii."""
    grid: dict[str, list[Any]] = {}
    if rule == "new_client" and "mixture_radius" in params and len(clients.names) > 2:
        grid["mixture_radius"] = list(THETAS)
    if "radius" in params:
        shaped = clients.curves is not None and clients.curves.shaped
        tried = FACTORS[1:] if shaped else FACTORS  # rules for shapes need a radius
        grid["radius"] = [rounded_radius(factor, clients) for factor in tried]
    return grid


def rounded_radius(factor: float, clients: SelectionClients) -> float:
    """A factor times the root of columns over rows, to two digits."""
    radius = radius_of(factor, clients.n_features, float(clients.totals.sum()))
    return float(f"{radius:.2g}")


def anchor_params(clients: SelectionClients, grid: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The point of the default grid that is kept unless another is clearly better."""
    anchor = {"mixture_radius": 0.0, "radius": rounded_radius(ANCHOR, clients)}
    return {name: anchor[name] for name in grid}


def grid_points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The parameters of every grid point; the last name varies fastest."""
    if isinstance(grid, Mapping) and {"additive", "knots", "shapes"} & set(grid):
        raise ValueError(
            "curves cannot be in the grid: compare them with lines by drfl.selection.select_curves"
        )
    if not isinstance(grid, Mapping) or not grid:
        raise TypeError("grid must be a mapping from parameters to the values to try, or None")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
            raise TypeError(f"grid must give a list of values for {name!r}, got {values!r}")
        if name == "multiclass":
            raise ValueError(
                "multiclass cannot be in the grid: the classes are counted in another way then"
            )
        if name == "class_weight":
            raise ValueError(
                "class_weight cannot be in the grid: rows weigh in the scores as they do in the "
                "fit, and such scores do not compare"
            )
        if len(values) == 0:
            raise ValueError(f"grid has no value for {name!r}: give at least one")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def with_params(estimator: RobustModel, params: Mapping[str, Any]) -> RobustModel:
    """A fresh estimator with some parameters changed; an engine among them stays the same one."""
    fresh: RobustModel = type(estimator)(**estimator.get_params(deep=False))
    fresh.set_params(**params)
    return fresh


def candidate(
    estimator: RobustModel, params: Mapping[str, Any], clients: SelectionClients
) -> Candidate:
    """Check one grid point against the estimator and the clients."""
    choices = with_params(estimator, params).checked_parameters()
    curves = clients.curves
    n, names = clients.n_features, list(clients.names)
    problem = choices.problem(names, clients.totals, n, curves, clients.classes_at_once)
    radii = [problem.ball_of(label).radius for label in clients.labels]
    key = json.dumps(essential(problem, clients).to_dict(), sort_keys=True)
    return Candidate(dict(params), choices, problem, float(np.mean(radii)), key)


def essential(problem: Problem, clients: SelectionClients) -> Problem:
    """The same problem without parameters that have no effect.

    With radius 0 there are no norm, label cost and support to speak of; one client has one
    weight, and weights without a radius have no norm.
    """
    if problem.curves is not None:
        return problem
    balls = {label: _essential_ball(problem.ball_of(label)) for label in clients.labels}
    if all(ball.radius == 0.0 for ball in balls.values()):
        balls = dict.fromkeys(balls, Ball())
    mixture, shared = problem.mixture, problem.shared_ball
    if len(clients.labels) == 1:
        mixture, shared = Mixture(), False
    elif mixture.radius == 0.0:
        mixture = replace(mixture, p=1.0)
    elif mixture.resolve(clients.totals).is_simplex:
        mixture = Mixture(radius=math.inf)
    if shared and problem.ball_of(clients.labels[0]).radius > 0.0:
        return replace(problem, mixture=mixture)
    return replace(problem, ball=balls, mixture=mixture, shared_ball=False)


def _essential_ball(ball: Ball) -> Ball:
    return ball if ball.radius > 0.0 else replace(ball, radius=0.0, label_cost=math.inf)


def for_clients(
    problem: Problem, clients: SelectionClients, kept: Sequence[int], names: Sequence[str]
) -> Problem:
    """The problem of some of the clients, under other names; weights keep their proportions."""
    labels = clients.labels
    totals = dict(zip(labels, clients.totals.tolist(), strict=True))
    return problem.among(totals, {n: labels[s] for n, s in zip(names, kept, strict=True)})
