"""The problem of distributionally robust federated averaging (Deng, Kamani, Mahdavi, 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drfl.baselines.afl import TRUST_ROWS
from drfl.engines import Engine
from drfl.estimators.classification import RobustClassifier
from drfl.estimators.regression import RobustRegressor
from drfl.losses import Loss

WORST_CLIENT = {
    **TRUST_ROWS,
    "mixture_radius": math.inf,
    "mixture_norm": 1,
    "mixture_center": "uniform",
}
"""Rows are what they are, and nothing is known of the weights."""


class DRFAClassifier(RobustClassifier):
    r"""The problem of DRFA: a classifier for the client with the largest loss.

    .. math:: \min_{w,b}\ \max_s\ E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLClassifier`, whose radius is 0 and whose
    mixture radius is infinite here. Among equally good models one of nearly the smallest norm is
    taken.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> DRFAClassifier().fit(X, y, clients=[1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """

    _fixed = WORST_CLIENT

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
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
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose


class DRFARegressor(RobustRegressor):
    r"""The problem of DRFA: a regression for the client with the largest loss.

    .. math:: \min_{w,b}\ \max_s\ E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLRegressor`, whose radius is 0 and whose mixture
    radius is infinite here.
    """

    _fixed = WORST_CLIENT

    def __init__(
        self,
        loss: str | Loss = "huber",
        *,
        epsilon: float | None = None,
        quantile: float | None = None,
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
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
