"""A client's worst-case loss."""

from drfl.ball import Ball
from drfl.losses import Loss
from drfl.rows import Rows
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase
from drfl.worst_case.whole_space import WholeSpaceOracle

__all__ = ["Distribution", "Oracle", "WorstCase", "make_oracle"]


def make_oracle(rows: Rows, loss: Loss, ball: Ball) -> Oracle:
    """The oracle of a client."""
    return WholeSpaceOracle(rows, loss, ball)
