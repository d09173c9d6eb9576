"""Agnostic federated learning (Mohri, Sivek, Suresh, 2019): robust against the weights alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drfl.engines import Engine
from drfl.estimators.classification import RobustClassifier
from drfl.estimators.regression import RobustRegressor
from drfl.losses import Loss

TRUST_ROWS = {
    "radius": 0.0,
    "label_cost": math.inf,
    "norm": "l1",
    "support": None,
    "shared_ball": False,
}
"""The rows are what they are: balls of radius 0."""


class AFLClassifier(RobustClassifier):
    r"""Agnostic federated learning: a classifier for the worst weights of the clients.

    .. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLClassifier`, whose radius is 0 here. Among
    equally good models one of nearly the smallest norm is taken.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> AFLClassifier().fit(X, y, clients=[1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """

    _fixed = TRUST_ROWS

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        mixture_radius: float = 0.2,
        mixture_norm: float = 1,
        mixture_center: Any = "uniform",
        fit_intercept: bool = True,
        solver: str = "auto",
        curvature: str = "auto",
        tol: float = 1e-6,
        max_rounds: int = 200,
        engine: str | Engine | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.mixture_radius = mixture_radius
        self.mixture_norm = mixture_norm
        self.mixture_center = mixture_center
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose


class AFLRegressor(RobustRegressor):
    r"""Agnostic federated learning: a regression for the worst weights of the clients.

    .. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLRegressor`, whose radius is 0 here.
    """

    _fixed = TRUST_ROWS

    def __init__(
        self,
        loss: str | Loss = "huber",
        *,
        epsilon: float | None = None,
        quantile: float | None = None,
        mixture_radius: float = 0.2,
        mixture_norm: float = 1,
        mixture_center: Any = "uniform",
        fit_intercept: bool = True,
        solver: str = "auto",
        curvature: str = "auto",
        tol: float = 1e-6,
        max_rounds: int = 200,
        engine: str | Engine | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.mixture_radius = mixture_radius
        self.mixture_norm = mixture_norm
        self.mixture_center = mixture_center
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
