"""Several classes as linear models: one for two classes, else a score for each.

Scores are (N, K) with K models, that is one column for two classes; classes are positions 0, 1, ...
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array


def positives(classes: int) -> list[int]:
    """The class that +1 means, for every model."""
    return [1] if classes == 2 else list(range(classes))


def margin_target(codes: Array, positive: int) -> Array:
    """+1 for rows of the class, -1 for the rest (N,)."""
    return np.where(codes == positive, 1.0, -1.0)


NOTHING = 1e-6
"""Coefficients of standardised features that are not larger are rounding noise."""


def is_nothing(coef: Array) -> bool:
    """Whether coefficients (K, n) predict nothing: what is decided by them is noise."""
    return bool(np.abs(coef).max(initial=0.0) <= NOTHING)


def decided(scores: Array) -> NDArray[np.intp]:
    """The predicted classes (N,): the largest score; with one model, whether it is positive."""
    if scores.shape[1] == 1:
        return np.asarray(scores[:, 0] > 0.0, dtype=np.intp)
    return np.asarray(scores.argmax(axis=1), dtype=np.intp)


def log_odds(scores: Array, *, joint: bool = False) -> Array:
    r"""Of each class against the rest, :math:`\log p_k/(1-p_k)` (N, K), of its `probabilities`.

    With one score that of the second class, (N, 1): the score itself.

    Examples
    --------
    >>> log_odds(np.array([[0.0, 0.0, np.log(2.0)]]), joint=True).round(3).tolist()
    [[-1.099, -1.099, 0.0]]
    """
    if scores.shape[1] == 1:
        return scores
    logs = scores if joint else -np.logaddexp(0.0, -scores)
    others = [np.logaddexp.reduce(np.delete(logs, k, axis=1), axis=1) for k in range(logs.shape[1])]
    return np.asarray(logs - np.stack(others, axis=1))


def against_the_rest(rows_of: str, label: object) -> str:
    """What rows are called where one of several classes is judged against the rest."""
    return f"{rows_of}, class {label}"


def probabilities(scores: Array, *, joint: bool = False) -> Array:
    r"""Those of the classes, from log-odds: :math:`1/(1+e^{-z})`, divided by their sum.

    ``joint``: the scores are of one problem, and their softmax is meant.

    Examples
    --------
    >>> probabilities(np.array([[0.0]])).tolist()
    [[0.5, 0.5]]
    """
    if joint:
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))
    if scores.shape[1] == 1:
        scores = np.column_stack([-scores, scores])
        return np.asarray(np.exp(-np.logaddexp(0.0, -scores)))
    # Subtracting the largest logarithm keeps a row of tiny probabilities from being 0/0.
    logs = -np.logaddexp(0.0, -scores)
    odds = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
