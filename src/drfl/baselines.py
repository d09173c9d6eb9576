r"""The exact problems that DRFL is compared with, with the same interface and certificates.

They are the convex problems that the methods of these names stand for
(`drfl.named_problems`), not those methods' own iterations, which are in `drfl.native`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drfl.estimators.classifier import DRFLClassifier, RobustClassifier
from drfl.estimators.parameters import constructor, parameters_of
from drfl.estimators.regressor import DRFLRegressor, RobustRegressor
from drfl.named_problems import NAMED_PROBLEMS

__all__ = [
    "AFLClassifier",
    "AFLRegressor",
    "DRFAClassifier",
    "DRFARegressor",
    "ERMClassifier",
    "ERMRegressor",
    "WAFLClassifier",
    "WAFLRegressor",
]


AGNOSTIC: Mapping[str, Any] = {"mixture_radius": 0.2, "mixture_center": "uniform"}


class Baseline:
    """What they share: the parameters of the general estimator that the problem leaves open."""

    _general: ClassVar[type[Any]]
    _fixed: ClassVar[Mapping[str, Any]]
    _defaults: ClassVar[Mapping[str, Any]] = {}
    """Other defaults than those of the general estimator."""

    def __init_subclass__(cls, problem: str | None = None) -> None:
        super().__init_subclass__()
        if problem is not None:
            cls._fixed = NAMED_PROBLEMS[problem].fixed
            general = {**parameters_of(cls._general), **cls._defaults}
            open_ = {name: value for name, value in general.items() if name not in cls._fixed}
            cls.__init__ = constructor(open_)  # type: ignore[method-assign]


class BaselineClassifier(Baseline, RobustClassifier):
    """What classifiers share."""

    _general = DRFLClassifier


class BaselineRegressor(Baseline, RobustRegressor):
    """What regressors share."""

    _general = DRFLRegressor


class ERMClassifier(BaselineClassifier, problem="erm"):
    r"""Empirical risk minimisation: a classifier for the clients' mean losses.

    .. math:: \min_{w,b}\ \sum_s\hat q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLClassifier`, whose radii are 0 here. Among
    equally good models one of nearly the smallest norm is taken. ``mixture_center`` is
    "proportional", which weighs every row the same; in the paper it is "uniform".

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
    >>> ERMClassifier().fit(X, y).predict([[3.0]])
    array([1])
    """


class ERMRegressor(BaselineRegressor, problem="erm"):
    r"""Empirical risk minimisation: a regression for the clients' mean losses.

    .. math:: \min_{w,b}\ \sum_s\hat q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLRegressor`, whose radii are 0 here.
    """


class AFLClassifier(BaselineClassifier, problem="afl"):
    r"""Agnostic federated learning: a classifier for the worst weights of the clients.

    .. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLClassifier`, whose radius is 0 here. Among
    equally good models one of nearly the smallest norm is taken.

    Examples
    --------
    >>> X, y = 10 * [[-2.0], [-1.0], [1.0], [2.0]], 10 * [0, 0, 1, 1]
    >>> AFLClassifier().fit(X, y, clients=10 * [1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """

    _defaults: ClassVar[Mapping[str, Any]] = AGNOSTIC


class AFLRegressor(BaselineRegressor, problem="afl"):
    r"""Agnostic federated learning: a regression for the worst weights of the clients.

    .. math:: \min_{w,b}\ \max_{q\in Q}\ \sum_s q_s\,E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLRegressor`, whose radius is 0 here.
    """

    _defaults: ClassVar[Mapping[str, Any]] = AGNOSTIC


class DRFAClassifier(BaselineClassifier, problem="drfa"):
    r"""The problem of DRFA: a classifier for the client with the largest loss.

    .. math:: \min_{w,b}\ \max_s\ E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLClassifier`, whose radius is 0 and whose
    mixture radius is infinite here. Among equally good models one of nearly the smallest norm is
    taken.

    Examples
    --------
    >>> X, y = 10 * [[-2.0], [-1.0], [1.0], [2.0]], 10 * [0, 0, 1, 1]
    >>> DRFAClassifier().fit(X, y, clients=10 * [1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """


class DRFARegressor(BaselineRegressor, problem="drfa"):
    r"""The problem of DRFA: a regression for the client with the largest loss.

    .. math:: \min_{w,b}\ \max_s\ E_{\hat P_s}L

    Parameters and attributes are those of `drfl.DRFLRegressor`, whose radius is 0 and whose mixture
    radius is infinite here.
    """


class WAFLClassifier(BaselineClassifier, problem="wafl"):
    r"""WAFL: a classifier for the worst case over one ball around the mixture of all clients.

    .. math:: \min_{w,b}\ \sup\{E_PL : W(P,{\textstyle\sum_s\hat q_s\hat P_s})\le\rho\}

    Parameters and attributes are those of `drfl.DRFLClassifier` with mixture radius 0, but there is
    one radius; "auto" is :math:`0.1\sqrt{n/N}` as there. The losses of the
    clients are those at the multiplier that they share, and `worst_case` is that of the mixture,
    under the name "all".

    Examples
    --------
    >>> X, y = 10 * [[-2.0], [-1.0], [1.0], [2.0]], 10 * [0, 0, 1, 1]
    >>> WAFLClassifier(radius=0.1).fit(X, y, clients=10 * [1, 2, 1, 2]).predict([[3.0]])
    array([1])
    """


class WAFLRegressor(BaselineRegressor, problem="wafl"):
    r"""WAFL: a regression for the worst case over one ball around the mixture of all clients.

    .. math:: \min_{w,b}\ \sup\{E_PL : W(P,{\textstyle\sum_s\hat q_s\hat P_s})\le\rho\}

    Parameters and attributes are those of `drfl.DRFLRegressor` with mixture radius 0, but there is
    one radius; see `WAFLClassifier`.
    """
