"""Wasserstein-robust federated learning (Nguyen et al., 2022) as the paper compares with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drfl.engines import Engine
from drfl.estimators.classification import RobustClassifier
from drfl.estimators.regression import RobustRegressor
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.supports import Support

ONE_BALL = {"mixture_radius": 0.0, "mixture_norm": 1, "shared_ball": True}
"""The weights are certain, and there is one ball around the mixture."""


class WAFLClassifier(RobustClassifier):
    r"""WAFL: a classifier for the worst case over one ball around the mixture of all clients.

    .. math:: \min_{w,b}\ \sup\{E_PL : W(P,{\textstyle\sum_s\hat q_s\hat P_s})\le\rho\}

    Parameters and attributes are those of `drfl.DRFLClassifier` with mixture radius 0, but there is
    one radius; "auto" is :math:`0.1/\sqrt N` with the total weight N of all rows. The losses of the
    clients are those at the multiplier that they share, and `worst_case` is that of the mixture,
    under the name "all".

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> WAFLClassifier(radius=0.1).fit(X, y, clients=[1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """

    _fixed = ONE_BALL

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        radius: str | float = "auto",
        label_cost: float = math.inf,
        norm: str | Norm = "l1",
        support: Support | None = None,
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
        self.radius = radius
        self.label_cost = label_cost
        self.norm = norm
        self.support = support
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


class WAFLRegressor(RobustRegressor):
    r"""WAFL: a regression for the worst case over one ball around the mixture of all clients.

    .. math:: \min_{w,b}\ \sup\{E_PL : W(P,{\textstyle\sum_s\hat q_s\hat P_s})\le\rho\}

    Parameters and attributes are those of `drfl.DRFLRegressor` with mixture radius 0, but there is
    one radius; see `WAFLClassifier`.
    """

    _fixed = ONE_BALL

    def __init__(
        self,
        loss: str | Loss = "huber",
        *,
        epsilon: float | None = None,
        quantile: float | None = None,
        radius: str | float = "auto",
        label_cost: float = math.inf,
        norm: str | Norm = "l1",
        support: Support | None = None,
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
        self.radius = radius
        self.label_cost = label_cost
        self.norm = norm
        self.support = support
        self.mixture_center = mixture_center
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
