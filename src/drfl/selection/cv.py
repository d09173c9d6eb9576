"""Estimators that choose their own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from drfl.estimators.base import RobustModel
from drfl.estimators.classifier import DRFLClassifier, RobustClassifier
from drfl.estimators.parameters import constructor, parameters_of
from drfl.estimators.regressor import DRFLRegressor, RobustRegressor
from drfl.selection.selecting import select

OWN: Mapping[str, Any] = {
    "rule": "mean",
    "grid": None,
    "folds": 5,
    "noise_scale": None,
    "scoring": None,
}
"""Parameters that they have beside those of the estimator, with their defaults."""


class SelectingModel(RobustModel):
    """What they share: a fit is a selection. Abstract: parameters are added below."""

    proves: ClassVar[bool] = False  # of what was stated: parameters are chosen
    _base: ClassVar[type[RobustModel]]
    """The estimator whose parameters are chosen."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_base" in vars(cls):
            base = parameters_of(cls._base)
            cls.__init__ = constructor({"loss": base["loss"], **OWN, **base})  # type: ignore[method-assign]

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Choose parameters with `drfl.select`, then fit the model with them to all rows.

        Parameters
        ----------
        X, y, clients, sample_weight
            As for the estimator whose parameters are chosen.
        """
        params = self.get_params(deep=False)
        settings = {name: params.pop(name) for name in OWN}
        found = select(
            self._base(**params),
            X,
            y,
            clients,
            **settings,
            random_state=params["random_state"],
            verbose=params["verbose"],
            sample_weight=sample_weight,
        )
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of an earlier fit
        for name, value in vars(found.estimator).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self.selection_, self.best_params_ = found, found.best_params
        return self


class DRFLClassifierCV(SelectingModel, RobustClassifier):
    r"""A `drfl.DRFLClassifier` whose radius, or other parameters, `drfl.select` chooses.

    Parameters
    ----------
    loss, radius, label_cost, norm, support, mixture_radius, mixture_norm, mixture_center,
    max_weight
        As of `drfl.DRFLClassifier`; what the grid names is taken from there.
    rule : {"mean", "one_se", "worst_client", "noise", "new_client"}
        How to choose.
    grid : mapping of str to sequence, optional
        Values to try by parameter; by default eight radii.
    folds : int
        Into how many folds each client splits its rows.
    noise_scale : float, optional
        For the rule "noise": the standard deviation of the noise in every feature.
    scoring : str, optional
        What counts on held-out rows, as of `drfl.select`.
    intercept, solver, curvature, tol, max_rounds, engine, class_weight
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


class DRFLRegressorCV(SelectingModel, RobustRegressor):
    r"""A `drfl.DRFLRegressor` whose radius, or other parameters, `drfl.select` chooses.

    Parameters
    ----------
    loss, epsilon, quantile, radius, label_cost, norm, support
        As of `drfl.DRFLRegressor`; what the grid names is taken from there.
    mixture_radius, mixture_norm, mixture_center, max_weight
        As of `drfl.DRFLRegressor`.
    rule, grid, folds, noise_scale, scoring, random_state, verbose
        As of `drfl.DRFLClassifierCV`.
    intercept, solver, curvature, tol, max_rounds, engine
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
