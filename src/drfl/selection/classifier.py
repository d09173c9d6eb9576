"""A robust classifier that chooses its radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from drfl.engines import Engine
from drfl.estimators.classification import RobustClassifier
from drfl.estimators.classifier import DRFLClassifier
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.selection.cv import SelectingModel
from drfl.supports import Support


class DRFLClassifierCV(SelectingModel, RobustClassifier):
    r"""A `drfl.DRFLClassifier` whose radius, or other parameters, `drfl.select` chooses.

    Parameters
    ----------
    loss, radius, label_cost, norm, support, mixture_radius, mixture_norm, mixture_center
        As of `drfl.DRFLClassifier`; what the grid names is taken from there.
    rule : {"mean", "one_se", "worst_client", "noise", "new_client"}
        How to choose.
    grid : mapping of str to sequence, optional
        Values to try by parameter; by default seven radii.
    folds : int
        Into how many folds each client splits its rows.
    noise_scale : float, optional
        For the rule "noise": the standard deviation of the noise in every feature.
    fit_intercept, solver, curvature, tol, max_rounds, engine, class_weight
        As of `drfl.DRFLClassifier`.
    random_state : None, int or RandomState
        Decides which rows are in which fold.
    verbose : int
        If positive, progress is shown on the standard error stream.

    Attributes
    ----------
    best_params_ : dict
        The parameters that were chosen.
    selection_ : drfl.Selection
        The table and the reason.
    coef_, intercept_, classes_, objective_, ...
        As of `drfl.DRFLClassifier`, fitted with these parameters to all rows.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> model = DRFLClassifierCV(grid={"radius": [0.1, 1.0]}, folds=2).fit(X, y)
    >>> model.best_params_, model.predict([[3.0]])
    ({'radius': 0.1}, array([1]))
    """

    _base = DRFLClassifier

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        rule: str = "mean",
        grid: Mapping[str, Sequence[Any]] | None = None,
        folds: int = 5,
        noise_scale: float | None = None,
        radius: Any = "auto",
        label_cost: float = math.inf,
        norm: str | Norm = "l1",
        support: Support | None = None,
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
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
