r"""What turns the scores of a model into log-odds at one place: an intercept, or a slope as well.

With scores z of a client's rows and their classes :math:`y=\pm1`, :math:`az+c` is fitted by
logistic regression: c alone ("intercept", a = 1), or both ("slope", Platt's scaling), which gives
any model probabilities. Where a share of positive rows is known instead of their classes, c is such
that the mean probability is that share ("prevalence"). Where all classes are in one problem each
gets an intercept, by softmax regression. Of a regression only the intercept is
fitted, by the model's own loss.

Several clients fit a and c together by the solver of the training, in which a client's rows have
one column, z: two numbers go down and up in every round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from drfl.arrays import Array
from drfl.client import Client, Party
from drfl.engines import Engine
from drfl.inference import InferenceError, Inquiry, ModelPieces, corrected
from drfl.inference.classes import parameters
from drfl.models.document import EVERYONE, Calibration, Model
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.run import solve
from drfl.solvers import StatusKind
from drfl.uncertainty import Ball, Mixture
from drfl.worst_case import make_oracle
from drfl.worst_case.joint_intercepts import own_intercepts
from drfl.worst_case.own_intercept import middle_intercept

FITTED = ("intercept", "slope")
LEAST = 1  # rows of each class without which nothing can be calibrated
TOL = 1e-9
TOGETHER = Problem("logistic", Ball(0.0), Mixture("proportional"))
"""What several clients fit: every row counts the same, whosever it is."""


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
    every = [_own_intercepts(model, k, name, X, y) for k in range(model.n_problems)]
    own = Calibration.trained(np.concatenate(every))
    return replace(model, calibrations={name: own}).at(name)


def keeps_intercept(model: Model, name: str) -> bool:
    """Whether every client has an intercept of its own, and this one did not tell it."""
    return model.problem.own_intercepts and name not in model.calibrations


def _own_intercepts(model: Model, k: int, name: str, X: Any, y: Array) -> Array:
    shift, scale = model.scaling(X)
    rows = Rows(X, model.target_of(k, y), shift=shift, scale=scale)
    problem = model.problem
    if problem.curves is not None:
        rows = rows.ramped(problem.curves)
    return own_intercepts(problem.bounding_oracle(rows, name), model.linear(k)[0])


def calibrated_model(
    model: Model, clients: Mapping[str, Labelled], *, kind: str = "intercept"
) -> Model:
    """The model with a calibration on these rows: of the client, or of all for everyone.

    One client gets a calibration of its own; several fit one together, for everyone who has none.
    """
    require_calibratable(model, kind)
    if model.joint:
        found = [(1.0, c) for c in _fitted_jointly(model, list(clients.values())).tolist()]
    else:
        found = [_fitted(model, k, clients, kind) for k in range(len(model.coef))]
    return with_calibration(model, list(clients), kind, found)


def with_calibration(
    model: Model, clients: Sequence[str], kind: str, found: Sequence[tuple[float, float]]
) -> Model:
    """The model with what clients have found: slope and intercept of each linear model."""
    name = clients[0] if len(clients) == 1 else EVERYONE
    made = Calibration(kind, tuple(a for a, _ in found), tuple(c for _, c in found))
    return replace(model, calibrations={**model.calibrations, name: made})


def require_calibratable(model: Model, kind: str) -> None:
    """Refuse what has no calibration, before any row is looked at."""
    if kind not in FITTED:
        raise ValueError(f"kind must be 'intercept' or 'slope', got {kind!r}")
    if model.problem.network is not None:
        raise ValueError("a network is not calibrated here: train it on rows of this client too")
    classes = model.target.classes
    if classes is None and kind == "slope":
        raise ValueError("a slope makes probabilities, which a numeric target does not have")
    if classes is not None and len(classes) > 2 and kind == "slope":
        raise ValueError(
            "a slope is fitted to the score of one class against one other, and the probabilities "
            f"of the {len(classes)} classes of {model.target.name!r} come of all their scores: "
            "take kind='intercept'"
        )


def _fitted(
    model: Model, k: int, clients: Mapping[str, Labelled], kind: str
) -> tuple[float, float]:
    """Slope and intercept of the k-th linear model."""
    columns = {name: score_columns(model, k, rows) for name, rows in clients.items()}
    if model.target.classes is not None:
        _require_both(model, columns)
    if kind == "intercept":
        loss = model.problem.loss if model.target.classes is None else "logistic"
        z, y = (np.concatenate(part) for part in zip(*columns.values(), strict=True))
        problem = Problem(loss, Ball(0.0))
        oracle = make_oracle(Rows(z, y), problem.loss, Ball(0.0))
        return 1.0, middle_intercept(oracle, np.ones(1))
    return fitted_slope([Client(name, z, y) for name, (z, y) in columns.items()])


def _fitted_jointly(model: Model, clients: Sequence[Labelled]) -> Array:
    """The intercepts (K,) of all classes at once."""
    z = np.concatenate([_base(model, rows) for rows in clients])
    y = np.concatenate([_codes(rows) for rows in clients])
    counts = np.bincount(y.astype(np.intp), minlength=z.shape[1])
    if (counts < LEAST).any():
        assert model.target.classes is not None
        missing = model.target.classes[int(np.argmin(counts))]
        raise ValueError(
            f"the rows have no {model.target.name} = {missing}: no intercept fits it; give rows of "
            "every class"
        )
    problem = Problem("logistic", Ball(0.0), classes=z.shape[1])
    return own_intercepts(problem.bounding_oracle(Rows(z, y), ""), np.eye(z.shape[1]))


def fitted_slope(parties: Sequence[Party], engine: str | Engine = "serial") -> tuple[float, float]:
    """Slope and intercept of clients whose one column is a score, by the solver of a training."""
    result = solve(TOGETHER, parties, engine=engine, tol=TOL)
    if result.status.kind is StatusKind.FAILED or not np.isfinite(result.coef).all():
        raise ValueError(f"the scores could not be calibrated: {result.status.message}")
    if not result.coef[0] > 0.0:
        raise ValueError(
            "the calibrated slope is not positive: on these rows higher scores do not go with the "
            "second class, and the model should not be used for them"
        )
    return float(result.coef[0]), float(result.intercept)


def fitted_intercept(
    parties: Sequence[Party], engine: str | Engine = "serial"
) -> tuple[float, float]:
    """Slope 1 and the intercept, by Newton's steps of what each client tells of its scores."""
    try:
        with Inquiry(TOGETHER, parties, engine) as inquiry:
            return 1.0, float(_fitted_shift(inquiry, np.ones(1))[0])
    except InferenceError as error:
        raise _no_fit(error) from error


