"""What classifiers and regressors share: from rows to a certified model, and its worst case."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from drfl._registry import listed
from drfl.estimators.choices import Choices
from drfl.estimators.path import LOCAL, find_model, make_solver, solver_name, warn_unless_optimal
from drfl.estimators.scale import warn_of_scale
from drfl.estimators.shared import arrange
from drfl.estimators.table import ALL, Table
from drfl.losses import Task
from drfl.problem import Problem
from drfl.result import Result
from drfl.worst_case import WorstCase, make_oracle

Array = NDArray[np.float64]
DTYPES = (np.float64, np.float32)


class RobustModel(BaseEstimator):  # type: ignore[misc]
    """A linear model fitted by `drfl.solve`. Abstract: a task and parameters are added below.

    Every parameter of the problem is a parameter of the constructor or fixed by the class.
    """

    _task: ClassVar[Task]
    _fixed: ClassVar[Mapping[str, Any]] = {"shared_ball": False}
    """Parameters that a class does not leave open."""

    def _choices(self) -> Choices:
        return Choices.read({**self._fixed, **self.get_params(deep=False)}, self._task)

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
        pair: tuple[Any, NDArray[Any]] = validate_data(
            self, X, y, accept_sparse="csr", dtype=DTYPES, **options
        )
        return pair

    def _scores(self, X: Any) -> Array:
        """w'x + b: (N,), or (N, K) for K models."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    @abstractmethod
    def _set_model(self, results: list[Result]) -> None:
        """Set ``coef_`` and ``intercept_``."""

    def _fit(
        self, choices: Choices, table: Table, targets: Callable[[Array], list[Array]], named: bool
    ) -> None:
        """Fit a model to each of the targets.

        Parameters
        ----------
        choices : Choices
            The parameters, checked.
        table : Table
            The rows, with numbers for y.
        targets : callable
            From such numbers to the target of each model.
        named : bool
            Whether the user named the clients.
        """
        name = solver_name(choices, named=named)
        solver = make_solver(name, choices.curvature)
        warn_of_scale(table.X, table.weight, getattr(self, "feature_names_in_", None))
        problem = choices.problem(table.names.tolist(), table.totals)
        if problem.shared_ball and not solver.shared_ball:
            problem, table = arrange(problem, table, local=name == LOCAL)
        table = table.canonical()
        results = [
            find_model(problem, list(table.clients(target)), choices, solver)
            for target in targets(table.y)
        ]
        self._set_model(results)
        self._set_proof(problem, table, results)
        for result in results:
            warn_unless_optimal(result)

    def _set_proof(self, problem: Problem, table: Table, results: list[Result]) -> None:
        """Set what a fit tells beside the model; several models have a row each."""
        one = len(results) == 1
        last = max(results, key=lambda result: result.gap)
        self.problem_ = problem
        self.result_ = results[0] if one else results
        self.objective_ = _stacked([result.objective for result in results], one)
        self.lower_bound_ = _stacked([result.lower_bound for result in results], one)
        self.gap_, self.status_ = last.gap, last.status
        self.n_rounds_ = sum(result.rounds for result in results)
        self.client_names_ = table.names
        self.client_weights_ = _stacked([list(r.weights.values()) for r in results], one)
        self.client_losses_ = _stacked([list(r.client_losses.values()) for r in results], one)
        self.client_multipliers_ = _stacked(
            [list(r.client_multipliers.values()) for r in results], one
        )

    def _worst_cases(self, table: Table, target: Array, w: Array, b: float) -> dict[Any, WorstCase]:
        """The worst case of every client at one model."""
        unknown = [name for name in table.names.tolist() if name not in self.client_names_.tolist()]
        if unknown == [ALL]:
            raise ValueError(
                f"the model was fitted to the clients {listed(self.client_names_.tolist())}: name "
                "the client of every row"
            )
        if unknown:
            raise ValueError(
                f"client {unknown[0]!r} was not part of the fit: known are "
                f"{listed(self.client_names_.tolist())}"
            )
        worst = {}
        for name, client in zip(table.names.tolist(), table.clients(target), strict=True):
            ball = self.problem_.ball_of(client.name)
            worst[name] = make_oracle(client.rows, self.problem_.loss, ball).evaluate(w, b)
        return worst

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _stacked(values: list[Any], one: bool) -> Any:
    """A model's own number or array, or one row per model."""
    if one:
        return np.array(values[0]) if isinstance(values[0], list) else values[0]
    return np.array(values)
