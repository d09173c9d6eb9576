r"""How good models are on rows that a client held out: one number per model crosses.

A score is larger if it is better: minus the log loss where the loss has probabilities, the share of
rows whose class is predicted, minus the mean loss or minus the mean squared error. With a noise of
standard deviation :math:`\sigma` in every feature the scores of the K models at a row are normal
with covariance :math:`\sigma^2WW^\top`, so that the mean over the noise is taken over K numbers per
row instead of n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from drfl._registry import listed, lookup
from drfl.arrays import Array
from drfl.client import Checked, Handler, RefusedError, Site
from drfl.losses import Logistic, Loss, Task
from drfl.rows import Rows
from drfl.selection.folds import PART, Part, some_rows, weights_of
from drfl.wire import Field, Message, WireError, validate

KIND = "select_score"
DRAWS = 200  # of the noise, for every row
EVERY_CLASS = -1
SCORES: Mapping[str, tuple[Task, str]] = {
    "log_loss": ("classification", "minus the mean logarithm of the probability of a row's class"),
    "accuracy": ("classification", "the share of rows whose class is predicted"),
    "loss": ("regression", "minus the mean loss"),
    "squared_error": ("regression", "minus the mean squared error"),
}
"""What clients tell of held-out rows, with the task that it is for."""

REQUEST = {
    PART: Field("int64", (3,)),
    "coef": Field("float64", ("P", "K", "n")),  # P grid points of K models each
    "intercept": Field("float64", ("P", "K")),
    "own": Field("int64"),  # the class that +1 means here; -1: there are two classes, or none
    "noise": Field("float64"),
    "score": Field("int64"),  # a position in SCORES
}
REPLY = {"score": Field("float64", ("P",))}


def score_of(name: str | None, loss: Loss) -> str:
    """The score of a name, for a loss; None is the one that fits the loss best."""
    if name is None:
        if loss.task == "regression":
            return "loss"
        return "log_loss" if isinstance(loss, Logistic) else "accuracy"
    task, _ = lookup("score", name, SCORES)
    if task != loss.task:
        fitting = [known for known, (other, _) in SCORES.items() if other == loss.task]
        raise ValueError(f"the score {name!r} is for {task}: take one of {listed(fitting)}")
    if name == "log_loss" and not isinstance(loss, Logistic):
        raise ValueError(
            f"the score 'log_loss' needs probabilities, which the loss {loss.name!r} does not give"
            ": take loss='logistic', or score='accuracy'"
        )
    return name


def request(
    part: Part, coef: Array, intercept: Array, own: int, noise: float, score: str
) -> Message:
    """Ask for the scores of P grid points, coef (P, K, n), on the rows that a part holds out."""
    arrays: dict[str, NDArray[Any]] = {
        PART: part.array,
        "coef": coef,
        "intercept": intercept,
        "own": np.array(own),
        "noise": np.array(noise),
        "score": np.array(list(SCORES).index(score)),
    }
    return Message(KIND, 0, arrays)


def read(message: Message, points: int) -> Array:
    """The scores (P,) of an answer."""
    validate(message, f"{KIND}/reply", 0, REPLY, {"P": points})
    return np.array(message.arrays["score"])


def score(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    arrays = message.arrays
    at = Part.read(arrays[PART]).held_out(site.rows.n_rows)
    if len(at) == 0 or len(at) < site.policy.min_rows:
        raise RefusedError
    rows = Rows(**some_rows(site.rows, at), weights=weights_of(site.rows, at))
    own, noise = int(arrays["own"]), float(arrays["noise"])
    number = int(arrays["score"])
    if not 0 <= number < len(SCORES):
        raise WireError(f"there is no score number {number}")
    name = list(SCORES)[number]
    if SCORES[name][0] != site.oracle.loss.task:
        raise WireError(f"the score {name!r} is not for this task")
    per_row = partial(PER_ROW[name], site.oracle.loss, rows.y, own)
    models = zip(arrays["coef"], arrays["intercept"], strict=True)
    return {"score": np.array([_score(rows, W, b, noise, per_row) for W, b in models])}


HANDLERS: Mapping[str, Handler] = {KIND: Checked(score, REQUEST, REPLY)}


def _score(
    rows: Rows, W: Array, b: Array, noise: float, per_row: Callable[[Array], Array]
) -> float:
    """The mean over the rows, and over the noise if there is any."""
    z = np.array([rows.scores(w, float(bias)) for w, bias in zip(W, b, strict=True)])  # (K, N)
    steps = _spread(noise * W) if noise > 0.0 else np.zeros((1, len(W)))
    found = [rows.mean(per_row(z + step[:, None])) for step in steps]
    return float(np.mean(found))


def _accuracy(loss: Loss, y: Array, own: int, z: Array) -> Array:
    if own == EVERY_CLASS:  # a score of 0 is the first class, as in `predict`
        right: NDArray[np.bool_] = (z[0] > 0.0) == (y > 0.0)
    else:  # of each row one copy among the K that the classes make counts: that of its own class
        right = (z.argmax(axis=0) == own) & (y > 0.0)
    return right.astype(np.float64)


def _log_loss(loss: Loss, y: Array, own: int, z: Array) -> Array:
    if own == EVERY_CLASS:
        return np.asarray(-np.logaddexp(0.0, -np.sign(y) * z[0]))
    logs = -np.logaddexp(0.0, -z)  # (K, N), of each class against the rest
    return np.where(y > 0.0, logs[own] - np.logaddexp.reduce(logs, axis=0), 0.0)


def _loss(loss: Loss, y: Array, own: int, z: Array) -> Array:
    return -loss.value(z[0] - y)


def _squared_error(loss: Loss, y: Array, own: int, z: Array) -> Array:
    return np.asarray(-np.square(z[0] - y))


PER_ROW: Mapping[str, Callable[[Loss, Array, int, Array], Array]] = {
    "log_loss": _log_loss,
    "accuracy": _accuracy,
    "loss": _loss,
    "squared_error": _squared_error,
}
"""From the loss, the targets (N,), the class that +1 means and scores (K, N) to a number each."""


def _spread(A: Array) -> Array:
    """Draws (M, K) of Az with z normal: the same for all rows, a Latin hypercube in K numbers."""
    K, rng = len(A), np.random.default_rng(0)
    levels = np.array([np.arange(DRAWS), *(rng.permutation(DRAWS) for _ in range(K - 1))])
    z = ndtri((levels.T + 0.5) / DRAWS)
    values, vectors = np.linalg.eigh(A @ A.T)
    return np.asarray(z * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)
