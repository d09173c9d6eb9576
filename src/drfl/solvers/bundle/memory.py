"""What a client remembers between rounds; it could be rebuilt from the points alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.bundle.curvature import sampled
from drfl.solvers.bundle.sight import Sight

GROUP_ROWS = 50  # a group of fewer rows would tell too much of each
NONE_ABOVE = 2000  # coefficients: no curvature


@dataclass(frozen=True)
class Seen:
    """What is kept of a sight: little, however many rows there are.

    Attributes
    ----------
    x : (d,)
        The point, from which all else can be computed again.
    sample : array
        The arguments of some rows, see `sampled`.
    groups : int
        How many groups the rows were in.
    flips, curved : bool
        Whether a label is flipped there, and whether its curvature was computed.
    """

    x: Array
    sample: Array
    groups: int
    flips: bool
    curved: bool

    @classmethod
    def of(cls, x: Array, at: Sight, *, curved: bool) -> Seen:
        """What is kept of this sight."""
        sample = np.ascontiguousarray(sampled(at.arguments))
        return cls(x, sample, at.groups, at.flipped > 0.0, curved)


@dataclass
class Memory:
    """What the client saw at a few points."""

    seen: dict[int, Seen] = field(default_factory=dict)

    def keep(self, identities: set[int]) -> None:
        """Forget all other points."""
        self.seen = {i: s for i, s in self.seen.items() if i in identities}


def memory_of(site: Site) -> Memory:
    """The memory of a site, empty at first."""
    memory: Memory = site.memory.setdefault("bundle", Memory())
    return memory


def groups_of(site: Site, asked: int) -> int:
    """As many groups as asked for, or one if the client does not allow or its rows are too few."""
    allowed = site.policy.groups and site.rows.n_rows >= GROUP_ROWS * asked
    return asked if allowed else 1


def may_curve(site: Site) -> bool:
    """Whether curvature may leave the client, and is worth it."""
    return site.policy.curvature and site.dimension <= NONE_ABOVE
