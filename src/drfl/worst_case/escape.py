r"""Spending what is left of the budget where nothing bounds the data.

On the whole space the loss of an atom moved by D in the steepest direction grows like
:math:`\mathrm{Lip}\,\|w\|_*D`. Whoever already is on the linear part of its loss takes the whole
budget without loss; otherwise a mass :math:`\epsilon` moved by :math:`D=\mathrm{spare}/\epsilon`
comes within :math:`\epsilon\delta` of the supremum, :math:`\delta` being what an atom loses on its
way to the linear part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
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

    def flipped(self, rows: NDArray[np.intp], share: Array) -> Atoms:
        """A share of the mass of some rows gets the other label. Atom i must be row i."""
        moved = np.zeros(len(self.mass))
        moved[rows] = share * self.mass[rows]
        return Atoms(
            np.concatenate([self.source, rows]),
            np.concatenate([self.mass - moved, moved[rows]]),
            np.concatenate([self.x, self.x[rows]]),
            np.concatenate([self.y, -self.y[rows]]),
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
    expected = oracle.loss.value(oracle.arguments(atoms.x @ w + b, atoms.y))
    return Distribution(
        source=atoms.source,
        mass=atoms.mass,
        x=atoms.x,
        y=atoms.y,
        cost=float(atoms.mass @ moved),
        expected_loss=float(atoms.mass @ expected),
        attained=tolerance == 0.0,
        tolerance=tolerance,
    )
