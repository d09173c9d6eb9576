"""How good predictions are: of scores (N, K) for classes, or of errors for numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.one_vs_rest import decided

METRICS: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy", "balanced_accuracy", "auc"),
    "regression": ("mse", "mae"),
}
"""What is told of a model, by task."""
LOWER_IS_BETTER = METRICS["regression"]


def worst(name: str, values: list[float]) -> float:
    """The worst of some values of a metric."""
    return max(values) if name in LOWER_IS_BETTER else min(values)


def class_metrics(scores: Array, y: Array) -> dict[str, float]:
    """Of scores (N, K) for rows whose classes are at the positions y (N,)."""
    right = decided(scores) == y
    present = np.unique(y).astype(int).tolist()
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean([right[y == k].mean() for k in present])),
        "auc": _mean_auc(scores, y, present),
    }


def number_metrics(error: Array) -> dict[str, float]:
    """Of errors in the units of the target (N,)."""
    return {"mse": float(np.mean(error**2)), "mae": float(np.mean(np.abs(error)))}


def auc(scores: Array, positive: NDArray[np.bool_]) -> float:
    r"""The area under the ROC curve: how often a positive row scores above another one.

    .. math:: P(z_+>z_-)+\tfrac12P(z_+=z_-)

    Examples
    --------
    >>> auc(np.array([0.1, 0.4, 0.4]), np.array([False, False, True]))
    0.75
    """
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2.0  # equal scores share their mean rank
    n, m = int(positive.sum()), int((~positive).sum())
    if n == 0 or m == 0:
        return float("nan")
    return float((ranks[inverse[positive]].sum() - n * (n + 1) / 2.0) / (n * m))


def _mean_auc(scores: Array, y: Array, present: list[int]) -> float:
    """With more than two classes, the mean over each against the rest; NaN if there is one."""
    if scores.shape[1] == 1:
        return auc(scores[:, 0], y == 1)
    if len(present) < 2:
        return float("nan")
    return float(np.mean([auc(scores[:, k], y == k) for k in present]))
