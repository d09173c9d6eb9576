"""Fitted estimators of model files, and the models of fitted estimators."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from drfl.arrays import Array
from drfl.estimators.base import RobustModel
from drfl.models.document import ClientPart, Model, ProofRecord
from drfl.models.frames import features_of
from drfl.models.preprocessing import columns_of
from drfl.result import Result
from drfl.tables.encoding import Target


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
        What was proved of each linear model.
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

    def _scores(self, X: Any) -> Array:
        return self.model.scores(features_of(X, self.model))

    def __sklearn_is_fitted__(self) -> bool:
        return True


class LoadedClassifier(ClassifierMixin, LoadedModel):  # type: ignore[misc]
    """A fitted classifier from a file; see `LoadedModel`. ``classes_`` are the classes."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.classes_ = np.array(model.target.classes)

    def decision_function(self, X: Any) -> Array:
        """Scores of rows: (N,) for two classes, positive for the second; else (N, K)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the classes of rows (N,)."""
        return np.asarray(self.classes_[self.model.positions(self._scores(X))])

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes (N, K), for the logistic loss."""
        if not self.model.probabilistic:
            raise AttributeError("probabilities need a model with the logistic loss")
        return self.model.probabilities(self._scores(X))


class LoadedRegressor(RegressorMixin, LoadedModel):  # type: ignore[misc]
    """A fitted regressor from a file; see `LoadedModel`."""

    def predict(self, X: Any) -> Array:
        """Predict the targets of rows (N,), in their own units."""
        return self._scores(X)[:, 0]


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
    if not isinstance(estimator, RobustModel):
        raise TypeError(f"this is none of drfl's estimators: {type(estimator).__name__}")
    check_is_fitted(estimator)
    columns = columns_of(steps, names)
    results = estimator.result_ if isinstance(estimator.result_, list) else [estimator.result_]
    classes = getattr(estimator, "classes_", None)
    return Model(
        target=Target("target", None if classes is None else tuple(classes.tolist())),
        columns=columns,
        scale="federated" if steps else "none",
        missing="error",
        coef=np.atleast_2d(estimator.coef_),
        intercept=np.atleast_1d(estimator.intercept_),
        problem=estimator.problem_,
        certificates=tuple(certificate(result) for result in results),
        clients=_clients([str(name) for name in estimator.client_names_], results),
        version=version("drfl"),
    )


def input_names(estimator: Any) -> list[str]:
    """What the columns are called that a fitted estimator, or a pipeline, takes."""
    first = estimator
    while hasattr(first, "steps") and not hasattr(first, "feature_names_in_"):
        first = first.steps[0][1]
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        names = [f"x{j + 1}" for j in range(getattr(first, "n_features_in_", 0))]
    return [str(name) for name in names]


def certificate(result: Result) -> ProofRecord:
    """What a result has proved."""
    return ProofRecord(
        result.objective, result.lower_bound, result.gap, result.status, result.rounds
    )


def _clients(names: list[str], results: list[Result]) -> tuple[ClientPart, ...]:
    return tuple(
        ClientPart(
            name,
            0,
            tuple(float(list(r.weights.values())[k]) for r in results),
            tuple(float(list(r.client_losses.values())[k]) for r in results),
        )
        for k, name in enumerate(names)
    )
