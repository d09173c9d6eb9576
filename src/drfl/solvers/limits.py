"""What the answers of a client cannot exceed, whatever its rows are: a site may lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.norms import Norm
from drfl.problem import Problem
from drfl.supports import WholeSpace

SLACK = 1e-7  # rounding, relatively
DIGITS = 1e-11  # rounding of a sum, relative to its largest term
LARGEST = 1e100  # a number beyond has no business here


@dataclass(frozen=True)
class Limits:
    """What a client's answers cannot exceed, whatever its rows are.

    Attributes
    ----------
    lipschitz : float
        Of the loss.
    at_zero, multiplier_at_zero : float or None, float
        F and its multiplier at x = 0; None: the client has to tell (regression).
    label_cost : float
        The price of a label; infinity: none moves.
    columns : (n,) or None
        Root mean squares of the columns, if they are known from elsewhere.
    move : (n,) or float
        By how much the columns of rows move on average within a support; 0 on the whole space,
        where the norm of w stands for it.
    split : bool
        Whether what flips add can have cuts of its own.
    classes : int or None
        How many there are at once, if it tells of them.
    one_sided : bool
        Whether the loss of a row leans one way only, as that of a margin does.
    """

    lipschitz: float
    at_zero: float | None
    label_cost: float
    multiplier_at_zero: float = 0.0
    columns: Array | None = None
    move: Array | float = 0.0
    split: bool = False
    classes: int | None = None
    one_sided: bool = True

    @classmethod
    def of(
        cls, problem: Problem, name: str, n: int, columns: Sequence[float] | None = None
    ) -> Limits:
        """The limits of one client; ``n`` counts the columns."""
        loss, ball, own = problem.loss, problem.ball_of(name), problem.own_intercepts
        margin = loss.task == "classification"
        cost = ball.label_cost if margin and ball.radius > 0.0 else np.inf
        whole = isinstance(ball.support, WholeSpace)
        move: Array | float = 0.0
        if not whole:
            # In a shared ball one client's rows may move by more than the radius.
            move = np.inf if problem.shared_ball else ball.radius * _column_moves(ball.norm, n)
        # With an intercept of its own a client has to tell.
        at_zero = None if own else value_at_zero(problem)
        if problem.classes is not None and columns is not None:
            columns = np.tile(columns, problem.classes)  # type: ignore[assignment]
        return cls(
            lipschitz=loss.lipschitz,
            at_zero=at_zero,
            classes=None if own else problem.classes,
            label_cost=cost,
            split=bool(
                loss.linear_gain
                and whole
                and np.isfinite(cost)
                and not problem.shared_ball
                and not own
            ),
            columns=None if columns is None else np.asarray(columns, dtype=np.float64),
            move=move,
            one_sided=margin,
        )

    def told(self, value: float, multiplier: float) -> Limits:
        """With what a client told at x = 0, where that was not known."""
        if self.at_zero is not None:
            return self
        return replace(self, at_zero=value, multiplier_at_zero=multiplier)


def value_at_zero(problem: Problem) -> float | None:
    """What every client loses at w = 0 and b = 0, where labels alone say so: in classification."""
    if problem.joint is not None and problem.classes is not None:
        return problem.joint.at_zero(problem.classes)
    if problem.loss.task == "classification":
        return float(problem.loss.value(np.zeros(1))[0])
    return None


@lru_cache(maxsize=8)
def _column_moves(norm: Norm, n: int) -> Array:
    r"""How far a move of length 1 goes in every column: :math:`\|e_j\|_*`."""
    moves, e = np.zeros(n), np.zeros(n)
    for j in range(n):
        e[j] = 1.0
        moves[j] = norm.dual(e)
        e[j] = 0.0
    return moves


def is_below(value: float, least: float, largest_term: float = 0.0) -> bool:
    """Whether a value is below what it is at least, by more than rounding."""
    return value < least - SLACK * (1.0 + abs(least)) - DIGITS * largest_term


def are_below(
    values: Array | float, least: Array | float, largest_terms: Array | float = 0.0
) -> NDArray[np.bool_]:
    """The same of many; NaN, which is not known, is not below and nothing is below it."""
    room = SLACK * (1.0 + np.abs(least)) + DIGITS * np.asarray(largest_terms)
    return np.asarray(values < least - room)
