"""Convex losses, each a function of one scalar: what they state, which there are, and a check."""

from drfl.losses.base import Line, Loss, Task
from drfl.losses.check import check
from drfl.losses.known import (
    LOSSES,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    SmoothHinge,
    make_loss,
)

__all__ = [
    "LOSSES",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Line",
    "Logistic",
    "Loss",
    "Pinball",
    "SmoothHinge",
    "Task",
    "check",
    "make_loss",
]
