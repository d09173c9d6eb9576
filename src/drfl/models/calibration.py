r"""What turns the scores of a model into log-odds at one place: an intercept, or a slope as well.

With scores z of a client's rows and their classes :math:`y=\pm1`, :math:`az+c` is fitted by
logistic regression: c alone ("intercept", a = 1), or both ("slope", Platt's scaling), which gives
any model probabilities. Where a share of positive rows is known instead of their classes, c is such
that the mean probability is that share ("prevalence"). Of a regression only the intercept is
fitted, by the model's own loss.

Several clients fit a and c together by the solver of the training, in which a client's rows have
one column, z: two numbers go down and up in every round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from drfl.arrays import Array
from drfl.client import Client
from drfl.models.document import EVERYONE, Calibration, Model
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.run import solve
from drfl.solvers import StatusKind
from drfl.uncertainty import Ball, Mixture
from drfl.worst_case import make_oracle
from drfl.worst_case.own_intercept import middle_intercept

FITTED = ("intercept", "slope")
LEAST = 1
"""Rows of each class without which nothing can be calibrated."""
TOL = 1e-9


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows in the units of their file (N, n), and positions of classes or scaled targets (N,)."""

    X: Any
    y: Array | None


def located(model: Model, name: str, X: Any, y: Array) -> Model:
    """The model at a client whose rows are at hand.

    Where every client has an intercept of its own and this one kept it, it is found again.
    """
    if not keeps_intercept(model, name):
        return model.at(name)
    own = [_own_intercept(model, k, name, X, y) for k in range(len(model.coef))]
    return replace(model, calibrations={name: Calibration.trained(own)}).at(name)


def keeps_intercept(model: Model, name: str) -> bool:
    """Whether every client has an intercept of its own, and this one did not tell it."""
    return model.problem.own_intercepts and name not in model.calibrations


def _own_intercept(model: Model, k: int, name: str, X: Any, y: Array) -> float:
    shift, scale = model.scaling(X)
    rows = Rows(X, model.target_of(k, y), shift=shift, scale=scale)
    problem = model.problem
    if problem.curves is not None:
        rows = rows.ramped(problem.curves)
    return middle_intercept(make_oracle(rows, problem.loss, problem.ball_of(name)), model.coef[k])


def calibrated_model(
    model: Model, clients: Mapping[str, Labelled], *, kind: str = "intercept"
) -> Model:
    """The model with a calibration on these rows: of the client, or of all for everyone.

    Parameters
    ----------
    model : Model
        Of a training.
    clients : mapping of str to Labelled
        The rows by client. One client gets a calibration of its own; several fit one together,
        for everyone who has none.
    kind : {"intercept", "slope"}
        What is fitted.
    """
    if kind not in FITTED:
        raise ValueError(f"kind must be 'intercept' or 'slope', got {kind!r}")
    if model.problem.network is not None:
        raise ValueError("a network is not calibrated here: train it on rows of this client too")
    classes = model.target.classes
    if model.joint:
        raise ValueError(
            "a calibration is for one score at a time, and all classes of this model are in one "
            "problem: train with --multiclass ovr"
        )
    if classes is None and kind == "slope":
        raise ValueError("a slope makes probabilities, which a numeric target does not have")
    if classes is not None and len(classes) > 2 and kind == "slope":
        raise ValueError(
            f"a slope is for two classes, and {model.target.name!r} has {len(classes)}: take "
            "kind='intercept'"
        )
    found = [_fitted(model, k, clients, kind) for k in range(len(model.coef))]
    name = next(iter(clients)) if len(clients) == 1 else EVERYONE
    made = Calibration(kind, tuple(a for a, _ in found), tuple(c for _, c in found))
    return replace(model, calibrations={**model.calibrations, name: made})


def _fitted(
    model: Model, k: int, clients: Mapping[str, Labelled], kind: str
) -> tuple[float, float]:
    """Slope and intercept of the k-th linear model."""
    columns = {
        name: (_base(model, k, rows), _target(model, k, rows)) for name, rows in clients.items()
    }
    if model.target.classes is not None:
        _require_both(model, columns)
    if kind == "intercept":
        loss = model.problem.loss if model.target.classes is None else "logistic"
        z, y = (np.concatenate(part) for part in zip(*columns.values(), strict=True))
        problem = Problem(loss, Ball(0.0))
        oracle = make_oracle(Rows(z[:, None], y), problem.loss, Ball(0.0))
        return 1.0, middle_intercept(oracle, np.ones(1))
    # Every row counts the same, whosever it is.
    problem = Problem("logistic", Ball(0.0), Mixture("proportional"))
    parties = [Client(name, z[:, None], y) for name, (z, y) in columns.items()]
    result = solve(problem, parties, tol=TOL)
    if result.status.kind is StatusKind.FAILED or not np.isfinite(result.coef).all():
        raise ValueError(f"the scores could not be calibrated: {result.status.message}")
    if not result.coef[0] > 0.0:
        raise ValueError(
            "the calibrated slope is not positive: on these rows higher scores do not go with the "
            "second class, and the model should not be used for them"
        )
    return float(result.coef[0]), float(result.intercept)


def from_prevalence(model: Model, name: str, X: Any, prevalence: float) -> Model:
    """The model with an intercept under which the mean probability of rows is a known share.

    Parameters
    ----------
    model : Model
        Of two classes, with the logistic loss.
    name : str
        The client's.
    X : array of shape (N, n)
        Its rows, in the units of their file; classes are not needed.
    prevalence : float
        The share of the second class.
    """
    classes = model.target.classes
    if classes is None or len(classes) != 2 or model.problem.loss.name != "logistic":
        raise ValueError(
            "a prevalence is for two classes and the logistic loss: give labelled rows"
        )
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"a prevalence is between 0 and 1, got {prevalence:g}")
    z = _base(model, 0, Labelled(X, None))
    middle = float(logit(prevalence))
    low, high = middle - float(z.max()), middle - float(z.min())
    shift = low if low == high else brentq(lambda c: expit(z + c).mean() - prevalence, low, high)
    made = Calibration("prevalence", (1.0,), (float(shift),))
    return replace(model, calibrations={**model.calibrations, name: made})


def _base(model: Model, k: int, rows: Labelled) -> Array:
    """Scores without any calibration (N,)."""
    scores = model.raw_scores(rows.X, model.coef, model.intercept, model.scaling(rows.X))
    return np.asarray(scores[:, k])


def _target(model: Model, k: int, rows: Labelled) -> Array:
    assert rows.y is not None
    return model.target_of(k, rows.y)


def _require_both(model: Model, columns: Mapping[str, tuple[Array, Array]]) -> None:
    y = np.concatenate([y for _, y in columns.values()])
    if (y > 0.0).sum() < LEAST or (y < 0.0).sum() < LEAST:
        raise ValueError(
            f"the rows have one class of {model.target.name!r} only: no intercept fits them; give "
            "rows of both classes, or a known prevalence"
        )
