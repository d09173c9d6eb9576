"""What every robust regressor does, whatever its parameters."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from drfl.arrays import Array
from drfl.estimators.base import RobustModel
from drfl.estimators.table import ClientTable
from drfl.losses import Task
from drfl.result import Result
from drfl.worst_case import WorstCase


class RobustRegressor(RegressorMixin, RobustModel):  # type: ignore[misc]
    """What regressors share. Abstract: parameters are added below."""

    _task: ClassVar[Task] = "regression"

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (N, n)
            The rows, best standardised.
        y : array of shape (N,)
            Their targets.
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
        X, y = self._validated(X, y, y_numeric=True)
        return ClientTable.of(X, y.astype(np.float64), clients, sample_weight).present()

    def model_targets(self, codes: Array) -> list[Array]:
        return [codes]

    def _set_model(self, results: list[Result]) -> None:
        self.coef_, self.intercept_ = results[0].coef, results[0].intercept

    def predict(self, X: Any) -> Array:
        """Predict the targets of rows (N,)."""
        return self._scores(X)

    def worst_case(
        self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None
    ) -> dict[Any, WorstCase]:
        """What the fitted model would suffer at worst on these rows, by client.

        Each client has the ball that it had in the fit. ``source`` of a ``distribution()`` counts
        the rows of that client, in the order of X.

        Parameters
        ----------
        X, y, clients, sample_weight
            As for `fit`; the clients must be among those of the fit.

        Returns
        -------
        dict
            From client names to `drfl.worst_case.WorstCase`.
        """
        check_is_fitted(self)
        X, y = self._validated(X, y, y_numeric=True, reset=False)
        table = ClientTable.of(X, y.astype(np.float64), clients, sample_weight)
        return self._worst_cases(table, table.y, self.coef_, self.intercept_)
