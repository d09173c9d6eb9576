"""What every robust classifier does, whatever its parameters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from drfl._registry import listed
from drfl.arrays import Array
from drfl.estimators.base import RobustModel
from drfl.estimators.table import ClientTable
from drfl.losses import Logistic, Task
from drfl.one_vs_rest import decided, is_nothing, margin_target, positives, probabilities
from drfl.result import Result


def _is_logistic(model: Any) -> bool:
    return isinstance(model.loss, Logistic) or model.loss == Logistic.name


class NothingLearnedWarning(UserWarning):
    """Every coefficient of a model for several classes is zero."""


class RobustClassifier(ClassifierMixin, RobustModel):  # type: ignore[misc]
    """What classifiers share. Abstract: parameters are added below."""

    _task: ClassVar[Task] = "classification"

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model: one for two classes, otherwise one per class against the rest.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (N, n)
            The rows, best standardised.
        y : array of shape (N,)
            Their classes.
        clients : array of shape (N,), optional
            The name of each row's client; without it there is one client.
        sample_weight : array of shape (N,), optional
            Weights of the rows: a weight 2 is a row that occurs twice.
        """
        choices = self.checked_parameters()
        table = self.read_rows(X, y, clients, sample_weight)
        self._fit(choices, table, self.model_targets, named=clients is not None)
        return self

    def read_rows(self, X: Any, y: Any, clients: Any, sample_weight: Any) -> ClientTable:
        X, y = self._validated(X, y)
        check_classification_targets(y)
        table = ClientTable.of(X, y, clients, sample_weight).present()
        self.classes_, codes = np.unique(table.y, return_inverse=True)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y has one class only, {only!r}: two are needed at least")
        self.class_weight_ = _class_weights(self.class_weight, self.classes_, codes, table.weight)
        return table.coded(codes.astype(np.float64), self.class_weight_[codes])

    def _set_model(self, results: list[Result]) -> None:
        self.coef_ = np.array([result.coef for result in results])
        self.intercept_ = np.array([result.intercept for result in results])
        if len(results) > 1 and is_nothing(self.coef_):
            warnings.warn(
                "all coefficients are zero: the model predicts nothing, and which class it names "
                "is rounding noise; take a smaller radius, or loss='logistic'",
                NothingLearnedWarning,
                stacklevel=4,  # the line that calls fit
            )

    def decision_function(self, X: Any) -> Array:
        """Scores of rows: (N,) for two classes, positive for the second; else (N, K)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the classes of rows (N,)."""
        best = decided(self._scores(X))  # an unfitted model is told so here
        return np.asarray(self.classes_[best])

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes (N, K); for more than two, those of each against the rest
        are divided by their sum.
        """
        return probabilities(self._scores(X))

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities of the classes (N, K)."""
        return np.asarray(np.log(self.predict_proba(X)))

    def worst_case(
        self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None
    ) -> dict[Any, Any]:
        """What the fitted model would suffer at worst on these rows, by client.

        Each client has the ball that it had in the fit, and each class its weight. ``source`` of a
        ``distribution()`` counts the rows of that client, in the order of X.

        Parameters
        ----------
        X, y, clients, sample_weight
            As for `fit`; classes and clients must be among those of the fit.

        Returns
        -------
        dict
            From client names to `drfl.worst_case.WorstCase`; with more than two classes to a list
            of them, one per class.
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, reset=False)
        table = ClientTable.of(X, y, clients, sample_weight)
        unknown = sorted(set(table.y.tolist()) - set(self.classes_.tolist()))
        if unknown:
            raise ValueError(
                f"y has the class {unknown[0]!r}, but the fit had {listed(self.classes_.tolist())}"
            )
        codes = np.searchsorted(self.classes_, table.y)
        table = table.coded(codes.astype(np.float64), self.class_weight_[codes])
        worst = [
            self._worst_cases(table, target, self.coef_[k], float(self.intercept_[k]))
            for k, target in enumerate(self.model_targets(table.y))
        ]
        return worst[0] if len(worst) == 1 else {n: [case[n] for case in worst] for n in worst[0]}

    def model_targets(self, codes: Array) -> list[Array]:
        return [margin_target(codes, k) for k in positives(len(self.classes_))]


def _class_weights(
    wish: Any, classes: NDArray[Any], codes: NDArray[np.intp], weight: Array
) -> Array:
    """The factor of every class (K,)."""
    if wish is None:
        return np.ones(len(classes))
    if isinstance(wish, str) and wish == "balanced":
        totals = np.bincount(codes, weight)
        return np.asarray(totals.sum() / (len(classes) * totals))
    if not isinstance(wish, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {wish!r}")
    factors: Array = compute_class_weight(dict(wish), classes=classes, y=classes[codes])
    if not (np.isfinite(factors).all() and (factors > 0.0).all()):
        raise ValueError("class_weight must be positive: leave out the rows of a class instead")
    return factors
