r"""What happens where nothing bounds the data: the least price, and mass that escapes at it.

Where the support is unbounded, a row goes to infinity unless :math:`\lambda\ge\lambda_0(w)`, the
steepest slope of the loss along a way to infinity. If :math:`\varphi` increases from there on, a
part of the budget is left over and spent on that way, at the rate :math:`\lambda_0` exactly.

On the whole space the loss of an atom moved by D in the steepest direction grows like
:math:`\mathrm{Lip}\,\|w\|_*D`. Whoever already is on the linear part of its loss takes the whole
budget without loss; otherwise a mass :math:`\epsilon` moved by :math:`D=\mathrm{spare}/\epsilon`
comes within :math:`\epsilon\delta` of the supremum, :math:`\delta` being what an atom loses on its
way to the linear part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.worst_case.moves import Moves
from drfl.worst_case.oracle import Distribution, Oracle

# An expected loss this close to F, relatively, is called the supremum where none is attained.
TOLERANCE = 1e-7
# A difference of two numbers that is smaller, relatively, is none.
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Atoms:
    """Masses at points, and the row each came from."""

    source: NDArray[np.intp]
    mass: Array
    x: Array
    y: Array

    def present(self) -> Atoms:
        """The atoms that have mass."""
        keep = self.mass > 0.0
        return Atoms(self.source[keep], self.mass[keep], self.x[keep], self.y[keep])

    def relabelled(self, rows: NDArray[np.intp], share: Array, labels: Array) -> Atoms:
        """A share of the mass of some rows gets other labels. Atom i must be row i."""
        moved, rest = share * self.mass[rows], self.mass.copy()
        rest[rows] -= moved
        return Atoms(self.source, rest, self.x, self.y).joined(
            Atoms(rows, moved, self.x[rows], labels)
        )

    def joined(self, more: Atoms) -> Atoms:
        """These atoms and others."""
        return Atoms(
            np.concatenate([self.source, more.source]),
            np.concatenate([self.mass, more.mass]),
            np.concatenate([self.x, more.x]),
            np.concatenate([self.y, more.y]),
        )

    def split(self, k: int, mass: float, dx: Array, dy: float) -> Atoms:
        """Move a part of atom k's mass by (dx, dy)."""
        rest = self.mass.copy()
        rest[k] -= mass
        return Atoms(
            np.append(self.source, self.source[k]),
            np.append(rest, mass),
            np.vstack([self.x, self.x[k] + dx]),
            np.append(self.y, self.y[k] + dy),
        )

    def distribution(self, costs: Array, losses: Array, tolerance: float) -> Distribution:
        """What they are, each at such a cost and with such a loss (K,)."""
        return Distribution(
            source=self.source,
            mass=self.mass,
            x=self.x,
            y=self.y,
            cost=float(self.mass @ costs),
            expected_loss=float(self.mass @ losses),
            attained=tolerance == 0.0,
            tolerance=tolerance,
        )


def spend(atoms: Atoms, spare: float, oracle: Oracle, w: Array, b: float) -> Distribution:
    """Move one atom as far as ``spare`` allows and return the distribution."""
    ball, atoms = oracle.ball, atoms.present()
    norm = ball.norm.dual(w)
    # Regression: the target moves instead of the features where that is cheaper.
    rate = norm if oracle.is_margin else max(norm, 1.0 / ball.label_cost)
    if spare <= 0.0 or rate == 0.0:
        return describe(atoms, oracle, w, b)
    k, sigma, delta = _best_atom(
        oracle.loss, oracle.arguments(atoms.x @ w + b, atoms.y), atoms.mass
    )
    mass, tolerance = float(atoms.mass[k]), 0.0
    if delta > 0.0:
        tolerance = TOLERANCE * oracle.evaluate(w, b).value
        mass = min(mass, tolerance / delta)
    distance = spare / mass
    if norm >= rate:
        side = float(atoms.y[k]) if oracle.is_margin else 1.0
        atoms = atoms.split(k, mass, sigma * side * distance * ball.norm.steepest(w), 0.0)
    else:
        atoms = atoms.split(k, mass, np.zeros_like(w), -sigma * distance / ball.label_cost)
    return describe(atoms, oracle, w, b, tolerance=tolerance)


def _best_atom(loss: Loss, z: Array, mass: Array) -> tuple[int, float, float]:
    r"""The atom that loses least on its way out: its index, direction in z, and what it loses.

    Toward the end v of the slope range the loss approaches the line :math:`vz-L^*(v)`; an atom
    at z loses :math:`\delta=L(z)-(vz-L^*(v))`, 0 on the linear part. Of several the heaviest is
    taken: it does not have to go as far.
    """
    best: tuple[int, float, float] | None = None
    for v in loss.slope_range:
        if abs(v) == loss.lipschitz:
            end = float(loss.conjugate(np.array([v]))[0])
            delta = loss.value(z) - (v * z - end)
            delta[delta <= ROUNDING * (np.abs(v * z) + abs(end))] = 0.0
            least = np.flatnonzero(delta == delta.min())
            k = int(least[np.argmax(mass[least])])
            if best is None or delta[k] < best[2]:
                best = k, float(np.sign(v)), float(delta[k])
    assert best is not None  # lipschitz is the larger end of the range
    return best


def describe(
    atoms: Atoms, oracle: Oracle, w: Array, b: float, *, tolerance: float = 0.0
) -> Distribution:
    """Price the atoms: transport cost and expected loss."""
    rows, ball, atoms = oracle.rows, oracle.ball, atoms.present()
    moved = ball.norm(atoms.x - rows.take(atoms.source))
    dy = np.abs(atoms.y - rows.y[atoms.source])
    relabelled = dy > 0.0
    moved[relabelled] += ball.label_cost * (1.0 if oracle.is_margin else dy[relabelled])
    losses = oracle.loss.value(oracle.arguments(atoms.x @ w + b, atoms.y))
    return atoms.distribution(moved, losses, tolerance)


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
