r"""The uncertain weights of the clients: the set Q and its support function.

.. math:: Q = \{q\in\Delta_S : \|q-\hat q\|_p\le\theta\},\qquad h(z)=\max_{q\in Q} q^\top z

The problem is to minimise :math:`h(F_1(w),\dots,F_S(w))`. Here :math:`\theta` bounds the p-norm of
the difference itself, so that p = 1 lets the mass :math:`\theta/2` move between clients. No
weight of Q is above ``max_weight``, if that is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drfl import checks
from drfl._registry import lookup
from drfl.arrays import Array
from drfl.uncertainty.weight_sets import (
    PROJECT,
    PROJECT_CAPPED,
    WORST,
    WORST_CAPPED,
    project_capped,
)

Vector = Sequence[float] | Array


@dataclass(frozen=True)
class Mixture:
    r"""The set Q of weights against which the model is made robust (Theorem 4.3).

    It is a specification without data: a named centre fits any number of clients, and
    :meth:`resolve` puts the weights in place of the name.

    Parameters
    ----------
    center : {"uniform", "proportional"} or (S,) numbers
        :math:`\hat q`: 1/S each, in proportion to the clients' sizes, or given (they sum to 1).
    radius : float in [0, inf]
        :math:`\theta`. At 0 the weights are certain; at infinity Q is the whole simplex.
    p : {1, 2, math.inf}
        The norm in which the radius is measured.
    max_weight : float in (0, inf]
        No client weighs more, whatever its loss: what one that lies can do is bounded. It is at
        least the largest weight of the centre; infinity: there is no such bound.

    Examples
    --------
    >>> mixture = Mixture(radius=0.2)
    >>> mixture.worst_weights([0.0, 1.0])
    array([0.4, 0.6])
    >>> mixture.support([0.0, 1.0])
    0.6
    >>> Mixture("proportional", radius=0.2).resolve([300, 100]).center
    (0.75, 0.25)
    """

    center: str | Vector = "uniform"
    radius: float = 0.0
    p: float = 1
    max_weight: float = math.inf

    def __post_init__(self) -> None:
        # A tuple keeps the dataclass hashable, comparable and easy to write down.
        object.__setattr__(self, "center", _checked_center(self.center))
        object.__setattr__(self, "radius", _checked_radius(self.radius))
        object.__setattr__(self, "p", _checked_p(self.p))
        cap = checks.number("max_weight", self.max_weight, above=0.0, infinite=True)
        object.__setattr__(self, "max_weight", cap)
        if self.is_capped and self.p == 2 and 0.0 < self.radius < math.sqrt(2.0):
            raise ValueError("max_weight goes with p = 1 or math.inf, or with no finite radius")
        if not isinstance(self.center, str):
            self._require_room(self.weights)

    @property
    def is_capped(self) -> bool:
        """Whether max_weight is below 1."""
        return self.max_weight < 1.0

    def _require_room(self, center: Array) -> None:
        if self.max_weight < center.max() * (1.0 - 1e-12):
            raise ValueError(
                f"max_weight must be at least the largest weight of the center, {center.max():.6g},"
                f" got {self.max_weight:g}"
            )

    def resolve(self, sizes: Vector) -> Mixture:
        """Return the same mixture with the weights of these clients as its centre.

        Parameters
        ----------
        sizes : (S,) positive
            The number of rows (or the total weight of the rows) of every client.
        """
        sizes = _checked_vector("sizes", sizes)
        if sizes.min() <= 0.0:
            raise ValueError(f"sizes must be positive, got {sizes.min():g}: drop empty clients")
        if self.center == "proportional":
            return replace(self, center=sizes / sizes.sum())
        return replace(self, center=self._weights_of(len(sizes)))

    def among(self, kept: Sequence[int], sizes: Vector | None) -> Mixture:
        """Return the mixture of some of the clients, of whom one may have to weigh more.

        Given weights keep their proportions, and max_weight is raised where those who are kept
        could not hold all of the weight otherwise.

        Parameters
        ----------
        kept : sequence of int
            Which clients.
        sizes : (S,) or None
            As of `resolve`, of all clients; None: they are not known yet.
        """
        kept = list(kept)
        center: str | Array = self.center if isinstance(self.center, str) else self.weights[kept]
        if not isinstance(center, str):
            center = center / center.sum() if center.any() else "uniform"
        loose = replace(self, center=center, max_weight=math.inf)
        if not self.is_capped:
            return loose
        if sizes is None and isinstance(center, str):
            return replace(loose, max_weight=max(self.max_weight, 1.0 / len(kept)))
        loose = loose if sizes is None else loose.resolve(np.asarray(sizes)[kept])
        return replace(loose, max_weight=max(self.max_weight, float(loose.weights.max())))

    @property
    def weights(self) -> Array:
        r"""The centre :math:`\hat q` as an array (S,); a named centre has to be resolved first."""
        if isinstance(self.center, str):
            raise ValueError(
                f"the center {self.center!r} has no weights yet: call resolve(sizes) first"
            )
        return np.array(self.center, dtype=np.float64)

    @property
    def is_simplex(self) -> bool:
        """Whether every unit vector is within the radius, so that Q is the whole simplex."""
        return not self.is_capped and self._covers_simplex(self.weights)

    def support(self, z: Vector) -> float:
        r""":math:`h(z)=\max_{q\in Q}q^\top z`, the worst mixture of the clients' losses z (S,)."""
        z = _checked_vector("z", z)
        return float(self.worst_weights(z) @ z)

    def worst_weights(self, z: Vector) -> Array:
        r"""Weights (S,) that attain :math:`\max_{q\in Q}q^\top z`; they are a subgradient of h.

        Where several do, the order of the clients decides, so that the answer is reproducible.
        """
        z = _checked_vector("z", z)
        center = self._weights_of(len(z))
        if len(z) == 1:
            return center
        if self.is_capped:
            p, radius = self._capped_ball(center)
            return WORST_CAPPED[p](z, center, radius, self.max_weight)
        if self._covers_simplex(center):
            return _unit_vector(len(z), int(np.argmax(z)))
        return WORST[self.p](z, center, self.radius)

    def project(self, v: Vector) -> Array:
        r"""The Euclidean projection :math:`P_Q(v)` (S,)."""
        v = _checked_vector("v", v)
        center = self._weights_of(len(v))
        q = project_capped(v, np.full_like(v, min(self.max_weight, 1.0)), 1.0)
        if self._norm(q - center) <= self.radius:
            return q
        if self.is_capped:
            p, radius = self._capped_ball(center)
            return PROJECT_CAPPED[p](v, center, radius, self.max_weight)
        return PROJECT[self.p](v, center, self.radius)

    def prox(self, v: Vector, c: float) -> Array:
        r""":math:`\mathrm{prox}_{h/c}(v)=\arg\min_x h(x)+\tfrac c2\|x-v\|_2^2` (S,).

        By Moreau's identity it is :math:`v-P_Q(cv)/c`.
        """
        c = checks.number("c of prox", c, above=0.0)
        v = _checked_vector("v", v)
        return v - self.project(c * v) / c

    def pull(self, q: Vector) -> Array:
        """Return a point of Q near q (S,): clipped at 0, normalised, drawn towards the centre.

        It is what a certificate needs of approximate multipliers: cheap, and continuous. If no
        entry is positive, it is the centre.
        """
        q = np.maximum(_checked_vector("q", q), 0.0)
        center = self._weights_of(len(q))
        total = float(q.sum())
        if total == 0.0:
            return center
        q = q / total
        if self.is_capped and q.max() > self.max_weight:
            q = project_capped(q, np.full_like(q, self.max_weight), 1.0)
        step = q - center
        distance = self._norm(step)
        return center + step if distance <= self.radius else center + self.radius / distance * step

    def contains(self, q: Vector, tol: float = 1e-9) -> bool:
        """Whether q (S,) satisfies each of the constraints of Q within tol."""
        q = _checked_vector("q", q)
        distance = self._norm(q - self._weights_of(len(q)))
        if q.max() > self.max_weight + tol:
            return False
        return bool(q.min() >= -tol and abs(q.sum() - 1.0) <= tol and distance <= self.radius + tol)

    def _capped_ball(self, center: Array) -> tuple[float, float]:
        """The norm and the radius, those of p = 1 where the radius allows everything."""
        if self._covers_simplex(center):
            return 1, math.inf
        return (1, 0.0) if self.radius == 0.0 else (self.p, self.radius)

    def _weights_of(self, clients: int) -> Array:
        if self.center == "uniform":
            center = np.full(clients, 1.0 / clients)
            self._require_room(center)
            return center
        weights = self.weights
        if len(weights) != clients:
            raise ValueError(
                f"the mixture has {len(weights)} weights, but there are {clients} clients"
            )
        return weights

    def _covers_simplex(self, center: Array) -> bool:
        # In every p-norm the farthest unit vector is that of the smallest weight.
        farthest = _unit_vector(len(center), int(np.argmin(center)))
        return self._norm(farthest - center) <= self.radius

    def _norm(self, step: Array) -> float:
        return float(np.linalg.norm(step, self.p))


