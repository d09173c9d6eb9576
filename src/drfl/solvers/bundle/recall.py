r"""What clients remember of points, mirrored at the server, and how they rebuild it.

A client keeps what it computed at a few points. The server knows which, so that after a crash it
can send the points again and every client computes the same numbers as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.bundle.exchange import Request
from drfl.solvers.bundle.memory import Seen, groups_of, may_curve, memory_of
from drfl.solvers.bundle.views import make_view
from drfl.wire import Field, Message

KIND = "bundle_recall"
REQUEST = {
    "x": Field("float64", ("P", "d")),
    "id": Field("int64", ("P",)),
    "groups": Field("uint8", ("P",)),
    "curved": Field("uint8", ("P",)),  # whether curvature was asked for there
    "lifted": Field("uint8", (1,)),
}


@dataclass(frozen=True)
class _Point:
    x: Array
    groups: int


@dataclass
class Recollection:
    """Which points every client remembers, and what is needed to compute them again."""

    lifted: bool
    points: dict[int, _Point] = field(default_factory=dict)
    sights: dict[int, set[int]] = field(default_factory=dict)  # by client
    curved: dict[int, set[int]] = field(default_factory=dict)

    def note(self, s: int, request: Request) -> None:
        """Client s has answered this request."""
        for identity, x in zip(request.identities, request.points, strict=True):
            self.points.setdefault(identity, _Point(x, request.groups))
        dual = request.dual.identities if request.dual else ()
        kept = {*request.marks, *request.identities, *dual}
        known = self.sights.get(s, set())
        curved = {i for i, c in zip(request.identities, request.curvature, strict=True) if c}
        self.sights[s] = (known | set(request.identities)) & kept
        self.curved[s] = (self.curved.get(s, set()) | curved) & kept

    def message(self, s: int, round: int) -> Message:
        """Ask client s to compute its points again."""
        curved = self.curved.get(s, set())
        every = sorted(self.sights.get(s, set()) & set(self.points))
        points = [self.points[i] for i in every]
        dimension = len(next(iter(self.points.values())).x)
        arrays: dict[str, NDArray[Any]] = {
            "x": np.array([p.x for p in points]).reshape(len(points), dimension),
            "id": np.array(every, dtype=np.int64),
            "groups": np.array([p.groups for p in points], dtype=np.uint8),
            "curved": np.array([i in curved for i in every], dtype=np.uint8),
            "lifted": np.array([self.lifted], dtype=np.uint8),
        }
        return Message(KIND, round, arrays)


def recall(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half: compute the points again; there is nothing to answer."""
    arrays, memory = message.arrays, memory_of(site)
    lifted = bool(arrays["lifted"][0])
    view = make_view(site.oracle, shared=site.shared_ball, lifted=lifted)
    for k, identity in enumerate(arrays["id"].tolist()):
        x, groups = arrays["x"][k], groups_of(site, int(arrays["groups"][k]))
        curved = bool(arrays["curved"][k]) and may_curve(site)
        memory.seen[identity] = Seen.of(x, view.look(x, groups), curved=curved)
    memory.keep(set(arrays["id"].tolist()))
    return {}
