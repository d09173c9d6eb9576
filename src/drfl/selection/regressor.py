"""A robust regression that chooses its radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from drfl.engines import Engine
from drfl.estimators.regression import RobustRegressor
from drfl.estimators.regressor import DRFLRegressor
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.selection.cv import SelectingModel
from drfl.supports import Support


class DRFLRegressorCV(SelectingModel, RobustRegressor):
    r"""A `drfl.DRFLRegressor` whose radius, or other parameters, `drfl.select` chooses.

    Parameters
    ----------
    loss, epsilon, quantile, radius, label_cost, norm, support
        As of `drfl.DRFLRegressor`; what the grid names is taken from there.
    mixture_radius, mixture_norm, mixture_center
        As of `drfl.DRFLRegressor`.
    rule, grid, folds, noise_scale, random_state, verbose
        As of `drfl.DRFLClassifierCV`.
    fit_intercept, solver, curvature, tol, max_rounds, engine
        As of `drfl.DRFLRegressor`.

    Attributes
    ----------
    best_params_, selection_
        As of `drfl.DRFLClassifierCV`.
    coef_, intercept_, objective_, ...
        As of `drfl.DRFLRegressor`, fitted with these parameters to all rows.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [0.0], [1.0], [2.0]], [-4.0, -2.0, 0.0, 2.0, 4.0]
    >>> DRFLRegressorCV(grid={"radius": [0.0, 1.0]}, folds=2).fit(X, y).best_params_
    {'radius': 0.0}
    """

    _base = DRFLRegressor

    def __init__(
        self,
        loss: str | Loss = "huber",
        *,
        epsilon: float | None = None,
        quantile: float | None = None,
        rule: str = "mean",
        grid: Mapping[str, Sequence[Any]] | None = None,
        folds: int = 5,
        noise_scale: float | None = None,
        radius: Any = "auto",
        label_cost: float = math.inf,
        norm: str | Norm = "l1",
        support: Support | None = None,
        mixture_radius: float = 0.0,
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
        self.rule = rule
        self.grid = grid
        self.folds = folds
        self.noise_scale = noise_scale
        self.radius = radius
        self.label_cost = label_cost
        self.norm = norm
        self.support = support
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
