"""From rows, loss and ball to the oracle that serves them; what has none is refused by name."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drfl import checks
from drfl._registry import lookup
from drfl.arrays import Array
from drfl.losses import Loss, Task, make_loss
from drfl.norms import L1, Norm
from drfl.rows import Rows, numbers
from drfl.supports import Box, Support, WholeSpace
from drfl.uncertainty import Ball
from drfl.worst_case.boxes.l1_box import L1BoxOracle
from drfl.worst_case.gains import GainOracle, moves_class
from drfl.worst_case.oracle import Oracle, WorstCase
from drfl.worst_case.whole_space import WholeSpaceOracle

OnOutside = Literal["error", "widen", "clip"]


def enclose(
    rows: Rows, support: Support, task: Task, on_outside: OnOutside = "error"
) -> tuple[Rows, Support]:
    """Make sure that a support holds its rows.

    Parameters
    ----------
    rows : Rows
        A client's data.
    support : Support
        Where they are supposed to live.
    task : {"classification", "regression"}
        Whether the support has a say about y.
    on_outside : {"error", "widen", "clip"}
        What to do with rows outside: name them in a ValueError, move the sides of the support out
        to hold them, or move the rows to the nearest point of the box.

    Returns
    -------
    tuple
        Rows and a support that holds them: the same ones if nothing was outside.
    """
    act = lookup("on_outside", on_outside, {"error": _refuse, "widen": _widen, "clip": _clip})
    support.check(rows.n_features, task)
    if isinstance(support, WholeSpace) or not _any_outside(rows, support):
        return rows, support
    return act(rows, support)


def tolerance(rows: Rows) -> float:
    """What counts as rounding: a bound given in float64 is not exact for float32 rows."""
    return 1e-9 if rows.X.dtype == np.float64 else 1e-6


def _any_outside(rows: Rows, support: Support) -> bool:
    near = tolerance(rows)
    if isinstance(support, Box):  # the extremes of the columns stand for all rows
        ends = np.array(rows.column_range())
        y_ends = np.array([rows.y.min(), rows.y.max()])
        return bool(support.distance(ends, y_ends, near).any())
    return any(support.distance(x, rows.y[at], near).any() for at, x in rows.dense_blocks())


def _refuse(rows: Rows, support: Support) -> tuple[Rows, Support]:
    near = tolerance(rows)
    distance = np.concatenate(
        [support.distance(x, rows.y[at], near) for at, x in rows.dense_blocks()]
    )
    outside = np.flatnonzero(distance)
    first = ", ".join(str(row) for row in outside[:3])
    many = "1 row lies" if len(outside) == 1 else f"{len(outside)} rows lie"
    raise ValueError(
        f"{many} outside the {support.name} (first: {first}; the largest distance is "
        f"{distance.max():.3g}): correct the rows or the {support.name}, or choose "
        'on_outside="widen" or "clip"'
    )


def _widen(rows: Rows, support: Support) -> tuple[Rows, Support]:
    if isinstance(support, Box):
        ends = np.array(rows.column_range())
        return rows, support.widened(ends, np.array([rows.y.min(), rows.y.max()]))
    for at, x in rows.dense_blocks():
        support = support.widened(x, rows.y[at])
    return rows, support


def _clip(rows: Rows, support: Support) -> tuple[Rows, Support]:
    if not isinstance(support, Box):
        raise ValueError(
            f"rows cannot be clipped to a {support.name}: choose on_outside='widen', or project "
            "the rows before"
        )
    low, high = support.bounds(rows.n_features)
    return rows.clipped(low, high, support.y_low, support.y_high), support


def make_oracle(rows: Rows, loss: Loss, ball: Ball) -> Oracle:
    """The oracle of a client; checks that the data fit the loss and lie in the support."""
    kind = oracle_class(loss, ball)
    if loss.task == "classification":
        _require_signs(rows)
    enclose(rows, ball.support, loss.task)
    return kind(rows, loss, ball)


def oracle_class(loss: Loss, ball: Ball) -> type[Oracle]:
    """The class of oracle for a pair of loss and ball, or a sentence that names what exists."""
    if ball.order != 1.0:
        raise ValueError("losses of a score take balls of order 1; other orders are for networks")
    _require_unit_slopes(loss, ball)
    if isinstance(ball.support, WholeSpace):
        return WholeSpaceOracle
    moves_class(loss, ball)
    if isinstance(ball.support, Box) and isinstance(ball.norm, L1) and loss.pieces:
        half_open = _is_uneven(loss) and _is_half_open(ball.support)
        return GainOracle if half_open else L1BoxOracle
    return GainOracle


def _require_unit_slopes(loss: Loss, ball: Ball) -> None:
    r"""Closed forms with flips or supports are those of margin losses with slopes in [-1, 0].

    A multiple of a loss has the same models: :math:`F` is homogeneous in L.
    """
    if loss.task != "classification" or loss.slope_range == (-1.0, 0.0) or ball.radius == 0.0:
        return
    if isinstance(ball.support, WholeSpace) and math.isinf(ball.label_cost):
        return
    low, high = loss.slope_range
    raise ValueError(
        f"{loss.name} has slopes in [{low:g}, {high:g}], but where labels may flip or rows have a "
        f"support a loss of classification needs [-1, 0]: divide the loss by {loss.lipschitz:g}, "
        "which divides the objective by it and leaves the model as it is"
    )


def _is_uneven(loss: Loss) -> bool:
    """Whether the slopes of the pieces differ in size."""
    return len({abs(piece.slope) for piece in loss.pieces} - {0.0}) > 1


def _is_half_open(box: Box) -> bool:
    """Whether a column is bounded on one side only: then its floor depends on the slope's sign."""
    low, high = np.isfinite(np.atleast_1d(box.low)), np.isfinite(np.atleast_1d(box.high))
    return bool((low ^ high).any())


def _require_signs(rows: Rows) -> None:
    if not ((rows.y == 1.0) | (rows.y == -1.0)).all():
        labels = np.unique(rows.y)
        shown = ", ".join(f"{label:g}" for label in labels[:4])
        raise ValueError(
            f"a classification loss needs the labels -1 and +1, got {shown}"
            f"{', ...' if len(labels) > 4 else ''}: code the two classes so"
        )


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
