"""What clients remember of points, mirrored at the server, and how they rebuild it.

A client keeps what it computed at a few points. The server knows which, so that after a crash it
can send the points again and every client computes the same numbers as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.bundle.client_half.curvature import may_curve, sampled
from drfl.solvers.bundle.client_half.evaluation import (
    GROUP_ROWS,
    Evaluation,
    Evaluator,
    make_evaluator,
)
from drfl.solvers.bundle.client_half.joint import JointEvaluator, OwnJointEvaluator
from drfl.solvers.bundle.client_half.level_cuts import OwnInterceptEvaluator
from drfl.solvers.bundle.client_half.path_rows import replay
from drfl.solvers.bundle.messages import MOST_MENDS, CutRequest, PathRequest
from drfl.wire import Field, Message, WireError
from drfl.worst_case.joint import JointOracle

KIND = "bundle_recall"
REQUEST = {
    "x": Field("float64", ("P", "d")),
    "id": Field("int64", ("P",)),
    "groups": Field("uint8", ("P",)),
    "curved": Field("uint8", ("P",)),  # whether curvature was asked for there
    "sample": Field("uint8", ("P",)),  # whether arguments of rows are kept too
    "lifted": Field("uint8", (1,)),
    "path": Field("float64", ("k", None), optional=True),  # see Remembered
}
RECENT = 30  # points whose coordinates are kept: any of their cuts may get a multiplier again


@dataclass(frozen=True)
class Cached:
    """What is kept of an evaluation: little, however many rows there are.

    Attributes
    ----------
    x : (d,)
        The point, from which all else can be computed again.
    sample : array
        The arguments of some rows, see `sampled`.
    groups : int
        How many groups the rows were in.
    flips, curved : bool
        Whether its cuts mix losses with flips, and whether its curvature was computed.
    intercept : float, or array of shape (K,)
        The client's own there, if it has one, or K.
    """

    x: Array
    sample: Array
    groups: int
    flips: bool
    curved: bool
    intercept: float | Array = 0.0

    @classmethod
    def of(cls, x: Array, at: Evaluation, *, curved: bool) -> Cached:
        """What is kept of this evaluation."""
        sample = np.ascontiguousarray(sampled(at.arguments))
        flips = at.flipped > 0.0 and not at.split
        return cls(x, sample, at.groups, flips, curved, at.intercept)

    def without_sample(self) -> Cached:
        """All but the arguments of rows."""
        return replace(self, sample=np.zeros(0))


@dataclass
class Cache:
    """What the client saw at a few points."""

    seen: dict[int, Cached] = field(default_factory=dict)

    def keep(self, identities: set[int]) -> None:
        """Forget all other points, and of recent ones all but what their slopes need."""
        newest = recent(self.seen)
        self.seen = {
            i: s if i in identities else s.without_sample()
            for i, s in self.seen.items()
            if i in identities or i in newest
        }


def recent(numbers: Iterable[int]) -> set[int]:
    """The newest of these points."""
    return set(sorted(numbers)[-RECENT:])


def cache_of(site: Site) -> Cache:
    """The cache of a site, empty at first."""
    cache: Cache = site.memory.setdefault("bundle", Cache())
    return cache


def evaluator_of(site: Site, *, lifted: bool, split: bool = True) -> Evaluator:
    """How a site evaluates points; the flipped rows are a group of their own, if it allows any."""
    own = site.problem.own_intercepts
    split = split and site.policy.groups and not own
    if isinstance(site.oracle, JointOracle):
        joint = site.oracle
        return OwnJointEvaluator(joint) if own else JointEvaluator(joint, split=split)
    inner = make_evaluator(site.oracle, shared=site.shared_ball, lifted=lifted, split=split)
    return OwnInterceptEvaluator(inner) if own else inner


def groups_of(site: Site, asked: int) -> int:
    """As many groups as asked for, or one if the client does not allow or its rows are too few."""
    allowed = site.policy.groups and site.rows.n_rows >= GROUP_ROWS * asked
    allowed &= not site.problem.own_intercepts  # only all rows together have no slope in b
    return asked if allowed else 1


@dataclass(frozen=True)
class _Point:
    x: Array
    groups: int


@dataclass(frozen=True)
class Remembered:
    """What a client remembers: numbers of points, and its steps on the path.

    Attributes
    ----------
    known, curved, sampled : frozenset of int
        Points, those where curvature was computed, and those of which arguments of rows are kept.
    path : tuple of (4 + (2 + M) d,)
        Of every step mu, how many rows stay inside, how many steps mended earlier ones, and the
        number of the point; x, the tilt, and these steps, M at most.
    """

    known: frozenset[int] = frozenset()
    curved: frozenset[int] = frozenset()
    sampled: frozenset[int] = frozenset()
    path: tuple[Array, ...] = ()

    def after(self, request: CutRequest) -> Remembered:
        """What it remembers once it has answered a request."""
        asked = frozenset(request.identities)
        known = self.known | asked
        named = asked.union(request.marks, request.dual.identities if request.dual else ())
        kept = named | recent(known)
        curved = {i for i, c in zip(request.identities, request.curvature, strict=True) if c}
        path = self.path
        if request.path is not None:
            x, step = request.points[0], request.path
            none = np.zeros_like(x)
            so_far, tilt = ((), none) if step.tilt is None else (path, step.tilt)
            mends = [*step.mends, *[none] * (MOST_MENDS - len(step.mends))]
            numbers = [step.mu, step.inside, len(step.mends), request.identities[0]]
            path = *so_far, np.concatenate([numbers, x, tilt, *mends])
        return Remembered(
            known & kept, (self.curved | curved) & kept, (self.sampled | asked) & named, path
        )


NOTHING = Remembered()


@dataclass
class CacheMirror:
    """Which points every client remembers, and what is needed to compute them again."""

    lifted: bool
    points: dict[int, _Point] = field(default_factory=dict)
    of: dict[int, Remembered] = field(
        default_factory=dict
    )  # one object for all who remember the same

    def note(self, answered: Mapping[int, CutRequest]) -> None:
        """Clients have answered these requests."""
        after: dict[tuple[int, int], Remembered] = {}
        for s, request in answered.items():
            before = self.of.get(s, NOTHING)
            both = id(before), id(request)
            if both not in after:
                after[both] = before.after(request)
                for identity, x in zip(request.identities, request.points, strict=True):
                    self.points.setdefault(identity, _Point(x, request.groups))
            self.of[s] = after[both]

    def message(self, s: int, round: int) -> Message:
        """Ask client s to compute its points again."""
        memory = self.of.get(s, NOTHING)
        every = sorted(memory.known & set(self.points))
        points = [self.points[i] for i in every]
        dimension = len(next(iter(self.points.values())).x)
        arrays: dict[str, NDArray[Any]] = {
            "x": np.array([p.x for p in points]).reshape(len(points), dimension),
            "id": np.array(every, dtype=np.int64),
            "groups": np.array([p.groups for p in points], dtype=np.uint8),
            "curved": np.array([i in memory.curved for i in every], dtype=np.uint8),
            "sample": np.array([i in memory.sampled for i in every], dtype=np.uint8),
            "lifted": np.array([self.lifted], dtype=np.uint8),
        }
        if memory.path:
            arrays["path"] = np.array(memory.path)
        return Message(KIND, round, arrays)


def recall(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half: compute the points again; there is nothing to answer."""
    if site.ledger is not None:
        return {}  # a guarded client keeps nothing of a run, and computes nothing uncounted
    arrays, cache = message.arrays, cache_of(site)
    evaluator = evaluator_of(site, lifted=bool(arrays["lifted"][0]))
    for k, identity in enumerate(arrays["id"].tolist()):
        x, groups = arrays["x"][k], groups_of(site, int(arrays["groups"][k]))
        curved = bool(arrays["curved"][k]) and may_curve(site)
        cached = Cached.of(x, evaluator.evaluate(x, groups), curved=curved)
        cache.seen[identity] = cached if arrays["sample"][k] else cached.without_sample()
    cache.keep(set(arrays["id"].tolist()))
    site.memory.pop("path", None)
    for asked, identity, x in _steps(arrays.get("path"), site.dimension):
        replay(site, evaluator, asked, identity, evaluator.evaluate(x, 1).arguments)
    return {}


def _steps(told: Array | None, dimension: int) -> list[tuple[PathRequest, int, Array]]:
    """The steps of a path that was gone before, each from where the last one led."""
    if told is None:
        return []
    if told.shape[1] != 4 + (2 + MOST_MENDS) * dimension:
        raise WireError(f"steps along the path do not fit {dimension} coefficients")
    out, base = [], -1
    for step in told:
        mu, inside, moved, identity = step[:4].tolist()
        if mu <= 0.0 or inside < 0.0 or moved not in range(MOST_MENDS + 1):
            raise WireError("a step along the path cannot be")
        x, tilt, *mends = np.split(step[4:], 2 + MOST_MENDS)
        asked = PathRequest(mu, tilt, tuple(mends[: int(moved)]), inside=inside, base=base)
        out.append((asked, int(identity), x))
        base = int(identity)
    return out
