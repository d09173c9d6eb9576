"""Where the interior-point method is: variables, rows and cones, and where it begins."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np

from drfl.arrays import Array
from drfl.solvers.local.cones import Orthant, SecondOrder, diagonal
from drfl.solvers.local.gauge_cones import make_cone
from drfl.solvers.local.mixture_variables import Weights
from drfl.solvers.local.pieces import Entropy, Kernel, make_kernels
from drfl.solvers.local.program import Program
from drfl.solvers.local.samples import Fixed
from drfl.solvers.local.stack import Ints, RowStack
from drfl.worst_case.whole_space import flip_gain

Part = Orthant | SecondOrder | Kernel
Values = TypeVar("Values", Array, Array | float)

LOOSER = 0.05  # by this share t grows when other rows are looked at
FARTHEST = 5.0  # t at the start, in units in which a coefficient is about 1
ROOM, WARM = 2.0, 0.3  # of a first guess: t in units of the norm, products in units of the losses
RIDGE = 1e-6  # of the least-squares guess


def added(values: Iterable[Array]) -> Array:
    """The sum of what the kernels contribute; where there is one, its own array."""
    return reduce(add, values)


class Iterate:
    """The state of the method.

    Attributes
    ----------
    xi, q : arrays
        The variables (w, b, t, lambda) and the weights.
    z, P : arrays
        Margins and masses of the rows.
    kernels, cone, links, weights
        The rows' losses, the gauge, what ties the multipliers, and the weights (None: known),
        each with its slacks and multipliers.
    tied : bool
        Whether primal and dual steps have the same length: losses with curvature tie them.
    """

    def __init__(
        self, program: Program, stack: RowStack, fixed: Fixed, flipping: Ints | None = None
    ) -> None:
        self.program, self.stack, self.fixed = program, stack, fixed
        self.kernels = make_kernels(program, stack, flipping)
        self.cone = make_cone(program.server.gauge, program.t)
        self.Z, self.least = program.links
        self.weights = None if program.server.certain else Weights(program.mixture)
        self.q = program.mixture.weights if self.weights is None else self.weights.q
        self.tied = any(isinstance(k, Entropy) or k.curved for k in self.kernels)
        self.xi = np.zeros(program.size)
        self.z, self.P = np.zeros(len(stack.mass)), stack.mass
        self.links: Orthant

    # ------------------------------------------------------------------ where it begins
    def start(self) -> None:
        """An interior point at 0, or at a least-squares fit if that is better."""
        program, xi = self.program, self.xi
        self._set_rows()
        room, price = self._room(), float(self.q @ program.rho)
        guess = self._least_squares()
        norm = program.server.gauge.value(guess)
        worth = self._loss(self.stack.margins(guess)) + price * norm
        fitted = norm > 0.0 and worth < self._loss(self.z)  # w = 0 has no room
        if fitted:
            xi[: program.d] = guess
            self.z, t = self.stack.margins(guess), ROOM * norm
        else:  # t as far from its bound as the rows from theirs
            usual = 2 * program.n * room / (3.0 * len(self.z) * max(price, 1e-300))
            t = max(1.0, min(usual, FARTHEST))
        xi[program.t :] = t + float(program.server.floor.max())
        xi[program.t + 1 :] *= 2.0
        if fitted and program.flips:
            self._raise_to_flips()
        lam, mu = self.lam(xi), WARM * room * float(self.P.mean())
        for kernel in self.kernels:
            z, P = self.gather(kernel, self.z), self.gather(kernel, self.P)
            if fitted:
                kernel.centre(z, self.gather(kernel, lam), P, mu)
            else:
                kernel.start(z, self.gather(kernel, lam), P, room)
        self.cone.start(xi, max(price, 1e-12 * room))
        slack = np.maximum(self.Z @ xi - self.least, 1e-3 * xi[program.t])
        self.links = Orthant(slack, mu / slack)
        if self.weights is not None:
            self.weights.start(0.1 * room if fitted else room)

    def resume(self, other: Iterate, mu: float) -> None:
        """Go on from another problem's point, with other rows whose products are mu."""
        self.xi, self.q = other.xi.copy(), other.q
        # The other one may be needed again.
        self.cone, self.links, self.weights = deepcopy((other.cone, other.links, other.weights))
        self.cone.loosen(self.xi, LOOSER * float(self.xi[self.program.t]))
        self._set_rows()
        lam = self.lam(self.xi)
        for kernel in self.kernels:
            z, P = self.gather(kernel, self.z), self.gather(kernel, self.P)
            kernel.centre(z, self.gather(kernel, lam), P, mu)

    def _set_rows(self) -> None:
        self.P = self.stack.mass * self.stack.spread(self.q)
        self.z = self.stack.margins(self.x)

    def _room(self) -> float:
        """How far apart the lines of a row are, typically."""
        if self.program.margin:
            return 1.0
        return max(float(np.abs(self.z) @ self.P), 1e-6) * self.program.loss.lipschitz

    def _loss(self, z: Array) -> float:
        return float(self.P @ self.program.loss.value(z))

    def _least_squares(self) -> Array:
        """The model whose margins are nearest to 1, or whose residuals are smallest."""
        stack, d = self.stack, self.program.d
        H = stack.gram(self.P)
        diagonal(H)[:] += RIDGE * np.trace(H) / d + 1e-300
        target = stack.offset + 1.0 if self.program.margin else stack.offset
        return np.asarray(np.linalg.solve(H, stack.products(self.P * target)), dtype=np.float64)

    def _raise_to_flips(self) -> None:
        """Multipliers at which about as many rows flip as the radius allows."""
        program, gain = self.program, flip_gain(self.program.loss, self.z)
        for s in np.flatnonzero(np.isfinite(program.kappa) & (self.stack.sizes > 0)):
            own = gain[slice(*self.stack.starts[s : s + 2])]
            k = min(int(len(own) * program.rho[s] / program.kappa[s]), len(own) - 1)
            level = 1.1 * float(np.partition(own, len(own) - 1 - k)[len(own) - 1 - k])
            xi = self.xi
            xi[program.index[s]] = max(0.6 * xi[program.index[s]], level / program.kappa[s])
        self.xi[program.t + 1 :] = np.maximum(self.xi[program.t + 1 :], 1.1 * self.xi[program.t])

    # ------------------------------------------------------------------ what is where
    @property
    def x(self) -> Array:
        """(w, b)."""
        return self.xi[: self.program.d]

    @property
    def parts(self) -> list[Part]:
        """Where slacks move with xi and multipliers with alpha."""
        return [*self.kernels, *self.cone.parts, self.links]

    @property
    def weight_parts(self) -> tuple[Orthant | SecondOrder, ...]:
        """Where it is the other way round."""
        return () if self.weights is None else self.weights.parts

    @property
    def all_parts(self) -> list[Part]:
        """Both."""
        return [*self.parts, *self.weight_parts]

    def gap(self, primal: float = 0.0, dual: float = 0.0) -> float:
        """The sum of all products after steps of these lengths."""
        own = sum(part.gap(primal, dual) for part in self.parts)
        return own + sum(part.gap(dual, primal) for part in self.weight_parts)

    def lam(self, xi: Array) -> Array | float:
        """Every row's multiplier."""
        return self.stack.spread(xi[self.program.index]) if self.program.flips else 0.0

    def gather(self, kernel: Kernel, values: Values) -> Values:
        """The values of a kernel's rows."""
        if kernel.at is None or isinstance(values, float):
            return values
        return np.asarray(values[kernel.at])

    def scatter(self, kernel: Kernel, values: Array) -> Array:
        """Values of a kernel's rows for all rows."""
        if kernel.at is None:
            return values
        out = np.zeros(len(self.z))
        out[kernel.at] = values
        return out

    def losses(self) -> Array:
        """F_s as the method sees it."""
        program, fixed, lam = self.program, self.fixed, self.xi[self.program.index]
        worth = added(
            self.scatter(kernel, kernel.values(self.gather(kernel, self.z)))
            for kernel in self.kernels
        )
        rows = self.stack.sums(self.stack.mass * worth)
        return rows + program.rho * lam + fixed.constant + fixed.g @ self.x + fixed.pull * lam

    def advance(self, dxi: Array, dz: Array, primal: float, dual: float) -> None:
        """Go so far along the step that all parts know."""
        self.xi = self.xi + primal * dxi
        self.z = self.z + primal * dz
        for part in self.parts:
            part.update(primal, dual)
        if self.weights is not None:
            for cone in self.weights.parts:
                cone.update(dual, primal)
            self.weights.update(dual)
            self.q = self.weights.q
            self.P = self.stack.mass * self.stack.spread(self.q)
