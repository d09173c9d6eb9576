"""Distributionally robust federated classification, and what every robust classifier does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from drfl import defaults
from drfl._registry import listed
from drfl.arrays import Array
from drfl.engines import Engine
from drfl.estimators.base import RobustModel
from drfl.estimators.client_table import ClientTable
from drfl.estimators.data_warnings import refuse_variants
from drfl.losses import Loss, Task, make_loss
from drfl.norms import Norm
from drfl.one_vs_rest import decided, margin_target, positives, probabilities
from drfl.problem.multiclass import AUTO
from drfl.run.result import Result, stacked
from drfl.supports import Support


def _is_probabilistic(model: Any) -> bool:
    try:
        return make_loss(model.loss).probabilistic
    except (TypeError, ValueError):  # which `fit` explains
        return False


class ClassScores(ClassifierMixin):  # type: ignore[misc]
    """Classes from scores, of what is fitted here and of what comes out of a file."""

    classes_: NDArray[Any]
    _scores: Callable[..., Array]  # of rows X and perhaps their clients, (N, K)

    def decision_function(self, X: Any, clients: Any = None) -> Array:
        """Scores of rows: (N,) for two classes, positive for the second; else (N, K).

        ``clients`` as for `predict`.
        """
        scores = self._scores(X, clients)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any, clients: Any = None) -> NDArray[Any]:
        """Predict the classes of rows (N,).

        ``clients`` are the names of the rows' clients, or one for all; they are needed where every
        client has an intercept, or a calibration, of its own.
        """
        best = decided(self._scores(X, clients))  # an unfitted model is told so here
        return np.asarray(self.classes_[best])


class RobustClassifier(ClassScores, RobustModel):
    """What classifiers share. Abstract: parameters are added below."""

    _task: ClassVar[Task] = "classification"

    def read_rows(self, X: Any, y: Any, clients: Any, sample_weight: Any) -> ClientTable:
        X, y = self._validated(X, y)
        table = ClientTable.of(X, y, clients, sample_weight).present()
        self.classes_, codes = _classes(table.y)
        if not _are_whole(self.classes_):
            check_classification_targets(y)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y has one class only, {only!r}: two are needed at least")
        refuse_variants(self.classes_)
        self.class_weight_ = _class_weights(self.class_weight, self.classes_, codes, table.weight)
        factor = None if self.class_weight is None else self.class_weight_[codes]
        return table.coded(codes.astype(np.float64), factor)

    def _set_model(self, results: list[Result]) -> None:
        self.coef_, self.intercept_ = stacked(results)

    @available_if(_is_probabilistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, clients: Any = None) -> Array:
        """Probabilities of the classes (N, K): for all at once the softmax of the scores; else,
        for more than two, those of each against the rest are divided by their sum.
        """
        scores = self._scores(X, clients)  # an unfitted model is told so here
        return probabilities(scores, joint=self.problem_.classes is not None)

    @available_if(_is_probabilistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any, clients: Any = None) -> Array:
        """Logarithms of the probabilities of the classes (N, K)."""
        return np.asarray(np.log(self.predict_proba(X, clients)))

    # Clients that are routed to `fit` are for `fit` alone, unless `set_score_request` says more.
    __metadata_request__score: ClassVar[Mapping[str, bool]] = {"clients": False}

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, clients: Any = None) -> float:
        """The share of rows whose class is predicted."""
        found = accuracy_score(y, self.predict(X, clients), sample_weight=sample_weight)
        return float(found)

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
            From client names to `drfl.worst_case.WorstCase`; with more than two classes, one
            against the rest, to a list of them, one per class.
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
        joint = self.problem_.classes is not None
        worst = [
            self._worst_cases(table, target, k)
            for k, target in enumerate(self.model_targets(table.y, joint=joint))
        ]
        return worst[0] if len(worst) == 1 else {n: [case[n] for case in worst] for n in worst[0]}

    @property
    def n_classes(self) -> int | None:
        return len(self.classes_)

    def model_targets(self, codes: Array, *, joint: bool = False) -> list[Array]:
        if joint:
            return [codes]
        return [margin_target(codes, k) for k in positives(len(self.classes_))]


def _classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different labels, sorted, and the number of each row's; two numbers need no sorting."""
    if y.dtype.kind in "biuf":
        low, high = y.min(), y.max()
        above = y == high
        if low < high and (above | (y == low)).all():
            return np.array([low, high]), above.astype(np.intp)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise TypeError(
            f"y has labels of {listed(kinds)}, which have no common order: make them all text or "
            "all numbers, and leave out rows without a label"
        ) from None
    return classes, codes


