r"""Example 4.1 and Appendix D: coverage and volume of the two ambiguity sets.

Two clients have three atoms each. DRFL's set holds distributions whose parts are near each client's
empirical one, WAFL's those that are near the mixture; both have one radius. Claim 1 of the paper:
at equal coverage of the truth WAFL needs the larger radius. Claim 2: at equal coverage its set has
the larger volume, the share of random distributions that it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from experiments.ambiguity import Design, System, claims, example
from experiments.records import Row, Task
from experiments.registry import Experiment
from experiments.settings import Settings, at_least, increasing
from experiments.volume_figure import draw, report

SHOWN = 250
"""Points of a coverage curve that are written down."""


@dataclass(frozen=True)
class Volume(Design, Settings):
    """The example. The paper gives no atoms, probabilities and weights: these are ours.

    Beside what `Design` has:

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
    radius_max : float
        The largest radius that is tried.
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
    radius_max: float = 0.5
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
