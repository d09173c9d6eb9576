r"""Two clients with a few atoms each, and the sets of distributions that are near a sample of them.

Distances of distributions on a line are areas between distribution functions,

.. math:: W(P,P')=\int|F_P(t)-F_{P'}(t)|\,dt,

so that coverage is a step function of the radius, known exactly for the samples that were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from experiments.records import Row


@dataclass(frozen=True)
class Design:
    """How coverage and volume are counted.

    Attributes
    ----------
    samples, repeats, draws : int
        Rows of a sample, samples of the coverage, random distributions of the volume.
    radius_step : float
        Radii are multiples of it.
    level_step : float
        The guarantee levels are 0.1, 0.1 + step, ..., 1.
    known_q : bool
        Whether the weight is known rather than estimated from the sample.
    """

    samples: int = 1000
    repeats: int = 100
    draws: int = 10000
    radius_step: float = 1e-5
    level_step: float = 0.05
    known_q: bool = False

    @property
    def levels(self) -> Array:
        """The guarantee levels."""
        count = round(0.9 / self.level_step) + 1
        return np.asarray(0.1 + self.level_step * np.arange(count), dtype=np.float64)


@dataclass(frozen=True)
class System:
    """Two clients: atoms x (2, K), probabilities p (2, K), weight q of the first."""

    x: Array
    p: Array
    q: float

    def distances(self, p: Array, q: Array, to_p: Array, to_q: Array) -> tuple[Array, Array]:
        """W of the farther client, and of the mixtures; p (..., 2, K), q (...), one to one."""
        order = np.argsort(self.x, axis=1)
        gaps = np.diff(np.take_along_axis(self.x, order, axis=1), axis=1)
        apart = np.take_along_axis(p - to_p, np.broadcast_to(order, p.shape), axis=-1)
        each = (np.abs(np.cumsum(apart, axis=-1)[..., :-1]) * gaps).sum(axis=-1)
        mixed = (_mixture(p, q) - _mixture(to_p, to_q))[..., np.argsort(self.x.ravel())]
        areas = np.abs(np.cumsum(mixed, axis=-1)[..., :-1]) * np.diff(np.sort(self.x.ravel()))
        return each.max(axis=-1), areas.sum(axis=-1)

    def sampled(self, rows: int, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Empirical probabilities (size, 2, K) and weights (size,) of samples."""
        counts = rng.multinomial(rows, _mixture(self.p, np.array(self.q)), size)
        counts = counts.reshape(size, 2, -1)
        totals = np.maximum(counts.sum(axis=-1), 1)
        return counts / totals[..., None], totals[:, 0] / rows


def _mixture(p: Array, q: Array) -> Array:
    joint = np.stack([q, 1.0 - q], axis=-1)[..., None] * p
    return np.asarray(joint.reshape(*joint.shape[:-2], -1))


def example(system: System, design: Design, rng: np.random.Generator) -> Row:
    """Both stages of Appendix D for one system."""
    p, q = system.sampled(design.samples, design.repeats, rng)
    truth = np.full(len(q), system.q)
    own, mixed = system.distances(p, truth if design.known_q else q, system.p, truth)
    step, levels = design.radius_step, design.levels
    radii = {}
    for name, distances in {"drfl": own, "wafl": mixed}.items():
        needed = np.ceil(levels * len(distances) - 1e-9).astype(int) - 1
        radii[name] = np.ceil(np.sort(distances)[needed] / step - 1e-9) * step
    fixed_p, fixed_q = system.sampled(design.samples, 1, rng)
    held = system.distances(*_random(design.draws, system.x.shape[1], rng), fixed_p, fixed_q)
    volumes = {
        name: (distances[:, None] <= radii[name]).mean(axis=0)
        for name, distances in zip(("drfl", "wafl"), held, strict=True)
    }
    return {
        "distances": {"drfl": np.sort(own), "wafl": np.sort(mixed)},
        "radii": radii,
        "volumes": volumes,
    }


def _random(size: int, atoms: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Random distributions as the appendix draws them: numbers in (0, 1), divided by their sum."""
    p, q = rng.random((size, 2, atoms)), rng.random((size, 2))
    return p / p.sum(axis=-1, keepdims=True), q[:, 0] / q.sum(axis=-1)


def claims(row: Row, draws: int) -> tuple[bool, bool]:
    """Whether the two claims hold at every level; for volumes up to two standard errors.

    Parameters
    ----------
    row : dict
        What `example` found.
    draws : int
        From how many random distributions the volumes were counted.
    """
    larger = row["radii"]["wafl"] > row["radii"]["drfl"]
    own, mixed = row["volumes"]["drfl"], row["volumes"]["wafl"]
    error = np.sqrt((own * (1.0 - own) + mixed * (1.0 - mixed)) / draws)
    fuller = bool((mixed - own >= -2.0 * error).all() and mixed.mean() > own.mean())
    return bool(larger.all()), fuller
