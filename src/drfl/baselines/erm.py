"""Empirical risk minimisation, the problem of FedAvg: rows and weights are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drfl.baselines.afl import TRUST_ROWS
from drfl.engines import Engine
from drfl.estimators.classification import RobustClassifier
from drfl.estimators.regression import RobustRegressor
from drfl.losses import Loss

TRUST_ALL = {**TRUST_ROWS, "mixture_radius": 0.0, "mixture_norm": 1}
"""Rows and weights are what they are."""


class ERMClassifier(RobustClassifier):
    r"""Empirical risk minimisation: a classifier for the clients' mean losses.

    .. math:: \min_{w,b}\ \sum_s\hat q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLClassifier`, whose radii are 0 here. Among
    equally good models one of nearly the smallest norm is taken. ``mixture_center`` is "uniform",
    as in the paper; "proportional" weighs every row the same.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> ERMClassifier().fit(X, y).predict([[3.0]])
    array([1])
    """

    _fixed = TRUST_ALL

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
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


class ERMRegressor(RobustRegressor):
    r"""Empirical risk minimisation: a regression for the clients' mean losses.

    .. math:: \min_{w,b}\ \sum_s\hat q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLRegressor`, whose radii are 0 here.
    """

    _fixed = TRUST_ALL

    def __init__(
        self,
        loss: str | Loss = "huber",
        *,
        epsilon: float | None = None,
        quantile: float | None = None,
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
        self.mixture_center = mixture_center
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
