"""Distributionally robust federated regression, and what every robust regressor does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from drfl import defaults
from drfl.arrays import Array
from drfl.engines import Engine
from drfl.estimators.base import RobustModel
from drfl.estimators.client_table import ClientTable
from drfl.losses import Loss, Task
from drfl.norms import Norm
from drfl.run import Result
from drfl.supports import Support
from drfl.worst_case import WorstCase


class RobustRegressor(RegressorMixin, RobustModel):  # type: ignore[misc]
    """What regressors share. Abstract: parameters are added below."""

    _task: ClassVar[Task] = "regression"

    def read_rows(self, X: Any, y: Any, clients: Any, sample_weight: Any) -> ClientTable:
        X, y = self._validated(X, y, y_numeric=True)
        return ClientTable.of(X, y.astype(np.float64), clients, sample_weight).present()

    def model_targets(self, codes: Array, *, joint: bool = False) -> list[Array]:
        return [codes]

    def _set_model(self, results: list[Result]) -> None:
        self.coef_, self.intercept_ = results[0].coef, results[0].intercept

    def predict(self, X: Any, clients: Any = None) -> Array:
        """Predict the targets of rows (N,); ``clients`` as of `drfl.DRFLClassifier`."""
        return self._scores(X, clients)

    # Clients that are routed to `fit` are for `fit` alone, unless `set_score_request` says more.
    __metadata_request__score: ClassVar[Mapping[str, bool]] = {"clients": False}

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, clients: Any = None) -> float:
        """The share of the targets' variance that predictions explain."""
        return float(r2_score(y, self.predict(X, clients), sample_weight=sample_weight))

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
        return self._worst_cases(table, table.y, 0)


class DRFLRegressor(RobustRegressor):
    r"""A linear regression that is best in the worst case over every client's data and weight.

    .. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s
              \sup\{E_P L(\langle w,x\rangle+b-y) : W(P,\hat P_s)\le\rho_s\}

    The defaults are meant for standardised features, untuned.

    Parameters
    ----------
    loss : {"huber", "epsilon_insensitive", "pinball"} or Loss
        L.
    epsilon : float, optional
        Where "huber" becomes linear (1.35), or what "epsilon_insensitive" forgives (0.1).
    quantile : float, optional
        The quantile that "pinball" estimates (0.5).
    purpose, radius, norm, support, mixture_norm, mixture_center, max_weight
        As of `drfl.DRFLClassifier`.
    additive, knots, shapes
        As of `drfl.DRFLClassifier`.
    label_cost : float
        :math:`\kappa`, what it costs to change a target by 1; inf: targets never change.
    mixture_radius : "auto" or float
        :math:`\theta`: how far the weights q may be from their centre, in [0, inf]; "auto" is 0, or
        what the purpose says.
    intercept, solver, curvature, tol, max_rounds, engine, random_state, verbose
        As of `drfl.DRFLClassifier`.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n,), float
        The model.
    objective_, lower_bound_, gap_, status_, n_rounds_
        As of `drfl.DRFLClassifier`, for one model.
    client_names_, client_weights_, client_losses_, client_multipliers_ : arrays of shape (S,)
        As of `drfl.DRFLClassifier`.
    problem_, result_, curves_, n_features_in_, feature_names_in_
        As of `drfl.DRFLClassifier`.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [-4.1, -2.0, 2.0, 3.9]
    >>> model = DRFLRegressor(radius=0.0).fit(X, y)
    >>> model.predict([[3.0]]).round(2).tolist()
    [5.95]
    """

    def __init__(
        self,
        loss: str | Loss = defaults.LOSSES["regression"],
        *,
        epsilon: float | None = None,
        quantile: float | None = None,
        purpose: str = defaults.THESE_CLIENTS,
        radius: Any = "auto",
        label_cost: float = math.inf,
        norm: str | Norm = defaults.NORM,
        support: Support | None = None,
        additive: Any = None,
        knots: Any = 4,
        shapes: Mapping[Any, Any] | None = None,
        mixture_radius: str | float = "auto",
        mixture_norm: float = 1,
        mixture_center: Any = defaults.MIXTURE_CENTER,
        max_weight: float = math.inf,
        intercept: str = "shared",
        solver: str = "auto",
        curvature: str = "auto",
        tol: float = 1e-6,
        max_rounds: int = 200,
        engine: str | Engine | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.purpose = purpose
        self.radius = radius
        self.label_cost = label_cost
        self.norm = norm
        self.support = support
        self.additive = additive
        self.knots = knots
        self.shapes = shapes
        self.mixture_radius = mixture_radius
        self.mixture_norm = mixture_norm
        self.mixture_center = mixture_center
        self.max_weight = max_weight
        self.intercept = intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
