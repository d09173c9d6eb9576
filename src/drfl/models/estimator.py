"""Fitted estimators of model files, and the models of fitted estimators and their pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from drfl._registry import listed
from drfl.arrays import Array
from drfl.estimators.base import RobustModel, by_client
from drfl.estimators.classifier import ClassScores
from drfl.models.calibration import Labelled, calibrated_model, from_prevalence
from drfl.models.document import Calibration, ClientPart, Model, ProofRecord
from drfl.models.file_rows import features_of
from drfl.tables import Category, Column, Number
from drfl.tables.encoding import Target
from drfl.tables.table import as_text


class LoadedModel(BaseEstimator):  # type: ignore[misc]
    """A fitted model from a file; it takes the original columns.

    Parameters
    ----------
    model : drfl.models.Model
        What the file holds.

    Attributes
    ----------
    coef_, intercept_ : arrays
        As of `drfl.DRFLClassifier` and `drfl.DRFLRegressor`, of scaled features.
    feature_names_in_ : array of str
        The original columns.
    problem_ : drfl.Problem
        What was minimised.
    objective_, lower_bound_, gap_ : arrays of shape (K,)
        What was proved of each problem.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.feature_names_in_ = np.array([c.name for c in model.columns], dtype=object)
        self.n_features_in_ = len(model.columns)
        self.coef_, self.intercept_ = model.coef, model.intercept
        self.problem_ = model.problem
        certificates = model.certificates
        self.objective_ = np.array([c.objective for c in certificates])
        self.lower_bound_ = np.array([c.lower_bound for c in certificates])
        self.gap_ = np.array([c.gap for c in certificates])

    def fit(self, X: Any, y: Any) -> Self:
        """Refuse: what was loaded is fitted."""
        raise TypeError("a loaded model is fitted already: train a new one with `drfl train`")

    def _scores(self, X: Any, clients: Any = None) -> Array:
        rows = features_of(X, self.model)
        if clients is None:
            return self.model.at(None).scores(rows)
        return by_client(
            rows.shape[0], clients, lambda name, at: self.model.at(name).scores(rows[at])
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True


class LoadedClassifier(ClassScores, LoadedModel):
    """A fitted classifier from a file; see `LoadedModel`. ``classes_`` are the classes."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.classes_ = np.array(model.target.classes)

    def predict_proba(self, X: Any, clients: Any = None) -> Array:
        """Probabilities of the classes (N, K), for the logistic loss or a calibrated model."""
        names = [None] if clients is None else np.unique(np.atleast_1d(clients)).tolist()
        if not all(self.model.at(name).probabilistic for name in names):
            raise AttributeError(
                "probabilities need a model with the logistic loss, or a calibration of its scores "
                "(`drfl calibrate --kind slope`)"
            )
        return self.model.probabilities(self._scores(X, clients))


class LoadedRegressor(RegressorMixin, LoadedModel):  # type: ignore[misc]
    """A fitted regressor from a file; see `LoadedModel`."""

    def predict(self, X: Any, clients: Any = None) -> Array:
        """Predict the targets of rows (N,), in their own units; clients as for classes."""
        return self._scores(X, clients)[:, 0]


def loaded(model: Model) -> LoadedModel:
    """The estimator of a model."""
    return LoadedRegressor(model) if model.target.classes is None else LoadedClassifier(model)


def model_of(estimator: Any) -> Model:
    """The model of a fitted estimator."""
    if isinstance(estimator, LoadedModel):
        return estimator.model
    steps: list[Any] = []
    names = input_names(estimator)
    if hasattr(estimator, "steps"):
        *steps, estimator = (step for _, step in estimator.steps)
    network = getattr(getattr(estimator, "problem_", None), "network", None)
    if network is not None:
        estimator.problem_.to_dict()  # or the sentence that says why not
        coef, intercept = estimator.parameters_, 0.0
    elif isinstance(estimator, RobustModel):
        check_is_fitted(estimator)
        coef, intercept = estimator.coef_, estimator.intercept_
    else:
        raise TypeError(f"this is none of drfl's estimators: {type(estimator).__name__}")
    results = estimator.result_ if isinstance(estimator.result_, list) else [estimator.result_]
    classes = getattr(estimator, "classes_", None)
    return Model(
        target=Target("target", None if classes is None else tuple(classes.tolist())),
        columns=columns_of(steps, names),
        scale="federated" if steps else "none",
        missing="error",
        coef=np.atleast_2d(coef),
        intercept=np.atleast_1d(intercept),
        problem=estimator.problem_,
        certificates=tuple(ProofRecord.of(result) for result in results),
        clients=tuple(
            ClientPart(
                str(name),
                0,
                tuple(float(list(r.weights.values())[k]) for r in results),
                tuple(float(list(r.client_losses.values())[k]) for r in results),
            )
            for k, name in enumerate(estimator.client_names_)
        ),
        version=version("drfl"),
        calibrations={
            str(name): Calibration.trained(own)
            for name, own in getattr(estimator, "intercepts_", {}).items()
        },
    )


def calibrated(
    estimator: Any, X: Any, y: Any, clients: Any, kind: str, prevalence: float | None
) -> LoadedModel:
    """See `drfl.calibrate`."""
    model = model_of(estimator)
    rows = features_of(X, model)
    whose = np.broadcast_to(np.asarray(clients), (rows.shape[0],))
    names = [str(name) for name in np.unique(whose).tolist()]
    if (y is None) == (prevalence is None):
        raise ValueError("give the classes of the rows, y, or their prevalence, and not both")
    if prevalence is not None:
        if len(names) > 1:
            raise ValueError("a prevalence is that of one client: give its rows alone")
        return loaded(from_prevalence(model, names[0], rows, prevalence))
    codes = coded(model, np.asarray(y))
    parts = {
        str(name): Labelled(rows[whose == name], codes[whose == name])
        for name in np.unique(whose).tolist()
    }
    return loaded(calibrated_model(model, parts, kind=kind))


def coded(model: Model, y: NDArray[Any]) -> Array:
    """Positions of classes, or scaled targets."""
    classes = model.target.classes
    if classes is None:
        return (y.astype(np.float64) - model.target.shift) / model.target.scale
    known = {label: float(k) for k, label in enumerate(classes)}
    unknown = [label for label in y.tolist() if label not in known]
    if unknown:
        raise ValueError(
            f"y has the class {unknown[0]!r}, which the model does not know: it knows "
            f"{listed(known)}"
        )
    return np.array([known[label] for label in y.tolist()])


def input_names(estimator: Any) -> list[str]:
    """What the columns are called that a fitted estimator, or a pipeline, takes."""
    first = estimator
    while hasattr(first, "steps") and not hasattr(first, "feature_names_in_"):
        first = first.steps[0][1]
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        names = [f"x{j + 1}" for j in range(getattr(first, "n_features_in_", 0))]
    return [str(name) for name in names]


# ---------------------------------------------------------------- transformers before an estimator
NONE = "(none of these)"  # the reference of a category that has a feature for each of its values
KNOWN = "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, SimpleImputer, OneHotEncoder"


def columns_of(steps: Sequence[Any], names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a model, in the order of the features that fitted transformers make.

    The steps stand before the estimator, in order; the names are of what goes into the first.
    """
    columns: tuple[Column, ...] = tuple(Number(name) for name in names)
    for step in steps:
        columns = _after(step, columns)
    used = [column.name for column in columns]
    twice = [name for k, name in enumerate(used) if name in used[:k]]
    if twice:
        raise TypeError(f"column {twice[0]!r} is used twice: a model file has it once")
    return columns


def _after(step: Any, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns after one more transformer."""
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            columns = _after(part, columns)
        return columns
    if isinstance(step, ColumnTransformer):
        return _chosen(step, columns)
    if isinstance(step, str | None) or (isinstance(step, FunctionTransformer) and not step.func):
        return columns  # "passthrough"
    if isinstance(step, OneHotEncoder):
        return _categories(step, columns)
    if not all(isinstance(column, Number) for column in columns):
        raise TypeError(f"a {type(step).__name__} after categories has no place in a model file")
    if isinstance(step, SimpleImputer) and not step.add_indicator:
        return _filled(step, columns)
    shift, scale = _units(step, len(columns))
    return tuple(
        # Twice scaled: (x - a)/b, then (that - c)/d.
        Number(c.name, c.shift + c.scale * float(a), c.scale * float(b), c.fill)
        for c, a, b in zip(columns, shift, scale, strict=True)
        if isinstance(c, Number)
    )


def _chosen(step: ColumnTransformer, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    places = {column.name: k for k, column in enumerate(columns)}
    found: list[Column] = []
    for _, part, chosen in step.transformers_:
        if part == "drop":
            continue
        at = _positions(chosen, places, len(columns))
        found += _after(part, tuple(columns[k] for k in at))
    return tuple(found)


def _positions(chosen: Any, places: dict[str, int], n: int) -> list[int]:
    """Which columns a part of a ColumnTransformer was fitted to."""
    if isinstance(chosen, str):
        return [places[chosen]]
    if isinstance(chosen, slice):
        return list(range(n))[chosen]
    given = np.atleast_1d(np.asarray(chosen, dtype=object)).tolist()
    if all(isinstance(k, bool | np.bool_) for k in given):
        return [k for k, wanted in enumerate(given) if wanted]
    return [places[k] if isinstance(k, str) else range(n)[int(k)] for k in given]


def _filled(step: SimpleImputer, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Gaps filled, in the units that the columns had in the file."""
    try:
        values = np.asarray(step.statistics_, dtype=np.float64)
    except ValueError:
        raise TypeError("a SimpleImputer of text has no place in a model file") from None
    if np.isnan(values).any():
        raise TypeError("a column without any value was dropped by a SimpleImputer: leave it out")
    return tuple(
        Number(c.name, c.shift, c.scale, c.shift + c.scale * float(value))
        for c, value in zip(columns, values, strict=True)
        if isinstance(c, Number)
    )


def _categories(step: OneHotEncoder, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """A feature for every value, or for all but the one that is dropped."""
    if step.min_frequency is not None or step.max_categories is not None:
        raise TypeError("a OneHotEncoder that merges rare values has no place in a model file")
    dropped = [None] * len(columns) if step.drop_idx_ is None else step.drop_idx_
    found: list[Column] = []
    for column, values, drop in zip(columns, step.categories_, dropped, strict=True):
        texts = [as_text(value) for value in values.tolist()]
        reference = NONE if drop is None else texts.pop(int(drop))
        if not texts:
            continue  # one value only, and that is the reference
        found.append(Category(column.name, reference, tuple(texts)))
    return tuple(found)


def _units(step: Any, n: int) -> tuple[Any, Any]:
    """Shift and scale (n,) of a scaler."""
    zeros, ones = np.zeros(n), np.ones(n)
    if isinstance(step, StandardScaler):
        return _or(step.mean_ if step.with_mean else None, zeros), _or(step.scale_, ones)
    if isinstance(step, RobustScaler):
        return _or(step.center_, zeros), _or(step.scale_, ones)
    if isinstance(step, MaxAbsScaler):
        return zeros, step.scale_
    if isinstance(step, MinMaxScaler) and not step.clip:
        return -step.min_ / step.scale_, 1.0 / step.scale_
    raise TypeError(
        f"{type(step).__name__} has no place in a model file, which knows {KNOWN}, in pipelines "
        "and ColumnTransformers: transform the rows first, and use the estimator alone"
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