def fitted_class_intercepts(
    parties: Sequence[Party], classes: int, engine: str | Engine = "serial"
) -> list[tuple[float, float]]:
    """Slope 1 and the intercept of every class in one problem; they add up to 0."""
    problem = Problem("logistic", Ball(0.0), TOGETHER.mixture, classes=classes)
    still = parameters(problem, np.eye(classes), 0.0)[: (classes - 1) * classes]
    try:
        with Inquiry(problem, parties, engine) as inquiry:
            found = _fitted_shift(inquiry, still)
    except InferenceError as error:
        raise _no_fit(error) from error
    b = np.append(0.0, found)
    return [(1.0, float(c)) for c in b - b.mean()]


def _fitted_shift(inquiry: Inquiry, still: Array) -> Array:
    """The parameters that follow those that stay, every row counting the same."""

    def ask(c: Array, outer: bool) -> dict[str, ModelPieces]:
        found = inquiry.ask(np.append(still, c), outer)
        return {name: piece.without(len(still)) for name, piece in found.items()}

    start = np.zeros((inquiry.problem.classes or 2) - 1)
    rows = {name: piece.total for name, piece in ask(start, False).items()}
    return corrected(ask, TOGETHER.loss, start, rows).point


def _no_fit(error: InferenceError) -> ValueError:
    why = str(error).removeprefix("no standard errors: ")
    return ValueError(f"no intercept fits the scores: {why}")


def from_prevalence(model: Model, name: str, X: Any, prevalence: float) -> Model:
    """The model with an intercept under which the mean probability of rows is a known share.

    The model is of two classes, with the logistic loss; X are a client's rows (N, n) in the units
    of their file, whose classes are not needed; the share is that of the second class.
    """
    classes = model.target.classes
    probabilistic = model.problem.network is None and model.problem.loss.probabilistic
    if classes is None or len(classes) != 2 or not probabilistic:
        raise ValueError(
            "a prevalence is one share, and sets the one intercept of a model of two classes with "
            "probabilities, so of the logistic loss: give labelled rows"
        )
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"a prevalence is between 0 and 1, got {prevalence:g}")
    z = _base(model, Labelled(X, None))[:, 0]
    middle = float(logit(prevalence))
    low, high = middle - float(z.max()), middle - float(z.min())
    shift = low if low == high else brentq(lambda c: expit(z + c).mean() - prevalence, low, high)
    made = Calibration("prevalence", (1.0,), (float(shift),))
    return replace(model, calibrations={**model.calibrations, name: made})


def _base(model: Model, rows: Labelled) -> Array:
    """Scores without any calibration (N, K)."""
    return model.raw_scores(rows.X, model.coef, model.intercept, model.scaling(rows.X))


def _codes(rows: Labelled) -> Array:
    assert rows.y is not None
    return rows.y


def score_columns(model: Model, k: int | None, rows: Labelled) -> tuple[Array, Array]:
    """Scores of the k-th linear model without any calibration (N, 1), and its target (N,).

    None: of all classes in one problem, (N, K).
    """
    z, at = _base(model, rows), 0 if k is None else k
    return (z if k is None else z[:, [k]]), model.target_of(at, _codes(rows))


def _require_both(model: Model, columns: Mapping[str, tuple[Array, Array]]) -> None:
    y = np.concatenate([y for _, y in columns.values()])
    if (y > 0.0).sum() < LEAST or (y < 0.0).sum() < LEAST:
        raise ValueError(
            f"the rows have one class of {model.target.name!r} only: no intercept fits them; give "
            "rows of both classes, or a known prevalence"
        )
