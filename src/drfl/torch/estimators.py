"""Networks with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from drfl._registry import lookup
from drfl.arrays import Array
from drfl.estimators.client_table import ClientTable
from drfl.estimators.data_warnings import (
    refuse_variants,
    warn_of_data,
    warn_of_scale,
    warn_of_small_clients,
)
from drfl.native import METHODS
from drfl.native.settings import Native
from drfl.one_vs_rest import probabilities
from drfl.problem import Problem
from drfl.run import solve
from drfl.solvers import configured
from drfl.torch.client import Interval
from drfl.torch.model import Copy, ModuleLoss
from drfl.uncertainty import Ball, Mixture


class _Network(BaseEstimator):  # type: ignore[misc]
    """What both share: a module becomes a problem, a method solves it."""

    _losses: ClassVar[tuple[str, ...]]  # the first is the default

    def __init__(
        self,
        module: Any,
        *,
        loss: str | None = None,
        radius: float = 0.0,
        order: float = 2,
        norm: str = "l2",
        mixture_radius: float = 0.0,
        mixture_norm: float = 1,
        mixture_center: Any = "proportional",
        method: str | Native = "fedavg",
        rounds: int = 100,
        local_steps: int = 5,
        step_size: float = 0.1,
        batch_size: int | None = None,
        participation: float = 1.0,
        engine: Any = "serial",
        checkpoint: Any = None,
        random_state: Any = None,
    ) -> None:
        self.module, self.loss, self.radius, self.order, self.norm = (
            module,
            loss,
            radius,
            order,
            norm,
        )
        self.mixture_radius, self.mixture_norm = mixture_radius, mixture_norm
        self.mixture_center, self.method, self.rounds = mixture_center, method, rounds
        self.local_steps, self.step_size, self.batch_size = local_steps, step_size, batch_size
        self.participation, self.engine, self.checkpoint = participation, engine, checkpoint
        self.random_state = random_state

    def _problem(self) -> Problem:
        module = Copy(self.module) if isinstance(self.module, nn.Module) else self.module
        model = ModuleLoss(module, self._losses[0] if self.loss is None else self.loss)
        if model.loss not in self._losses:
            raise ValueError(
                f"{type(self).__name__} takes loss={' or '.join(map(repr, self._losses))}, not "
                f"{model.loss!r}"
            )
        ball = Ball(self.radius, self.norm, order=self.order)
        mixture = Mixture(self.mixture_center, self.mixture_radius, self.mixture_norm)
        return Problem(model, ball, mixture)

    def _solver(self) -> Native:
        if isinstance(self.method, Native):
            return self.method
        method = lookup("method", self.method, METHODS)
        return configured(
            method,
            local_steps=self.local_steps,
            step_size=self.step_size,
            batch_size=self.batch_size,
            participation=self.participation,
            averaged=False,  # the mean of two networks is not between them
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _fit(self, table: ClientTable) -> None:
        problem, solver = self._problem(), self._solver()
        names = getattr(self, "feature_names_in_", None)
        warn_of_data(table, names)
        warn_of_scale(table, names)
        warn_of_small_clients(table, problem.mixture)
        table = table.canonical()
        clients = list(table.clients(table.y))
        result = solve(
            problem,
            clients,
            solver=solver,
            engine=self.engine,
            max_rounds=self.rounds,
            checkpoint=self.checkpoint,
        )
        self.problem_, self.result_, self.client_names_ = problem, result, table.names
        self.client_rows_ = np.bincount(table.member, minlength=len(table.names))
        self.parameters_ = result.coef
        self.module_ = self._model.module_at(result.coef).eval()
        self.objective_, self.status_, self.n_rounds_ = (
            result.objective,
            result.status,
            result.rounds,
        )
        self.client_losses_ = np.array(list(result.client_losses.values()))
        self.client_weights_ = np.array(list(result.weights.values()))

    @property
    def _model(self) -> ModuleLoss:
        model = self.problem_.network
        assert isinstance(model, ModuleLoss)
        return model

    def _output(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        with torch.no_grad():
            rows = torch.as_tensor(X, dtype=self._model.dtype)
            return np.asarray(self.module_(rows).numpy(), dtype=np.float64)

    def _intervals(self, table: ClientTable) -> dict[Any, Interval]:
        found = {}
        for name, client in zip(table.names.tolist(), table.clients(table.y), strict=True):
            loss = self._model.at(client.rows, self.problem_.ball_of(client.name), client.name)
            found[name] = loss.bounds(self.parameters_)
        return found


class TorchClassifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A network for classes, trained over clients by a federated method.

    Parameters
    ----------
    module : torch.nn.Module, callable or str
        The network with one output per class: itself (a copy is trained, from where it is), what
        builds it, or its registered name.
    loss : {"cross_entropy"}
        Of its outputs.
    radius : float
        How far rows may be moved.
    order : {2, math.inf}
        2: the root mean square of the distances is at most the radius; infinity: every distance.
    norm : {"l2", "l1", "linf"}
        Of the distances; order 2 has "l2".
    mixture_radius, mixture_norm, mixture_center
        The uncertainty of the clients' weights, as in `drfl.Mixture`; above 0 the method has to be
        "dual_admm", "afl", "drfa" or "scaff_pd".
    method : str or Native
        One of `drfl.native.METHODS`, or an object with settings of its own.
    rounds, local_steps, step_size, batch_size, participation
        Of the method, where it has them.
    engine : str or Engine
        How messages reach the clients.
    checkpoint : path, optional
        Where the answers are written down; an interrupted fit goes on from there.
    random_state : int, RandomState or None
        Of the first parameters and of all draws.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    parameters_ : array of shape (d,)
        Its parameters as one vector.
    objective_, status_, n_rounds_, client_losses_, client_weights_, client_rows_, result_
        What the run tells; nothing is proved.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> model = TorchClassifier(nn.Linear(1, 2), radius=0.1, random_state=0)
    >>> model.fit(X, y, clients=["a", "b", "a", "b"]).predict([[3.0]])
    array([1])
    """

    _losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the network; ``clients`` names the client of each row."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        table = ClientTable.of(X, y, clients, sample_weight).present()
        self.classes_, codes = np.unique(table.y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_.tolist()[0]!r}: give two")
        refuse_variants(self.classes_)
        self._fit(table.coded(codes.astype(np.float64), np.ones(len(codes))))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes (N, K)."""
        return probabilities(self._output(X), joint=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the classes of rows (N,)."""
        return np.asarray(self.classes_[self._output(X).argmax(axis=1)])

    def worst_case(
        self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None
    ) -> dict[Any, Interval]:
        """What every client's worst-case loss is at least, as found, and at most, as proved."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False)
        table = ClientTable.of(X, y, clients, sample_weight)
        strange = sorted(
            {str(label) for label in set(table.y.tolist()) - set(self.classes_.tolist())}
        )
        if strange:
            raise ValueError(f"y has the class {strange[0]!r}, which the model does not know")
        codes = np.searchsorted(self.classes_, table.y).astype(np.float64)
        return self._intervals(table.coded(codes, np.ones(len(codes))))


class TorchRegressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A network for numbers, trained over clients by a federated method.

    Parameters
    ----------
    module : torch.nn.Module, callable or str
        The network with one output.
    loss : {"huber", "squared"}
        Of its output.

    The others, and the attributes, are those of `TorchClassifier`.
    """

    _losses: ClassVar[tuple[str, ...]] = ("huber", "squared")

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Fit the network; ``clients`` names the client of each row."""
        X, y = validate_data(self, X, y, y_numeric=True)
        self._fit(
            ClientTable.of(X, np.asarray(y, dtype=np.float64), clients, sample_weight).present()
        )
        return self

    def predict(self, X: Any) -> Array:
        """Predict the targets of rows (N,)."""
        return self._output(X)[:, 0]

    def worst_case(
        self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None
    ) -> dict[Any, Interval]:
        """What every client's worst-case loss is at least, as found, and at most, as proved."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False, y_numeric=True)
        table = ClientTable.of(X, np.asarray(y, dtype=np.float64), clients, sample_weight)
        return self._intervals(table)
