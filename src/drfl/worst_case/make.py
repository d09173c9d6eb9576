"""Which oracle serves which loss, norm and support; what has none is refused by name."""

from __future__ import annotations

import math

import numpy as np

from drfl.losses import Loss
from drfl.rows import Rows
from drfl.supports import Box, WholeSpace
from drfl.uncertainty import Ball
from drfl.worst_case.boxes.l1_box import L1BoxOracle
from drfl.worst_case.enclose import enclose
from drfl.worst_case.gains import GainOracle, moves_class
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle


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
    if isinstance(ball.support, Box) and ball.norm.name == "l1" and loss.pieces:
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