def _unit_vector(size: int, index: int) -> Array:
    unit = np.zeros(size)
    unit[index] = 1.0
    return unit


def _checked_center(center: str | Vector) -> str | tuple[float, ...]:
    if isinstance(center, str):
        return lookup("center", center, {name: name for name in ("uniform", "proportional")})
    weights = _checked_vector("center", center)
    if weights.min() < 0.0:
        raise ValueError(f"the weights of center must not be negative, got {weights.min():g}")
    total = float(weights.sum())
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"the weights of center must sum to 1, got {total:.10g}: divide by it")
    # What sums to 1 up to rounding is left alone: a copy of a mixture must equal it.
    return tuple((weights if abs(total - 1.0) <= 1e-14 else weights / total).tolist())


def _checked_radius(radius: float) -> float:
    return checks.number("the radius of a mixture", radius, least=0.0, infinite=True)


def _checked_p(p: float) -> float:
    for known in WORST:
        if p == known:
            return known
    raise ValueError(f"p of a mixture must be 1, 2 or math.inf, got {p!r}")


def _checked_vector(name: str, values: Vector) -> Array:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a vector of numbers, one per client") from None
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{name} must hold one number per client, but has shape {vector.shape}")
    finite = np.isfinite(vector)
    if not finite.all():
        first = int(np.flatnonzero(~finite)[0])
        raise ValueError(f"{name} must be finite, but entry {first} is {vector[first]}")
    return vector
