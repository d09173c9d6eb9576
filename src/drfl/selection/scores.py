r"""How good models are on rows that a client held out: one number per model crosses.

Classification: the share of rows whose class is predicted. Regression: minus the mean loss. With a
noise of standard deviation :math:`\sigma` in every feature the scores of the K models at a row are
normal with covariance :math:`\sigma^2WW^\top`, so that the mean over the noise is taken over K
numbers per row instead of n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from drfl.arrays import Array
from drfl.client import Checked, Handler, RefusedError, Site
from drfl.rows import Rows
from drfl.selection.folds import PART, Part, some_rows, weights_of
from drfl.wire import Field, Message, validate

KIND = "select_score"
DRAWS = 200  # of the noise, for every row
EVERY_CLASS = -1

REQUEST = {
    PART: Field("int64", (3,)),
    "coef": Field("float64", ("P", "K", "n")),  # P grid points of K models each
    "intercept": Field("float64", ("P", "K")),
    "own": Field("int64"),  # the class that +1 means here; -1: there are two classes, or none
    "noise": Field("float64"),
}
REPLY = {"score": Field("float64", ("P",))}


def request(part: Part, coef: Array, intercept: Array, own: int, noise: float) -> Message:
    """Ask for the scores of P grid points, coef (P, K, n), on the rows that a part holds out."""
    arrays: dict[str, NDArray[Any]] = {
        PART: part.array,
        "coef": coef,
        "intercept": intercept,
        "own": np.array(own),
        "noise": np.array(noise),
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
    models = zip(arrays["coef"], arrays["intercept"], strict=True)
    return {"score": np.array([_score(site, rows, W, b, own, noise) for W, b in models])}


HANDLERS: Mapping[str, Handler] = {KIND: Checked(score, REQUEST, REPLY)}


def _score(site: Site, rows: Rows, W: Array, b: Array, own: int, noise: float) -> float:
    """The mean over the rows, and over the noise if there is any."""
    z = np.array([rows.scores(w, float(bias)) for w, bias in zip(W, b, strict=True)])  # (K, N)
    steps = _spread(noise * W) if noise > 0.0 else np.zeros((1, len(W)))
    found = [rows.mean(_row_scores(site, rows, z + step[:, None], own)) for step in steps]
    return float(np.mean(found))


def _row_scores(site: Site, rows: Rows, z: Array, own: int) -> Array:
    if not site.oracle.is_margin:
        return -site.oracle.loss.value(z[0] - rows.y)
    if own == EVERY_CLASS:  # a score of 0 is the first class, as in `predict`
        right: NDArray[np.bool_] = (z[0] > 0.0) == (rows.y > 0.0)
    else:  # of each row one copy among the K that the classes make counts: that of its own class
        right = (z.argmax(axis=0) == own) & (rows.y > 0.0)
    return right.astype(np.float64)


def _spread(A: Array) -> Array:
    """Draws (M, K) of Az with z normal: the same for all rows, a Latin hypercube in K numbers."""
    K, rng = len(A), np.random.default_rng(0)
    levels = np.array([np.arange(DRAWS), *(rng.permutation(DRAWS) for _ in range(K - 1))])
    z = ndtri((levels.T + 0.5) / DRAWS)
    values, vectors = np.linalg.eigh(A @ A.T)
    return np.asarray(z * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)
