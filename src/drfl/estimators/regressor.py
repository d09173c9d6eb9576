"""Distributionally robust federated regression."""

from __future__ import annotations

import math
from typing import Any

from drfl import defaults
from drfl.engines import Engine
from drfl.estimators.regression import RobustRegressor
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.supports import Support


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
    purpose, radius, norm, support, mixture_norm, mixture_center
        As of `drfl.DRFLClassifier`.
    label_cost : float
        :math:`\kappa`, what it costs to change a target by 1; inf: targets never change.
    mixture_radius : "auto" or float
        :math:`\theta`: how far the weights q may be from their centre, in [0, inf]; "auto" is 0, or
        what the purpose says.
    fit_intercept, solver, curvature, tol, max_rounds, engine, random_state, verbose
        As of `drfl.DRFLClassifier`.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n,), float
        The model.
    objective_, lower_bound_, gap_, status_, n_rounds_
        As of `drfl.DRFLClassifier`, for one model.
    client_names_, client_weights_, client_losses_, client_multipliers_ : arrays of shape (S,)
        As of `drfl.DRFLClassifier`.
    problem_, result_, n_features_in_, feature_names_in_
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
        mixture_radius: str | float = "auto",
        mixture_norm: float = 1,
        mixture_center: Any = defaults.MIXTURE_CENTER,
        fit_intercept: bool = True,
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
        self.mixture_radius = mixture_radius
        self.mixture_norm = mixture_norm
        self.mixture_center = mixture_center
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.curvature = curvature
        self.tol = tol
        self.max_rounds = max_rounds
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
