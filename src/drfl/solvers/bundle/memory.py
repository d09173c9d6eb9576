"""What a client remembers between rounds; it could be rebuilt from the points alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from drfl.client import Site
from drfl.losses import Array
from drfl.solvers.bundle.sight import Sight

GROUP_ROWS = 50  # a group of fewer rows would tell too much of each


@dataclass
class Memory:
    """What the client saw at a few points, and the densities of their curvature."""

    sights: dict[int, Sight] = field(default_factory=dict)
    densities: dict[int, Array] = field(default_factory=dict)

    def keep(self, identities: set[int]) -> None:
        """Forget all other points."""
        self.sights = {i: s for i, s in self.sights.items() if i in identities}
        self.densities = {i: d for i, d in self.densities.items() if i in identities}


def memory_of(site: Site) -> Memory:
    """The memory of a site, empty at first."""
    memory: Memory = site.memory.setdefault("bundle", Memory())
    return memory


def groups_of(site: Site, asked: int) -> int:
    """As many groups as asked for, or one if the client does not allow or its rows are too few."""
    allowed = site.policy.groups and site.rows.n_rows >= GROUP_ROWS * asked
    return asked if allowed else 1
