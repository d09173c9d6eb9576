r"""The second derivative of the objective as far as a step needs it.

Newton's method makes it of all rows, or of a sample of them. Cheaper is a diagonal. Both are
corrected by the last pairs of steps and changes of the gradient (L-BFGS, Nocedal 1980). Of many
columns it is no matrix at all: conjugate gradients ask for its products with vectors, two passes
over the rows each. The norm has a second derivative of its own, away from 0:

.. math:: \rho\|w\|_2'' = c\,(I-\hat w\hat w^\top),\qquad c=\rho/\|w\|_2,\ \hat w=w/\|w\|_2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from drfl.arrays import Array
from drfl.solvers.local.cones import diagonal

MEMORY = 10  # pairs that are kept
FLAT = 1e-10  # of the mean curvature: no direction is taken for flatter
RADIAL = 1e-6  # the least that is left of the curvature along w
# Conjugate gradients: what is left of the error, products at most, and the floor under a diagonal,
# of its mean.
ACCURATE, MOST_PRODUCTS, FLOOR = 0.1, 100, 0.01

Solve = Callable[[Array], Array]
Times = Callable[[Array], Array]


def of_matrix(H: Array, w: Array, price: float) -> Solve:
    """The inverse of a Hessian of the mean loss (d, d), plus c times that of the norm at w."""
    n = len(w)
    B = H.copy()
    diagonal(B)[:] += FLAT * float(diagonal(B).mean()) + 1e-300
    diagonal(B)[:n] += price
    factor, failed = dpotrf(B.T, overwrite_a=1)  # the transpose is the order of LAPACK
    if failed:
        raise np.linalg.LinAlgError("the second derivative is not positive definite")
    size = float(np.linalg.norm(w))
    if size == 0.0:
        return lambda r: np.asarray(dpotrs(factor, r)[0])
    along = np.zeros(len(H))
    along[:n] = w / size
    u = dpotrs(factor, along)[0]
    left = max(1.0 - price * float(along @ u), RADIAL)

    def solve(r: Array) -> Array:
        d = dpotrs(factor, r)[0]
        return np.asarray(d + u * (price * float(along @ d) / left))

    return solve


def of_diagonal(sizes: Array, n: int, price: float) -> Solve:
    """The same of a diagonal (d,), as if the norm bent along w as well."""
    base = sizes + (FLAT * float(sizes.mean()) + 1e-300)
    base[:n] += price
    return lambda r: np.asarray(r / base)


def of_products(times: Times, sizes: Array) -> Solve:
    """The inverse of a positive semidefinite matrix that is known by its products with vectors.

    Conjugate gradients (Hestenes and Stiefel 1952), in units of its diagonal ``sizes`` (d,) or of
    what is about that, until a tenth of the error is left. They stop where the matrix is flat.
    """
    inverse = 1.0 / (sizes + (FLOOR * float(sizes.mean()) + 1e-300))

    def solve(r: Array) -> Array:
        x, left = np.zeros_like(r), r.copy()
        p = inverse * left
        first = error = float(left @ p)
        for _ in range(MOST_PRODUCTS):
            Hp = times(p)
            bent = float(p @ Hp)
            if not bent > FLAT * float(p @ (p / inverse)):
                break
            x += (error / bent) * p
            left -= (error / bent) * Hp
            scaled = inverse * left
            before, error = error, float(left @ scaled)
            if error <= ACCURATE**2 * first:
                break
            p = scaled + (error / before) * p
        return x

    return solve


def with_norm(
    times: Times, sizes: Array, w: Array, price: float, *, careful: bool = False
) -> tuple[Times, Array]:
    """Products and diagonal with c times the second derivative of the l2 norm at w, not 0.

    Or of the parabola above it, ``careful``: where rows hardly bend along w it stops the step.
    """
    n = len(w)
    unit = np.zeros(n) if careful else w / float(np.linalg.norm(w))

    def both(v: Array) -> Array:
        out = times(v)
        out[:n] += price * v[:n]
        out[:n] -= ((1.0 - RADIAL) * price * float(unit @ v[:n])) * unit
        return out

    diagonal = sizes.copy()
    diagonal[:n] += price
    return both, diagonal


@dataclass
class StepPairs:
    """The last steps with what they changed of the gradient; older ones are forgotten."""

    pairs: deque[tuple[Array, Array, float]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def observe(self, step: Array, change: Array) -> None:
        """A pair; one without curvature says nothing."""
        along = float(step @ change)
        if along > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.pairs.append((step, change, 1.0 / along))

    def solve(self, r: Array, base: Solve) -> Array:
        """The inverse times r: two loops over the pairs, what is known without them in between."""
        q, shares = r.copy(), list[float]()
        for step, change, inverse in reversed(self.pairs):
            shares.append(inverse * float(step @ q))
            q -= shares[-1] * change
        q = base(q)
        if self.pairs:  # in units in which it is right for the last pair
            _, change, inverse = self.pairs[-1]
            q /= inverse * float(change @ base(change))
        for (step, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            q += (share - inverse * float(change @ q)) * step
        return q
