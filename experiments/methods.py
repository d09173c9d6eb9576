"""The five methods as exact problems, and the grids over which each is tuned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from drfl import baselines, estimators
from drfl.arrays import Array
from drfl.estimators.base import RobustModel
from drfl.estimators.client_table import ClientTable
from drfl.supports import Box
from experiments.protocol import Protocol

METHODS = ("erm", "afl", "drfa", "wafl", "drfl")
RADIUS, COST, THETA = "radius", "label_cost", "mixture_radius"
TUNED: Mapping[str, tuple[str, ...]] = {
    "erm": (),
    "afl": (THETA,),
    "drfa": (),
    "wafl": (RADIUS, COST),
    "drfl": (RADIUS, COST, THETA),
}
"""The parameters of each method."""

EXACT = 1e-7
"""The tolerance where there is no radius: the smallest norm among models that are a little worse
would be a regularisation that those methods do not have."""

_CLASSES: Mapping[str, tuple[type[RobustModel], type[RobustModel]]] = {
    "erm": (baselines.ERMClassifier, baselines.ERMRegressor),
    "afl": (baselines.AFLClassifier, baselines.AFLRegressor),
    "drfa": (baselines.DRFAClassifier, baselines.DRFARegressor),
    "wafl": (baselines.WAFLClassifier, baselines.WAFLRegressor),
    "drfl": (estimators.DRFLClassifier, estimators.DRFLRegressor),
}
Params = dict[str, Any]


def grid(method: str, protocol: Protocol) -> list[Params]:
    """The grid points of a method; one without parameters for a method without any."""
    values = {
        RADIUS: protocol.radii,
        COST: protocol.label_costs,
        THETA: protocol.mixture_radii,
    }
    names = TUNED[method]
    return [dict(zip(names, found, strict=True)) for found in product(*(values[n] for n in names))]


def untuned(method: str, factor: float, table: ClientTable) -> Params:
    r"""Parameters without tuning: :math:`\rho_s=c/\sqrt{N_s}`, theta 0.2, labels never move.

    Parameters
    ----------
    method : str
        Whose.
    factor : float
        c.
    table : ClientTable
        Whose rows count; WAFL's ball counts them all.
    """
    own: Params = {RADIUS: [factor / math.sqrt(total) for total in table.totals]}
    if method == "wafl":
        own = {RADIUS: factor / math.sqrt(table.totals.sum())}
    own |= {COST: math.inf, THETA: 0.2}
    return {name: own[name] for name in TUNED[method]}


def estimator(method: str, protocol: Protocol, table: ClientTable) -> RobustModel:
    """The estimator of a method with the choices of a protocol, for rows of a table."""
    kind = _CLASSES[method][protocol.is_regression]
    wishes: Params = {
        "loss": "huber" if protocol.is_regression else "hinge",
        "epsilon": protocol.epsilon,
        "norm": "l1",
        "mixture_norm": protocol.p,
        "mixture_center": protocol.center,
        "intercept": "shared" if protocol.intercept else "none",
        "tol": protocol.tol / 2.0 if RADIUS in TUNED[method] else EXACT,
        "solver": "local",
    }
    if not protocol.is_regression and protocol.box in ("widen", "clip"):
        wishes |= {"support": Box(-1.0, 1.0).widened(table.X, table.y), "solver": "bundle"}
    known = kind().get_params(deep=False)
    return kind(**{name: value for name, value in wishes.items() if name in known})


def stated(params: Sequence[Params], protocol: Protocol) -> list[Params]:
    """Grid points as they are solved: the printed price of a regression knows no label cost."""
    if not (protocol.is_regression and protocol.metric == "literal"):
        return list(params)
    return [{**point, COST: 1.0} if COST in point else point for point in params]


def center(protocol: Protocol, table: ClientTable) -> Array:
    """The centre of the mixture for the clients of a table (S,)."""
    sizes = table.totals if protocol.center == "proportional" else np.ones(len(table.names))
    return np.asarray(sizes / sizes.sum())
