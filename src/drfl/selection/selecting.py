"""The choice of radius and other parameters, without seeing anyone's data; estimators with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from drfl.estimators.base import RobustModel
from drfl.estimators.classifier import DRFLClassifier, RobustClassifier
from drfl.estimators.client_table import ClientTable
from drfl.estimators.parameters import constructor, parameters_of, seed_of
from drfl.estimators.regressor import DRFLRegressor, RobustRegressor
from drfl.problem.multiclass import AUTO, OVR
from drfl.selection.choice import Selection
from drfl.selection.clients import SelectionClients, sorted_table
from drfl.selection.cross_validation import checked_noise, choose
from drfl.selection.grid import with_params


def select(
    estimator: RobustModel | Pipeline,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    rule: str = "mean",
    grid: Mapping[str, Sequence[Any]] | None = None,
    folds: int = 5,
    noise_scale: float | None = None,
    scoring: str | None = None,
    random_state: Any = None,
    verbose: int = 1,
    sample_weight: Any = None,
) -> Selection:
    r"""Choose parameters of an estimator by what clients report of rows they held out.

    Every client splits its own rows into folds. Models are trained federatedly on the rest, and
    each client answers with its score of them. The path over the radii is warm-started, and grid
    points that cannot differ are solved once. In every fold a radius is the number that it is for
    all rows.

    Parameters
    ----------
    estimator : DRFLClassifier, DRFLRegressor or one of drfl.baselines, or a pipeline of one
        Its parameters hold where the grid says nothing. What a pipeline does before is fitted once,
        to all rows.
    X, y, clients, sample_weight
        As for its ``fit``.
    rule : {"mean", "one_se", "worst_client", "noise", "new_client"}
        The best mean score, the clients weighing as in the centre of the mixture; the largest
        radius within one standard error of it; the best score of the worst client; the best mean
        score on rows with noise; the best mean score on a client that was left out, in turn. In the
        default grid "mean" and "new_client" keep the radius :math:`0.2\sqrt{n/N}`, with certain
        weights, unless a point is better by more than one paired standard error; with a grid of
        your own "new_client" takes ERM if that is better.
    grid : mapping of str to sequence, optional
        Values to try by parameter, in all combinations; by default eight radii from 0 to
        :math:`2\sqrt{n/N}` with n columns and N rows; for "new_client" with each of the mixture
        radii 0, 0.2 and 1.
    folds : int
        Into how many folds clients split their rows; without effect for "new_client".
    noise_scale : float, optional
        For "noise": the standard deviation of the noise in every feature.
    scoring : {"log_loss", "accuracy", "loss", "squared_error"}, optional
        What counts on held-out rows: by default the log loss where the loss has probabilities, else
        the accuracy; for numbers the mean loss.
    random_state : None, int or RandomState
        Decides which rows are in which fold.
    verbose : int
        If positive, progress is shown on the standard error stream.

    Returns
    -------
    Selection
        The table, the choice with its reason, and the estimator fitted to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from drfl.estimators import DRFLRegressor
    >>> X, y = np.arange(12.0)[:, None] / 4.0, np.arange(12.0)
    >>> found = select(DRFLRegressor(), X, y, folds=3, grid={"radius": [0.0, 1.0]}, verbose=0)
    >>> found.best_params
    {'radius': 0.0}
    """
    settings: dict[str, Any] = {
        "rule": rule,
        "folds": folds,
        "noise_scale": noise_scale,
        "scoring": scoring,
    }
    if isinstance(estimator, Pipeline):
        rest = {"clients": clients, "random_state": random_state, "verbose": verbose}
        return _select_last(estimator, X, y, grid, sample_weight=sample_weight, **rest, **settings)
    checked_noise(rule, noise_scale)
    estimator, taking_part = read_clients(estimator, X, y, clients, sample_weight, rule)
    seed = seed_of(random_state)
    found = choose(
        estimator, taking_part, grid=grid, random_state=seed, verbose=verbose, **settings
    )
    chosen: Any = with_params(estimator, found.best_params)
    chosen.fit(X, y, clients=clients, sample_weight=sample_weight)
    settings["seed"] = seed
    return Selection(found.table, found.best_params, found.reason, chosen, settings)


def read_clients(
    estimator: RobustModel, X: Any, y: Any, clients: Any, sample_weight: Any, rule: str
) -> tuple[RobustModel, SelectionClients]:
    """Who takes part, and a copy of the estimator that has read them and lacks no class."""
    _check_estimator(estimator)
    reader = with_params(estimator, {})
    reader.checked_parameters()
    table = sorted_table(reader.read_rows(X, y, clients, sample_weight))
    if _may_lack_a_class(reader, table, rule):
        reader.set_params(multiclass=OVR)
    return reader, SelectionClients.read(reader, table, named=clients is not None)


def _may_lack_a_class(reader: Any, table: ClientTable, rule: str) -> bool:
    """Whether classes are told apart at once, and a training part may be without one of them.

    Rows are sorted by their labels: of three rows of a class at a client, two are in different
    folds. Where clients are left out, a class has to be at two of them.
    """
    classes = reader.n_classes
    if classes in (None, 2) or reader.get_params().get("multiclass") != AUTO:
        return False
    counts = np.zeros((len(table.names), classes))
    np.add.at(counts, (table.member, table.y.astype(np.intp)), 1)
    enough = (counts > 0).sum(axis=0) > 1 if rule == "new_client" else counts.max(axis=0) > 2
    return not bool(enough.all())


def _select_last(pipeline: Pipeline, X: Any, y: Any, grid: Any, **given: Any) -> Selection:
    """The same of the last step of a pipeline; those before are fitted once, to all rows."""
    (name, last), before = pipeline.steps[-1], clone(pipeline[:-1])
    prefix = f"{name}__"
    if grid is not None:
        grid = {k.removeprefix(prefix): values for k, values in grid.items()}
    found = select(last, before.fit_transform(X, y), y, grid=grid, **given)
    whole = Pipeline([*before.steps, (name, found.estimator)])
    return replace(found, estimator=whole)


def _check_estimator(estimator: Any) -> None:
    if not (isinstance(estimator, RobustModel) and estimator.proves):
        raise TypeError(
            "estimator must be a DRFLClassifier, a DRFLRegressor or one of drfl.baselines, got "
            f"{type(estimator).__name__}"
        )


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
