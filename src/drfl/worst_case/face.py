"""The public function: one client's worst-case loss from plain arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drfl import checks
from drfl.arrays import Array
from drfl.losses import Loss, make_loss
from drfl.norms import Norm
from drfl.rows import Rows, numbers
from drfl.supports import Support
from drfl.uncertainty import Ball
from drfl.worst_case.enclose import OnOutside, enclose
from drfl.worst_case.make import make_oracle, oracle_class
from drfl.worst_case.oracle import WorstCase


def worst_case_loss(
    X: Any,
    y: ArrayLike,
    coef: ArrayLike,
    intercept: float = 0.0,
    *,
    loss: str | Loss,
    radius: float,
    label_cost: float = math.inf,
    norm: str | Norm = "l1",
    support: Support | None = None,
    sample_weight: ArrayLike | None = None,
    on_outside: OnOutside = "error",
    **loss_params: Any,
) -> WorstCase:
    r"""The worst expected loss of a linear model over a Wasserstein ball around the rows.

    .. math:: F(w,b)=\sup_{P:\,W(P,\hat P)\le\rho}E_PL(w,b;x,y)

    Parameters
    ----------
    X : array, scipy sparse matrix or DataFrame of shape (N, n)
        The rows; used in place.
    y : array of shape (N,)
        Labels -1/+1 (or 0/1, which stands for -1/+1), or targets.
    coef : array of shape (n,)
        w.
    intercept : float
        b; it is never transported.
    loss : str or Loss
        One of `drfl.losses.LOSSES`; its parameters follow as keywords.
    radius : float
        :math:`\rho\ge0`.
    label_cost : float
        :math:`\kappa` in (0, inf].
    norm : {"l1", "l2", "linf"}
        The ground norm of the features.
    support : Box, Polyhedron or None
        Where data may live; None is the whole space.
    sample_weight : array of shape (N,), optional
        Masses of the rows, in proportion.
    on_outside : {"error", "widen", "clip"}
        What to do with rows outside the support.

    Returns
    -------
    WorstCase
        ``value``, ``gradient``, ``intercept_gradient``, ``multiplier`` and ``distribution()``.

    Examples
    --------
    >>> worst = worst_case_loss([[1.0], [-1.0]], [1, -1], [1.0], loss="hinge", radius=0.5)
    >>> worst.value
    0.5
    """
    loss = make_loss(loss, **loss_params)
    ball = Ball(radius, norm, label_cost, support)
    oracle_class(loss, ball)  # refuse an impossible pair before looking at the data
    rows = Rows(X, _signs(y) if loss.task == "classification" else y, weights=sample_weight)
    w = numbers("coef", coef)
    if w.shape != (rows.n_features,):
        raise ValueError(
            f"coef has shape {w.shape} but X has {rows.n_features} columns: give one per column"
        )
    if not np.isfinite(w).all():
        raise ValueError("coef must be finite")
    b = checks.number("intercept", intercept)
    rows, enclosing = enclose(rows, ball.support, loss.task, on_outside)
    oracle = make_oracle(rows, loss, Ball(radius, norm, label_cost, enclosing))
    return oracle.evaluate(w, b)


def _signs(y: ArrayLike) -> Array:
    """Labels 0/1 as -1/+1; others stay and are checked later."""
    labels = numbers("y", y)
    if ((labels == 0.0) | (labels == 1.0)).all():
        return 2.0 * labels - 1.0
    return labels
