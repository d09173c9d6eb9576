r"""The least price that keeps the worst case finite, and mass that escapes at that price.

Where the support is unbounded, a row goes to infinity unless :math:`\lambda\ge\lambda_0(w)`, the
steepest slope of the loss along a way to infinity. If :math:`\varphi` increases from there on, a
part of the budget is left over and spent on that way, at the rate :math:`\lambda_0` exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.worst_case.escape import TOLERANCE, Atoms, describe
from drfl.worst_case.moves import Moves
from drfl.worst_case.oracle import Distribution, Oracle


@dataclass(frozen=True)
class Floor:
    r"""The floor :math:`\lambda_0(w)`, a subgradient of it, and the way out that sets it."""

    lam: float
    gradient: Array
    slope: float
    """The slope of the loss along the way out, an end of its slope range."""
    label: float
    """Classification: the label whose rows take that way."""
    dx: Array
    dy: float


def find_floor(oracle: Oracle, moves: Moves) -> Floor:
    """Compare the ways out of all labels that have mass, or can get some."""
    best = Floor(0.0, np.zeros_like(moves.w), 0.0, 1.0, np.zeros_like(moves.w), 0.0)
    for label in _labels(oracle):
        for v in filter(None, oracle.loss.slope_range):
            sigma = math.copysign(1.0, v) * label
            rate, dx, dy = moves.escape(sigma)
            if abs(v) * rate > best.lam:
                best = Floor(abs(v) * rate, abs(v) * sigma * dx, v, label, dx, dy)
    return best


def _labels(oracle: Oracle) -> tuple[float, ...]:
    if not oracle.is_margin:
        return (1.0,)
    if math.isfinite(oracle.ball.label_cost):
        return (-1.0, 1.0)
    present = oracle.rows.y if oracle.rows.p is None else oracle.rows.y[oracle.rows.p > 0.0]
    return tuple(label for label in (-1.0, 1.0) if (present == label).any())


def let_escape(
    atoms: Atoms, spare: float, floor: Floor, oracle: Oracle, w: Array, b: float, value: float
) -> Distribution:
    r"""Spend ``spare`` on the way out that sets the floor, with a part of one atom.

    A mass e of an atom gains :math:`\lambda_0\,\mathrm{spare}-e\delta`, where
    :math:`\delta\ge0` is what it loses on its way to the linear part of its loss (a flipped label
    included). An atom that loses nothing attains the supremum; otherwise e is made small.
    """
    loss, kappa = oracle.loss, oracle.ball.label_cost
    turns = oracle.is_margin & (atoms.y != floor.label)
    label = np.where(turns, floor.label, atoms.y)
    before = loss.value(oracle.arguments(atoms.x @ w + b, atoms.y))
    line = floor.slope * oracle.arguments(atoms.x @ w + b, label)
    line -= loss.conjugate(np.array([floor.slope]))
    delta = before - line
    # Where labels never flip an atom with the other label is of no use.
    delta[turns] += floor.lam * kappa
    k = int(np.argmin(delta))
    mass, tolerance = float(atoms.mass[k]), 0.0
    flip = kappa if turns[k] else 0.0
    if delta[k] > 1e-12 * max(value, abs(float(line[k]))) or mass * flip > spare:
        tolerance = TOLERANCE * value
        mass = min(mass, 0.5 * tolerance / float(delta[k]) if delta[k] > 0.0 else math.inf)
        mass = min(mass, 0.5 * spare / flip if flip > 0.0 else math.inf)
    distance = spare / mass - flip
    dy = label[k] - atoms.y[k] + distance * floor.dy
    atoms = atoms.split(k, mass, distance * floor.dx, float(dy))
    return describe(atoms, oracle, w, b, tolerance=tolerance)
