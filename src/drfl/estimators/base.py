"""What classifiers and regressors share: from rows to a certified model, and its worst case."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from drfl._registry import listed
from drfl.arrays import Array
from drfl.curves import Curves
from drfl.estimators.choices import Choices
from drfl.estimators.client_table import ALL, TELLING, ClientTable
from drfl.estimators.data_warnings import (
    warn_of_data,
    warn_of_few_rows,
    warn_of_nothing,
    warn_of_scale,
    warn_of_small_clients,
)
from drfl.estimators.fitting import find_model, make_solver, solver_name, warn_unless_optimal
from drfl.estimators.intervals import CONFIDENCE, estimate_of, with_confidence
from drfl.estimators.shared import client_losses, solvable
from drfl.inference import NO_TRUE_SLOPES, Inference
from drfl.inference.classes import base_of, class_table, parameter_names
from drfl.losses import Task
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.rows.intake import require_finite, surely_usable
from drfl.run import Result
from drfl.run.result import intercepts_at
from drfl.worst_case import WorstCase

DTYPES = (np.float64, np.float32)


def by_client(rows: int, clients: Any, found: Callable[[Any, NDArray[np.intp]], Array]) -> Array:
    """What is found for the rows of every client (N, K); one name is that of all rows."""
    names = np.asarray(clients)
    names = np.broadcast_to(names, (rows,)) if names.ndim == 0 else names
    if names.shape != (rows,):
        raise ValueError(
            f"clients has shape {names.shape}, but there are {rows} rows: one for each"
        )
    parts = [(name, np.flatnonzero(names == name)) for name in np.unique(names).tolist()]
    values = [(at, found(name, at)) for name, at in parts]
    whole = np.empty((rows, values[0][1].shape[1])) if values else np.empty((0, 1))
    for at, value in values:
        whole[at] = value
    return whole


class RobustModel(BaseEstimator):  # type: ignore[misc]
    """A linear model fitted by `drfl.solve`. Abstract: a task and parameters are added below.

    Every parameter of the problem is a parameter of the constructor or fixed by the class.
    """

    _task: ClassVar[Task]
    proves: ClassVar[bool] = True
    """Whether a fit solves the problem that its parameters state, with a proof."""
    _fixed: ClassVar[Mapping[str, Any]] = {"shared_ball": False}
    """Parameters that a class does not leave open."""

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model: one score for numbers and two classes, otherwise one per class.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (N, n)
            The rows, best standardised.
        y : array of shape (N,)
            Their classes or targets.
        clients : array of shape (N,), optional
            The name of each row's client; without it there is one client.
        sample_weight : array of shape (N,), optional
            Weights of the rows: a weight 2 is a row that occurs twice.
        """
        choices = self.checked_parameters()
        table = self.read_rows(X, y, clients, sample_weight)
        self._fit(choices, table, named=clients is not None)
        return self

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # scikit-learn would look at the signature of the constructor in every fit.
        return list(super()._get_param_names())

    def checked_parameters(self) -> Choices:
        """The parameters as the objects that they stand for; a wrong one raises."""
        return Choices.read({**self._fixed, **self.get_params(deep=False)}, self._task)

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[Any]]:
        if options.get("reset", True) and surely_usable(X, y):
            # What scikit-learn's look at any kind of data would do with these.
            self.n_features_in_ = X.shape[1]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X, y
        pair: tuple[Any, NDArray[Any]] = validate_data(
            self, X, y, accept_sparse="csr", dtype=DTYPES, **options
        )
        require_finite([pair[0]], [0], getattr(self, "feature_names_in_", None))
        return pair

    def _scores(self, X: Any, clients: Any = None) -> Array:
        """w'x + b: (N,), or (N, K) for K models; clients are looked at if each has its own b."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        bias = self._bias(X.shape[0], clients)
        if self.problem_.curves is None:
            return np.asarray(X @ self.coef_.T + bias)
        rows = Rows(X, np.zeros(X.shape[0])).ramped(self.problem_.curves)
        scores = np.stack([rows.scores(w) for w in np.atleast_2d(self.coef_)], axis=1)
        return np.asarray((scores if self.coef_.ndim > 1 else scores[:, 0]) + bias)

    def _bias(self, rows: int, clients: Any) -> Any:
        """The intercept of every row, or of all."""
        if not self.problem_.own_intercepts:
            return self.intercept_
        if clients is None:
            raise ValueError(
                "every client of this model has an intercept of its own: say whose rows these are "
                f"with clients=, of {listed(self.intercepts_)}; a new one gets its own by "
                "drfl.calibrate"
            )
        found = by_client(rows, clients, self._own_bias)
        return found if self.coef_.ndim > 1 else found[:, 0]

    def _own_bias(self, name: Any, at: NDArray[np.intp]) -> Array:
        if name not in self.intercepts_:
            raise ValueError(
                f"client {name!r} has no intercept: known are {listed(self.intercepts_)}; "
                "drfl.calibrate finds one on its rows"
            )
        return np.broadcast_to(self.intercepts_[name], (len(at), len(self.intercepts_[name])))

    def curves_of(self, table: ClientTable) -> Curves | None:
        """The curves that the parameters ask for on these rows; None: the model is linear."""
        additive = self.checked_parameters().additive
        names = getattr(self, "feature_names_in_", None)
        return None if additive is None else additive.curves(table, names)

    @property
    def n_classes(self) -> int | None:
        """How many classes the rows of a fit have; None: there are none."""
        return None

    @abstractmethod
    def read_rows(self, X: Any, y: Any, clients: Any, sample_weight: Any) -> ClientTable:
        """Check the data of a fit; the table has numbers for y."""

    @abstractmethod
    def model_targets(self, codes: Array, *, joint: bool = False) -> list[Array]:
        """The target of every model, from the numbers in a table: -1 and +1 for classes.

        ``joint``: one problem tells more than two classes apart, by their numbers.
        """

    @abstractmethod
    def _set_model(self, results: list[Result]) -> None:
        """Set ``coef_`` and ``intercept_``."""

    def _fit(self, choices: Choices, table: ClientTable, *, named: bool) -> None:
        """Fit a model to each of the targets; ``named``: the user named the clients."""
        n, names = table.X.shape[1], getattr(self, "feature_names_in_", None)
        curves = None if choices.additive is None else self.curves_of(table)
        several, _ = choices.together(self.n_classes, n, curves)
        name = solver_name(choices, named=named, joint=several is not None)
        solver = make_solver(name, choices)
        self.fit_rows_ = table
        if choices.radius == CONFIDENCE:
            if curves is not None:
                raise ValueError(NO_TRUE_SLOPES)
            choices = with_confidence(choices, table, self.model_targets, solver)
        stated = choices.problem(table.names.tolist(), table.totals, n, curves, several)
        problem = solvable(stated, len(table.names), solver)
        warn_of_data(table, names)
        warn_of_scale(table, names)
        if isinstance(choices.radius, str):
            columns = stated.coefficients(n) // (stated.classes or 1)
            warn_of_few_rows(columns, float(table.totals.sum()))
        warn_of_small_clients(table, choices.mixture)
        table = table.canonical(TELLING)
        results = [
            find_model(problem, list(table.clients(target)), choices, solver)
            for target in self.model_targets(table.y, joint=several is not None)
        ]
        self.problem_, self.client_names_ = stated, table.names
        self.curves_ = stated.curves
        self._set_model(results)
        classes = self._task == "classification"
        warn_of_nothing(self.coef_, table, 1.0 if classes else float(np.std(table.y)))
        if stated.own_intercepts:
            self.intercepts_ = {
                name: intercepts_at(results, str(name)) for name in table.names.tolist()
            }
        self._set_proof(problem, results)
        for result in results:
            warn_unless_optimal(result)

    def validate(
        self,
        X: Any,
        y: Any,
        clients: Any = None,
        *,
        folds: int = 5,
        random_state: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """How good a model with these parameters is on rows and at clients it has not seen.

        Beside it stand the majority class, models of single clients and federated ERM. Print what
        comes back, a `drfl.selection.validation.Validation`.

        Parameters
        ----------
        X, y, clients, sample_weight
            As for `fit`.
        folds : int
            Into how many folds clients split their rows.
        random_state : None, int or RandomState
            Decides which rows are in which fold.
        """
        # By name: what validates an estimator stands above it.
        validate = import_module("drfl.selection.validation").validate
        given = {"folds": folds, "random_state": random_state, "sample_weight": sample_weight}
        return validate(self, X, y, clients, **given)

    def inference(self, *, level: float = 0.95, kind: str = "robust", against: Any = None) -> Any:
        """Standard errors, intervals and tests, of the rows of the fit.

        A robust model is shrunk, and intervals around it would be wrong. So these belong to its
        correction: Newton steps of the unpenalised loss with the fitted weights of the clients,
        until they are small; the robust coefficients stand beside it. Weights of rows count as
        given to single rows.

        Parameters
        ----------
        level : float
            Of the intervals.
        kind : {"robust", "model", "clustered"}
            "robust" is the sandwich (HC0), right also where the model is not; "model" believes the
            model; "clustered" takes every client for one draw of many, and needs 20 of them.
        against : class, optional
            With several classes in one problem, the one that all others are compared with; the
            first by default.

        Returns
        -------
        drfl.inference.Inference
            Of the columns as they were given. With several classes in one problem the coefficients
            of all, against one of them; with one against the rest a list, one per class. Print it
            for a table.
        """
        check_is_fitted(self)
        table = getattr(self, "fit_rows_", None)
        if table is None:
            raise ValueError(
                "standard errors need the rows of the fit, which no file of a model keeps: fit it "
                "again, or read those of a run with `drfl summary`"
            )
        choices, problem = self.checked_parameters(), self.problem_
        names, factors = self._terms(table.X.shape[1])
        results = self.result_ if isinstance(self.result_, list) else [self.result_]
        odds = problem.loss.probabilistic
        shown: dict[str, Any] = {"kind": kind, "level": level, "odds": odds, "factors": factors}
        if problem.classes is not None:
            classes = [str(label) for label in self.classes_]
            every = parameter_names(problem, names, classes)
            found = estimate_of(problem, table, table.y, results[0], choices, every)
            base = base_of(classes, None if against is None else str(against))
            return class_table(found, problem, names, classes, base, **shown)
        if against is not None:
            raise ValueError("against= is for several classes in one problem: leave it out")
        tables = [
            Inference.of(
                estimate_of(problem, table, target, result, choices, names), names, **shown
            )
            for target, result in zip(self.model_targets(table.y), results, strict=True)
        ]
        return tables[0] if len(tables) == 1 else tables

    def _terms(self, columns: int) -> tuple[list[str], dict[str, tuple[str, ...]]]:
        """The names of the coefficients, and for every column those that are its own."""
        given = getattr(self, "feature_names_in_", None)
        names = [f"x{j + 1}" for j in range(columns)] if given is None else list(map(str, given))
        curves = self.problem_.curves
        if curves is None:
            return names, {name: (name,) for name in names}
        pieces = curves.names(names)
        own = [tuple(pieces[curves.of(j)]) for j in range(columns)]
        return pieces, dict(zip(names, own, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        # A file of a model holds no rows.
        return {k: v for k, v in super().__getstate__().items() if k != "fit_rows_"}

    def _set_proof(self, problem: Problem, results: list[Result]) -> None:
        """Set what a fit tells beside the model; of several models, a row each."""

        def stacked(values: list[Any]) -> Any:
            return values[0] if len(values) == 1 else np.array(values)

        last = max(results, key=lambda result: result.gap)
        self.result_ = results[0] if len(results) == 1 else results
        self.objective_ = stacked([result.objective for result in results])
        self.lower_bound_ = stacked([result.lower_bound for result in results])
        self.gap_, self.status_ = last.gap, last.status
        self.n_rounds_ = sum(result.rounds for result in results)
        self.client_weights_ = stacked([np.array(list(r.weights.values())) for r in results])
        self.client_losses_ = stacked([client_losses(problem, result) for result in results])
        self.client_multipliers_ = stacked(
            [np.array(list(r.client_multipliers.values())) for r in results]
        )

    def _worst_cases(self, table: ClientTable, target: Array, k: int) -> dict[Any, WorstCase]:
        """The worst case of every client in the k-th problem; of their mixture in a shared ball."""
        self._refuse_strangers(table.names.tolist())
        if self.problem_.shared_ball:
            table = table.pooled(self.problem_.mixture.resolve(table.totals).weights)
        worst = {}
        for name, client in zip(table.names.tolist(), table.clients(target), strict=True):
            oracle = self.problem_.oracle(client.rows, client.name)
            own = self.problem_.own_intercepts
            if self.problem_.classes is not None:
                every: Any = self.intercepts_[name] if own else self.intercept_
                worst[name] = oracle.evaluate(self.coef_, every)
                continue
            b = self.intercepts_[name][k] if own else np.atleast_1d(self.intercept_)[k]
            worst[name] = oracle.evaluate(np.atleast_2d(self.coef_)[k], float(b))
        return worst

    def _refuse_strangers(self, names: list[Any]) -> None:
        fitted = self.client_names_.tolist()
        unknown = [name for name in names if name not in fitted]
        if unknown == [ALL]:
            raise ValueError(
                f"the model was fitted to the clients {listed(fitted)}: name the client of each row"
            )
        if unknown:
            raise ValueError(
                f"client {unknown[0]!r} was not part of the fit: known are {listed(fitted)}"
            )
        if self.problem_.shared_ball and len(names) < len(fitted):
            raise ValueError(f"the clients share a ball: give rows of each of {listed(fitted)}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
