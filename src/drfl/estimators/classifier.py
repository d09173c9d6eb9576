"""Distributionally robust federated classification."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drfl import defaults
from drfl.engines import Engine
from drfl.estimators.classification import RobustClassifier
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.supports import Support


class DRFLClassifier(RobustClassifier):
    r"""A linear classifier that is best in the worst case over every client's data and weight.

    .. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s
              \sup\{E_P L(y(\langle w,x\rangle+b)) : W(P,\hat P_s)\le\rho_s\}

    The defaults are meant for standardised features, untuned.

    Parameters
    ----------
    loss : {"logistic", "hinge", "smooth_hinge"} or Loss
        L; probabilities need "logistic", the default.
    purpose : {"these clients", "new client", "worst client", "noisy measurements"}
        What the model is for: it sets radius and mixture radius where these are "auto"
        (`drfl.defaults.PURPOSES`).
    radius : "auto", float, mapping or sequence
        :math:`\rho_s`: one for all clients, or one per client by its name or in the sorted order of
        the names. "auto" is :math:`0.1\sqrt{n/N}` with n columns and the total weight N of all
        rows, or what the purpose says.
    label_cost : float
        :math:`\kappa`, what it costs to change a label; inf: labels never change.
    norm : {"l2", "l1", "linf"}
        In which the changes of a row's features are measured.
    support : None, Box or Polyhedron
        Where rows can be; None is everywhere.
    mixture_radius : "auto" or float
        :math:`\theta`: how far the weights q may be from their centre, in [0, inf]; "auto" is 0, or
        what the purpose says.
    mixture_norm : {1, 2, math.inf}
        The norm in which that is measured.
    mixture_center : {"proportional", "uniform"} or array of shape (S,)
        The centre of Q: in proportion to the weight :math:`N_s` of a client's rows, equal weights,
        or given in the sorted order of the names.
    fit_intercept : bool
        Whether there is an intercept b.
    solver : {"auto", "bundle", "ad_lpmm", "admm", "local"}
        "auto" is "local" if neither clients, nor an engine, nor a support are named, otherwise
        "bundle".
    curvature : {"auto", "never"}
        Whether clients are asked for second-order information.
    tol : float
        Stop when the proved relative gap is at most this.
    max_rounds : int
        Stop after so many rounds.
    engine : None, str or Engine
        How messages reach the clients; None is in this process.
    class_weight : None, "balanced" or dict
        Factors of the rows' weights by class.
    random_state : None, int or RandomState
        For solvers that draw at random; "bundle" and "local" do not.
    verbose : int
        If positive, every round is logged on the logger "drfl" at level INFO.

    Attributes
    ----------
    classes_, class_weight_ : arrays of shape (K,)
        The classes, sorted, and their factors.
    coef_, intercept_ : arrays of shape (1, n) and (1,), or (K, n) and (K,)
        The model; with K > 2 classes one for each against the rest.
    objective_, lower_bound_ : float, or arrays of shape (K,)
        The optimum is proved to lie between the two.
    gap_ : float
        How far the model can be from optimal, relative to its objective; the largest of K.
    status_ : drfl.solvers.Status
        Why the fit ended, with a sentence; that of the largest gap.
    n_rounds_ : int
        Messages went to the clients and back so many times in all.
    client_names_ : array of shape (S,)
        The clients, sorted; "all" if none were named.
    client_weights_, client_losses_, client_multipliers_ : arrays of shape (S,) or (K, S)
        The worst weights, and each client's worst-case loss and price of transport.
    problem_ : drfl.Problem
        What was solved, with the radii in numbers.
    result_ : drfl.Result, or a list of K
        Everything else that is known of the run.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"]
    >>> model = DRFLClassifier(radius=0.1).fit(X, y, clients=["a", "b", "a", "b"])
    >>> model.predict([[3.0]]).tolist(), model.gap_ <= 1e-6
    (['yes'], True)
    """

    def __init__(
        self,
        loss: str | Loss = defaults.LOSSES["classification"],
        *,
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
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
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
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
