r"""The metric of the proximal term: what the server knows of curvature.

:math:`M=\sigma\sum_sq_sH_s+\mu D`, with :math:`H_s` the last curvature of client s. Where no client
sends any, a quasi-Newton (BFGS) matrix is made of gradients that cross anyway.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.terms import Terms

MEMORY = 60  # pairs
ALIKE = 0.2  # how much local optima may differ for their mean to be worth a visit


class Metric:
    """Curvature by client, or pairs of steps and gradient changes."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.hessians: list[Array | None] = [None] * terms.n_clients
        self.pairs: list[tuple[Array, Array]] = []
        self._last: tuple[Array, Array] | None = None  # x (d,), gradients (S, d)
        self.diagonal = np.ones(terms.dimension)

    def set_unit(self, unit: float) -> None:
        """The typical size of a feature scales the coefficients' part of D."""
        self.diagonal[: self.terms.n] = unit**2
        if self.terms.is_shared:
            self.diagonal[-1] = unit**2

    @property
    def known(self) -> bool:
        """Whether some client has sent curvature."""
        return any(H is not None for H in self.hessians)

    def observe(self, x: Array, gradients: Array) -> None:
        """Remember how the clients' gradients (S, d) at the new point differ from the last ones."""
        if self._last is not None:
            self.pairs.append((x - self._last[0], gradients - self._last[1]))
            self.pairs = self.pairs[-MEMORY:]
        self._last = x, gradients

    def curvature(self, q: Array) -> Array:
        """The clients' curvature mixed by q, over those who sent any."""
        d = self.terms.dimension
        if self.known:
            have = [(q[s], H) for s, H in enumerate(self.hessians) if H is not None]
            total = max(sum(weight for weight, _ in have), 1e-12)
            return sum((weight / total * H for weight, H in have), start=np.zeros((d, d)))
        return self._bfgs(q)

    def common(self, optima: Array, weights: Array) -> Array | None:
        """The weighted mean of points (S, d), unless they differ too much to have one in common."""
        mean = weights @ optima
        H = self.curvature(self.terms.mixture.weights)
        spread = np.einsum("si,ij,sj->s", optima - mean, H, optima - mean)
        alike = float(weights @ spread) <= ALIKE * max(float(mean @ H @ mean), 1e-300)
        return mean if alike else None

    def _bfgs(self, q: Array) -> Array:
        d = self.terms.dimension
        pairs = [(step, q @ change) for step, change in self.pairs]
        pairs = [(s, y) for s, y in pairs if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y))]
        if not pairs:
            return np.zeros((d, d))
        s, y = pairs[-1]
        B = np.diag(self.diagonal) * float(s @ y / (s @ (self.diagonal * s)))
        for s, y in pairs:
            Bs = B @ s
            B += np.outer(y, y) / (s @ y) - np.outer(Bs, Bs) / (s @ Bs)
        return 0.5 * (B + B.T)

    def matrix(self, H: Array, sigma: float, mu: float) -> Array:
        """M, with mu kept above rounding."""
        least = 1e-9 * float(np.trace(H / self.diagonal[:, None])) / len(H)
        return sigma * H + max(mu, least, 1e-12) * np.diag(self.diagonal)
