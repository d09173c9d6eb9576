r"""How good models are on rows that a client held out: one number per model crosses.

A score is larger if it is better: minus the log loss where the loss has probabilities, the share of
rows whose class is predicted, minus the mean loss or minus the mean squared error. With a noise of
standard deviation :math:`\sigma` in every feature the scores of the K models at a row are normal
with covariance :math:`\sigma^2WW^\top`, so that the mean over the noise is taken over K numbers per
row instead of n. A curve bends what the noise does: there it is drawn for every column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from drfl._registry import listed, lookup
from drfl.arrays import Array
from drfl.client import Checked, Handler, Site
from drfl.curves import Curves
from drfl.losses import Loss
from drfl.losses.joint import JOINT, JointLoss
from drfl.metrics import auc
from drfl.rows import Rows
from drfl.run.result import intercepts_at
from drfl.selection.client_half.folds import PART, Part, held_out_rows
from drfl.wire import Field, Message, WireError, validate
from drfl.worst_case.joint_intercepts import own_intercepts

KIND = "select_score"
DRAWS = 200  # of the noise, for every row
COLUMN_DRAWS = 20  # where every column has its own
EVERY_CLASS = -1
BOTH, CLASSES, NUMBERS = ("classification", "regression"), ("classification",), ("regression",)
SCORES: Mapping[str, tuple[str, ...]] = {
    "log_loss": CLASSES,
    "accuracy": CLASSES,
    "loss": BOTH,
    "squared_error": NUMBERS,
    "absolute_error": NUMBERS,
    "sensitivity": CLASSES,
    "specificity": CLASSES,
    "auc": CLASSES,
}
"""What clients tell of held-out rows, with the tasks that it is for. Losses and errors have a
minus, so that larger is always better."""

OF_TWO = ("auc", "sensitivity", "specificity")
"""What only two classes have."""

REQUEST = {
    PART: Field("int64", (3,)),
    "coef": Field("float64", ("P", "K", "n")),  # P grid points of K models each
    # NaN: the client's own, which it finds on these rows
    "intercept": Field("float64", ("P", "K"), finite=False),
    "own": Field("int64"),  # the class that +1 means here; -1: it is no class against the rest
    "noise": Field("float64"),
    "score": Field("int64", ("M",)),  # positions in SCORES
}
# NaN: there is no row of a class.
REPLY = {"score": Field("float64", ("M", "P"), finite=False)}


def score_of(name: str | None, loss: Loss) -> str:
    """The score of a name, for a loss; None is the one that fits the loss best."""
    if name is None:
        if loss.task == "regression":
            return "loss"
        return "log_loss" if _probabilistic(loss) else "accuracy"
    if loss.task not in lookup("score", name, SCORES):
        fitting = [known for known, tasks in SCORES.items() if loss.task in tasks]
        raise ValueError(
            f"the score {name!r} is not for {loss.task}: take one of {listed(fitting)}"
        )
    if name == "log_loss" and not _probabilistic(loss):
        raise ValueError(
            f"the score 'log_loss' needs probabilities, which the loss {loss.name!r} does not give"
            ": take loss='logistic', or score='accuracy'"
        )
    return name


def _probabilistic(loss: Loss) -> bool:
    return isinstance(loss, Loss) and loss.probabilistic  # networks are judged elsewhere


def request(
    part: Part, coef: Array, intercept: Array, own: int, noise: float, names: Sequence[str]
) -> Message:
    """Ask for M scores of P grid points, coef (P, K, n), on the rows that a part holds out."""
    arrays: dict[str, NDArray[Any]] = {
        PART: part.array,
        "coef": coef,
        "intercept": intercept,
        "own": np.array(own),
        "noise": np.array(noise),
        "score": np.array([list(SCORES).index(name) for name in names], dtype=np.int64),
    }
    return Message(KIND, 0, arrays)


def read(message: Message, names: Sequence[str], points: int) -> Array:
    """The scores (M, P) of an answer."""
    validate(message, f"{KIND}/reply", 0, REPLY, {"M": len(names), "P": points})
    found = np.array(message.arrays["score"])
    if np.isinf(found).any():
        raise WireError("a score is infinite")
    return found


def score(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    arrays = message.arrays
    rows, curves = held_out_rows(site, message), None
    own, noise = int(arrays["own"]), float(arrays["noise"])
    if site.problem.curves is not None:
        curves, columns = site.problem.curves, rows
        rows = rows.ramped(curves)
    loss, joint = site.problem.loss, site.problem.joint
    names = [_name(int(k), loss) for k in arrays["score"]]
    if joint is not None and (set(names) & set(OF_TWO) or own != EVERY_CLASS):
        raise WireError("of several classes at once there is no such score")
    measures = [Measure(name, loss, rows, own, joint) for name in names]
    found = _intercepts(site, rows, arrays["coef"], arrays["intercept"])
    models = list(zip(arrays["coef"], found, strict=True))
    if curves is not None and noise > 0.0:
        told = _noisy_curves(measures, models, columns.take(slice(None)), curves, noise)
    else:
        told = np.array([_scores(measures, W, b, noise) for W, b in models])
    return {"score": told.reshape(-1, len(measures)).T.copy()}


def _noisy_curves(
    measures: Sequence[Measure],
    models: Sequence[tuple[Array, Array]],
    X: Array,
    curves: Curves,
    noise: float,
) -> Array:
    """The means over draws of the noise in every column, the same for all models (P, M)."""
    total, rng = np.zeros((len(models), len(measures))), np.random.default_rng(0)
    for _ in range(COLUMN_DRAWS):
        ramps = curves.expand(X + noise * rng.normal(size=X.shape))
        for k, (W, b) in enumerate(models):
            z = W @ ramps.T + b[:, None]
            total[k] += [measure.of(z) for measure in measures]
    return total / COLUMN_DRAWS


def _intercepts(site: Site, rows: Rows, coef: Array, given: Array) -> Array:
    """The intercepts (P, K), those of this client where none are given."""
    found, missing = given.copy(), np.isnan(given)
    if missing.any():
        oracle = site.problem.bounding_oracle(rows, site.name)
        for p, k in zip(*np.nonzero(missing), strict=True):
            if site.problem.classes is None:
                found[p, k] = own_intercepts(oracle, coef[p, k])[0]
            elif k == 0:
                found[p] = own_intercepts(oracle, coef[p])
    if not np.isfinite(found).all():
        raise WireError("an intercept is infinite")
    return found


def intercepts_of(models: Sequence[Sequence[Any]], name: str) -> Array:
    """The intercepts (P, K) of models at a client; NaN where it has to find its own."""
    return np.array([intercepts_at(ones, name) for ones in models])


def _name(number: int, loss: Loss) -> str:
    if not 0 <= number < len(SCORES):
        raise WireError(f"there is no score number {number}")
    name = list(SCORES)[number]
    if loss.task not in SCORES[name]:
        raise WireError(f"the score {name!r} is not for this task")
    return name


HANDLERS: Mapping[str, Handler] = {KIND: Checked(score, REQUEST, REPLY)}


def _scores(measures: Sequence[Measure], W: Array, b: Array, noise: float) -> list[float]:
    """The means over the rows, and over the noise if there is any."""
    if not measures:
        return []
    rows = measures[0].rows
    z = np.array([rows.scores(w, float(bias)) for w, bias in zip(W, b, strict=True)])  # (K, N)
    steps = _spread(noise * W) if noise > 0.0 else np.zeros((1, len(W)))
    moved = [z + step[:, None] for step in steps]
    return [float(np.mean([measure.of(at) for at in moved])) for measure in measures]


@dataclass(frozen=True)
class Measure:
    """A score on some rows."""

    name: str
    loss: Loss  # that of the problem
    rows: Rows
    own: int  # the class that +1 means here, if there are several models
    joint: JointLoss | None = None  # that of several classes at once, whose numbers y are

    def of(self, z: Array) -> float:
        """At scores (K, N)."""
        y = self.rows.y
        if self.name == "auc":
            return auc(z[0], y > 0.0)
        per_row = getattr(self, f"_{self.name}")(y, z)
        if self.name in ("sensitivity", "specificity"):
            among = (y > 0.0) if self.name == "sensitivity" else (y < 0.0)
            share = self.rows.mean(among.astype(np.float64))
            return self.rows.mean(per_row * among) / share if share > 0.0 else math.nan
        return self.rows.mean(per_row)

    def _accuracy(self, y: Array, z: Array) -> Array:
        if self.joint is not None:
            return np.asarray(z.argmax(axis=0) == y, dtype=np.float64)
        if self.own == EVERY_CLASS:  # a score of 0 is the first class, as in `predict`
            right: NDArray[np.bool_] = (z[0] > 0.0) == (y > 0.0)
        else:  # of each row one copy among the K that the classes make counts: of its own class
            right = (z.argmax(axis=0) == self.own) & (y > 0.0)
        return right.astype(np.float64)

    _sensitivity = _specificity = _accuracy

    def _log_loss(self, y: Array, z: Array) -> Array:
        if self.joint is not None:
            return -JOINT["logistic"].value(z, y.astype(np.intp))
        if self.own == EVERY_CLASS:
            return np.asarray(-np.logaddexp(0.0, -np.sign(y) * z[0]))
        logs = -np.logaddexp(0.0, -z)  # (K, N), of each class against the rest
        return np.where(y > 0.0, logs[self.own] - np.logaddexp.reduce(logs, axis=0), 0.0)

    def _loss(self, y: Array, z: Array) -> Array:
        if self.joint is not None:
            return -self.joint.value(z, y.astype(np.intp))
        if self.loss.task == "regression":
            return -self.loss.value(z[0] - y)
        k = 0 if self.own == EVERY_CLASS else self.own
        return -self.loss.value(y * z[k])

    def _squared_error(self, y: Array, z: Array) -> Array:
        return np.asarray(-np.square(z[0] - y))

    def _absolute_error(self, y: Array, z: Array) -> Array:
        return np.asarray(-np.abs(z[0] - y))


def _spread(A: Array) -> Array:
    """Draws (M, K) of Az with z normal: the same for all rows, a Latin hypercube in K numbers."""
    K, rng = len(A), np.random.default_rng(0)
    levels = np.array([np.arange(DRAWS), *(rng.permutation(DRAWS) for _ in range(K - 1))])
    z = ndtri((levels.T + 0.5) / DRAWS)
    values, vectors = np.linalg.eigh(A @ A.T)
    return np.asarray(z * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)
