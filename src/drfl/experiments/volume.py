r"""Example 4.1 and Appendix D: coverage and volume of the two ambiguity sets.

Two clients have three atoms each. DRFL's set holds distributions whose parts are near each client's
empirical one, WAFL's those that are near the mixture; both have one radius. Claim 1 of the paper:
at equal coverage of the truth WAFL needs the larger radius. Claim 2: at equal coverage its set has
the larger volume, the share of random distributions that it holds.

Distances of distributions on a line are areas between distribution functions,

.. math:: W(P,P')=\int|F_P(t)-F_{P'}(t)|\,dt,

so that coverage is a step function of the radius, known exactly for the samples that were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from drfl.experiments.records import Row, Task
from drfl.experiments.registry import Experiment
from drfl.experiments.settings import Settings, at_least, increasing
from drfl.experiments.volume_figure import draw, report
from drfl.losses import Array

SHOWN = 250
"""Points of a coverage curve that are written down."""


@dataclass(frozen=True)
class Volume(Settings):
    """The example. The paper gives no atoms, probabilities and weights: these are ours.

    Attributes
    ----------
    support1, support2 : tuple of float
        The atoms of the two clients.
    p1, p2 : tuple of float
        Their probabilities.
    q : float
        The weight of the first client.
    shifts : tuple of float
        By how much the second support is moved away: one example for each.
    samples, repeats, draws : int
        Rows of a sample, samples of the coverage, random distributions of the volume.
    radius_step, radius_max : float
        The radii that are tried.
    level_step : float
        The guarantee levels are 0.1, 0.1 + step, ..., 1.
    known_q : bool
        Whether the weight is known rather than estimated from the sample.
    map_shifts, map_q : tuple of float
        The regime map; in every cell there are ``systems`` pairs of random clients, supports in
        [0, 1] before the shift.
    systems : int
        How many.
    """

    support1: tuple[float, ...] = (0.1, 0.4, 0.9)
    support2: tuple[float, ...] = (0.2, 0.5, 0.8)
    p1: tuple[float, ...] = (0.2, 0.5, 0.3)
    p2: tuple[float, ...] = (0.4, 0.3, 0.3)
    q: float = 0.5
    shifts: tuple[float, ...] = (0.0, 5.0)
    samples: int = 1000
    repeats: int = 100
    draws: int = 10000
    radius_step: float = 1e-5
    radius_max: float = 0.5
    level_step: float = 0.05
    known_q: bool = False
    map_shifts: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
    map_q: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    systems: int = 100

    def __post_init__(self) -> None:
        for name in ("support1", "support2"):
            increasing(name, getattr(self, name), -1e9)
        for name in ("p1", "p2"):
            own = getattr(self, name)
            if len(own) != len(self.support1) or min(own) < 0.0 or abs(sum(own) - 1.0) > 1e-9:
                raise ValueError(f"{name} must be a probability for each atom, 1 in all")
        if len(self.support1) != len(self.support2):
            raise ValueError("support1 and support2 must have equally many atoms")
        increasing("shifts", self.shifts, 0.0)
        for name in ("samples", "repeats", "draws", "systems"):
            at_least(name, getattr(self, name), 1)
        for weight in (self.q, *self.map_q):
            if not 0.0 < weight < 1.0:
                raise ValueError(f"a weight q must lie between 0 and 1, got {weight:g}")

    def quick(self) -> Self:
        return replace(
            self, map_shifts=self.map_shifts[::3], map_q=self.map_q[1::4], systems=10, draws=2000
        )

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


def example(system: System, settings: Volume, rng: np.random.Generator) -> Row:
    """Both stages of Appendix D for one system."""
    p, q = system.sampled(settings.samples, settings.repeats, rng)
    truth = np.full(len(q), system.q)
    own, mixed = system.distances(p, truth if settings.known_q else q, system.p, truth)
    step, levels = settings.radius_step, settings.levels
    radii = {}
    for name, distances in {"drfl": own, "wafl": mixed}.items():
        needed = np.ceil(levels * len(distances) - 1e-9).astype(int) - 1
        radii[name] = np.ceil(np.sort(distances)[needed] / step - 1e-9) * step
    fixed_p, fixed_q = system.sampled(settings.samples, 1, rng)
    held = system.distances(*_random(settings.draws, system.x.shape[1], rng), fixed_p, fixed_q)
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


def tasks(settings: Volume, seeds: int) -> list[Task]:
    """The examples with every seed, and the cells of the map."""
    examples = [{"shift": s, "seed": k} for s in settings.shifts for k in range(seeds)]
    return examples + [{"map": s, "q": q} for s in settings.map_shifts for q in settings.map_q]


def run(settings: Volume, task: Task) -> list[Row]:
    """An example, or a cell of the map."""
    if "map" in task:
        return [_cell(settings, task["map"], task["q"])]
    shift = task["shift"]
    x = np.array([settings.support1, np.add(settings.support2, shift)])
    system = System(x, np.array([settings.p1, settings.p2]), settings.q)
    row = example(system, settings, np.random.default_rng([task["seed"], 3]))
    grid = np.linspace(settings.radius_step, settings.radius_max, SHOWN)
    coverage = {
        name: np.searchsorted(found, grid, side="right") / len(found)
        for name, found in row["distances"].items()
    }
    one, two = claims(row, settings.draws)
    return [
        {"shift": shift, "radii": row["radii"], "volumes": row["volumes"], "coverage": coverage,
         "claim1": one, "claim2": two}
    ]  # fmt: skip


def _cell(settings: Volume, shift: float, q: float) -> Row:
    """In which share of random systems each claim holds."""
    K, found = len(settings.support1), []
    for k in range(settings.systems):
        rng = np.random.default_rng([k, 4])  # the same systems in every cell
        x, p = rng.random((2, K)) + np.array([[0.0], [shift]]), rng.random((2, K))
        system = System(x, p / p.sum(axis=1, keepdims=True), q)
        found.append(claims(example(system, settings, rng), settings.draws))
    one, two = np.mean(found, axis=0)
    return {"map": shift, "q": q, "claim1": float(one), "claim2": float(two)}


EXPERIMENT = Experiment(Volume(), tasks, run, report, draw)