def _are_whole(classes: NDArray[Any]) -> bool:
    """Whether labels are whole numbers, which nobody takes for measurements."""
    return classes.dtype.kind in "biuf" and bool((classes == np.round(classes)).all())


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
    radius : "auto", "confidence", float, mapping or sequence
        :math:`\rho_s`: one for all clients, or one per client by its name or in the sorted order of
        the names. "auto" is :math:`0.1\sqrt{n/N}` with n columns and the total weight N of all
        rows, or what the purpose says. "confidence" is so large that the true coefficients are
        among those that the robust problem can find with probability 0.95
        (`drfl.inference.confidence_radius`): 35 to 60 times as large.
    label_cost : float
        :math:`\kappa`, what it costs to change a label; inf: labels never change.
    norm : {"l2", "l1", "linf"}
        In which the changes of a row's features are measured.
    support : None, Box or Polyhedron
        Where rows can be; None is everywhere.
    additive : None, "all" or list of columns
        Columns whose part of the score is a piecewise-linear curve instead of a line, by name or
        number; columns of two values stay linear. Needs ``norm`` "l1" or "linf". ``coef_`` are
        then slopes, see ``curves_``.
    knots : int or list of float
        Where curves bend: so many knots, or these, in standard deviations from the mean. Knots that
        leave a piece fewer than 20 rows, or 1 to 4 of a client, are left out.
    shapes : None or mapping
        Rules by column: "increasing", "decreasing", "convex", "concave", "flat ends", or several.
    mixture_radius : "auto" or float
        :math:`\theta`: how far the weights q may be from their centre, in [0, inf]; "auto" is 0, or
        what the purpose says.
    mixture_norm : {1, 2, math.inf}
        The norm in which that is measured.
    mixture_center : {"proportional", "uniform"} or array of shape (S,)
        The centre of Q: in proportion to the weight :math:`N_s` of a client's rows, equal weights,
        or given in the sorted order of the names.
    max_weight : float
        No client weighs more in Q, whatever its loss, which bounds what one that lies can do; at
        least the largest weight of the centre. inf: no such bound. It needs the solver "bundle".
    intercept : {"shared", "per_client", "none"}
        Whose intercept b there is: one for all, one of every client, as where prevalence differs,
        or none. With an intercept of every client, `predict` and its like take ``clients``.
    solver : {"auto", "bundle", "first_order", "ad_lpmm", "admm", "local"}
        "auto" is "local" if neither clients, nor an engine, nor a support, nor a `max_weight` are
        named, otherwise "bundle".
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
    multiclass : {"auto", "joint", "ovr"}
        More than two classes: "joint" has all of them in one problem (for "logistic" by the
        cross-entropy of the softmax, for "hinge" by the loss of Crammer and Singer), "ovr" a
        problem for each against the rest. "auto" is "joint" where the loss, the support, the
        solver and the rest allow it.
    random_state : None, int or RandomState
        For solvers that draw at random; "bundle" and "local" do not.
    verbose : int
        If positive, every round is logged on the logger "drfl" at level INFO.

    Attributes
    ----------
    classes_, class_weight_ : arrays of shape (K,)
        The classes, sorted, and their factors.
    coef_, intercept_ : arrays of shape (1, n) and (1,), or (K, n) and (K,)
        The model; with K > 2 classes a score for each.
    intercepts_ : dict
        With ``intercept="per_client"``, from client names to arrays of shape (1,) or (K,);
        ``intercept_`` is 0 then.
    objective_, lower_bound_ : float, or arrays of shape (K,)
        The optimum is proved to lie between the two; one number where all classes are in one
        problem, and so below.
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
    curves_ : drfl.curves.Curves or None
        Knots and rules of an additive model, in the units of X.
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
        class_weight: str | Mapping[Any, float] | None = None,
        multiclass: str = AUTO,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
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
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.random_state = random_state
        self.verbose = verbose
