"""What crosses in a round of the bundle method: what a client is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.certificate.cuts import Cuts, FamilyCuts, Ints, Pool, Solution
from drfl.solvers.limits import LARGEST
from drfl.wire import Field, Message, WireError

KIND = "bundle"

REQUEST = {
    "x": Field("float64", ("P", "d"), optional=True),  # points to evaluate; none: the point 0
    "id": Field("int64", ("P",)),  # under which the client may remember them
    "plan": Field("uint8", (None,)),  # see CutRequest
    "dual": Field("float64", ("k", None), optional=True),  # numbers of points, and weights
    "shift": Field("float64", ("d",), optional=True),  # with them: see Dual
    "path": Field("float64", (None,), optional=True),  # see PathRequest
    "reach": Field("float64", (1,), optional=True),  # how far curvature should be certain
}
REPLY = {
    "value": Field("float64", ("P", None)),  # F [and its multiplier, if the norm does not give it]
    "cuts": Field("float64", ("P", "G", "c")),  # constant, [slope in lambda], [lift], slope in x
    "share": Field("float64", (None,), optional=True),  # one per group
    "hess": Field("float32", ("h", None), optional=True),
    "sketch": Field("float32", ("h", "d", None), optional=True),
    "factor": Field("float16", ("h", None), optional=True),
    "scale": Field("float32", ("h", "d"), optional=True),
    "dual": Field("float64", (None,), optional=True),
    "path": Field("float64", (2, None), optional=True),  # see PathModel
    "bend": Field("float64", (1, None), optional=True),  # curvature of which every digit counts
    "reach": Field("float64", (None, 2), optional=True),  # how far that is certain: see Reach
    "sides": Field("float64", ("m", None), optional=True),  # cuts that fall, or rise, with scores
    "mended": Field("float64", ("M", None), optional=True),  # earlier ones, their slopes moved
    "room": Field("float32", (None, None), optional=True),  # how slopes of proofs can move
    "local": Field("float32", ("d",), optional=True),
    "about": Field("float64", (2,), optional=True),  # weight of the rows, size of a feature
    "guard": Field("uint8", (1,), optional=True),  # k of the client's guard
    "facts": Field("float64", (3, None), optional=True),  # of a support: see AnchorBox.facts
    "classes": Field("float64", ("C", None), optional=True),  # see class_facts
}


@dataclass(frozen=True)
class Dual:
    """The slopes of a dual cut: those of the master's dual point, moved along the curvature.

    Attributes
    ----------
    identities, weights : tuple of int, (k, G)
        The master's multipliers of a client's own cuts: by point and group, divided by q_s.
    shift : (d,)
        The step in x along which the slopes move.
    """

    identities: tuple[int, ...]
    weights: Array
    shift: Array


@dataclass(frozen=True)
class PathRequest:
    """A step along the central path, see `drfl.solvers.bundle.client_half.path_rows`.

    Attributes
    ----------
    mu : float
        What the products of the rows should become in the step that led to the main point.
    tilt : (d,) or None
        A further step along which slopes move for the proof; None: the path begins here.
    mends : up to `MOST_MENDS` of (d,)
        Steps along which slopes of earlier proofs move, as far as each has room: those of the
        last proof, those of the one before, which have moved once, and so on.
    groups : int
        Into how many groups the rows of the proof's cuts should be split, if they are enough.
    inside : float
        How many rows for a unit of weight keep slopes between their ends in the proof, at least;
        0: all.
    base : int
        The number of the point where the step begins; -1: the path does.
    """

    mu: float
    tilt: Array | None = None
    mends: tuple[Array, ...] = ()
    groups: int = 1
    inside: float = 0.0
    base: int = -1


@dataclass(frozen=True)
class PathModel:
    """What a client tells of its rows on the path: a model of its mean loss, by mu and the step.

    Attributes
    ----------
    x : (d,)
        Where the rows are.
    lines : (2, 1 + d)
        Value and gradient, and what they gain per mu.
    products : float
        The mean of the rows' products.
    clipped : float
        The share of the rows whose slopes the step took beyond their ends.
    proofs : pairs of (d,) and (d, d)
        What the slopes of the proof add up to, and by which matrix that changes along a step, every
        slope as far as it has room; then the same of earlier proofs, the last one, mended once,
        first. Empty where columns are many, and nothing is mended.
    identity : int
        The number of the point x.
    """

    x: Array
    lines: Array
    products: float
    clipped: float
    proofs: tuple[tuple[Array, Array], ...] = ()
    identity: int = -1


@dataclass(frozen=True)
class CutRequest:
    """What one client is asked in a round.

    Attributes
    ----------
    points, identities
        Points (P, d), and the numbers under which client and server speak of them.
    curvature : tuple of bool
        Of which points curvature is wanted.
    groups : int
        Into how many groups the client should split its rows.
    shares, introduction, local : bool
        Whether the masses of the groups, facts about the client, and its own optimum are wanted.
    lifted : bool
        Whether cuts know the clipping of a box: all clients' do, or none's.
    marks : tuple of int
        Numbers of the previous point, of the centre, and of the point of the curvature in force;
        -1: none.
    dual : Dual or None
        With it a dual cut is wanted.
    path : PathRequest or None
        With it a step along the central path is wanted.
    reach : float
        With it curvature is wanted with all digits if it reaches so far; 0: it is not.
    """

    points: Array
    identities: tuple[int, ...]
    curvature: tuple[bool, ...]
    groups: int = 1
    shares: bool = False
    introduction: bool = False
    local: bool = False
    lifted: bool = False
    marks: tuple[int, int, int] = (-1, -1, -1)
    dual: Dual | None = None
    path: PathRequest | None = None
    reach: float = 0.0

    def also(self, identity: int, x: Array) -> CutRequest:
        """One more point, without curvature."""
        return replace(
            self,
            points=np.vstack([self.points, x]),
            identities=(*self.identities, identity),
            curvature=(*self.curvature, False),
        )

    @property
    def form(self) -> tuple[object, ...]:
        """What replies of the same form answer alike: points, and what else is wanted."""
        path = None if self.path is None else (self.path.tilt is None, len(self.path.mends))
        wanted = self.shares, self.introduction, self.local, self.lifted, self.dual is None, path
        return self.identities, self.curvature, self.groups, *wanted

    def message(self, round: int) -> Message:
        """The message: ages of the marks, not numbers, so that the plan fits in bytes."""
        ages = [self.identities[0] - mark if mark >= 0 else 0 for mark in self.marks]
        first = self.introduction + 2 * self.local + 4 * self.lifted
        plan = (self.groups, self.shares, first, *ages, *self.curvature)
        arrays: dict[str, NDArray[Any]] = {
            "id": np.array(self.identities),
            "plan": np.array(plan, dtype=np.uint8),
        }
        if self.points.any():
            arrays["x"] = self.points
        if self.dual is not None:
            arrays["dual"] = np.column_stack([self.dual.identities, self.dual.weights])
            arrays["shift"] = self.dual.shift
        if self.path is not None:
            path = self.path
            steps = [] if path.tilt is None else [path.tilt, *path.mends]
            arrays["path"] = np.concatenate(
                [[path.mu, path.groups, path.inside, path.base], *steps]
            )
        if self.reach > 0.0:
            arrays["reach"] = np.array([self.reach])
        return Message(KIND, round, arrays)

    @classmethod
    def read(cls, message: Message, dimension: int) -> CutRequest:
        """What a message asks for; its form has been validated."""
        arrays = message.arrays
        identities = tuple(int(i) for i in arrays["id"])
        plan = [int(entry) for entry in arrays["plan"]]
        if len(plan) != 6 + len(identities):
            raise WireError("the plan does not fit the points")
        if ("dual" in arrays) != ("shift" in arrays):
            raise WireError("a dual cut needs multipliers and a shift")
        ages = plan[3:6]
        marks = [identities[0] - age if age else -1 for age in ages]
        return cls(
            points=arrays.get("x", np.zeros((len(identities), dimension))),
            identities=identities,
            curvature=tuple(bool(entry) for entry in plan[6:]),
            groups=max(plan[0], 1),
            shares=bool(plan[1]),
            introduction=bool(plan[2] & 1),
            local=bool(plan[2] & 2),
            lifted=bool(plan[2] & 4),
            marks=(marks[0], marks[1], marks[2]),
            dual=_read_dual(arrays) if "dual" in arrays else None,
            path=_read_path(arrays["path"], dimension) if "path" in arrays else None,
            reach=float(arrays["reach"][0]) if "reach" in arrays else 0.0,
        )


def near_marks(first: int, *marks: int) -> tuple[int, int, int]:
    """The marks that a message can name: older than its first point, by less than a byte."""
    previous, centre, metric = (mark if 0 < first - mark < 256 else -1 for mark in marks)
    return previous, centre, metric


def _read_dual(arrays: Mapping[str, NDArray[Any]]) -> Dual:
    dual = arrays["dual"]
    return Dual(tuple(int(i) for i in dual[:, 0]), dual[:, 1:], arrays["shift"])


def _read_path(numbers: Array, dimension: int) -> PathRequest:
    steps, rest = divmod(len(numbers) - STEP, dimension)
    if rest or not 0 <= steps <= 1 + MOST_MENDS or (np.abs(numbers) > LARGEST).any():
        raise WireError(
            f"a step along the path is {STEP} numbers and up to {1 + MOST_MENDS} steps, "
            f"none of them beyond {LARGEST:g}"
        )
    mu, groups, inside, base = numbers[:STEP].tolist()
    if mu <= 0.0 or inside < 0.0 or groups not in range(1, MOST_GROUPS + 1):
        raise WireError(
            "a step along the path has positive products, no negative number of rows and "
            f"1 to {MOST_GROUPS} groups"
        )
    tilt, *mends = (*numbers[STEP:].reshape(-1, dimension), None)[: max(steps, 1)]
    return PathRequest(mu, tilt, tuple(mends), int(groups), inside, int(base))


def dual_requests(pool: Pool, cuts: Cuts, solution: Solution, shift: Array) -> dict[int, Dual]:
    r"""For each client the master's multipliers of its own cuts, :math:`a_k/(\mathrm{share}_pq_s)`.

    With them the client rebuilds the master's dual point row by row.
    """
    client, q = pool.piece_client[cuts.piece], np.maximum(solution.weights, 1e-300)
    chosen = np.flatnonzero((solution.cuts > 1e-12 * q[client]) & (cuts.group >= 0))
    chosen = chosen[np.argsort(client[chosen], kind="stable")]
    weight = solution.cuts[chosen] / (pool.piece_share[cuts.piece[chosen]] * q[client[chosen]])
    clients, first = np.unique(client[chosen], return_index=True)
    ends, out = np.append(first, len(chosen)), {}
    for s, start, end in zip(clients.tolist(), ends[:-1], ends[1:], strict=True):
        point, group = cuts.point[chosen[start:end]], cuts.group[chosen[start:end]]
        identities, position = np.unique(point, return_inverse=True)
        weights = np.zeros((len(identities), int(group.max()) + 1))
        weights[position, group] = weight[start:end]
        out[s] = Dual(tuple(identities.tolist()), weights, shift)
    return out


DUAL_FAMILY, SPLIT_DUAL_FAMILY = -1, -4
MOST_GROUPS = 255
OF_FLIPS = -1  # in place of a group: a cut of what flips add
NO_POINT = np.full(1, -1)  # where cuts that need not touch were told
# On the path proofs are improved with matrices of columns times columns; of more columns that costs
# more than all else that server and clients compute.
FEW_COLUMNS = 500
STEP = 4  # numbers of a path request: mu, groups, rows that stay inside, where it begins
MOST_MENDS = 2  # of a proof, one a round; cuts of sides have their number in place of a group


def family_of(pieces: int, parts: int) -> int:
    """The family of so many pieces: G groups in two parts have other masses than 2G groups.

    Along a path of problems a client has both.
    """
    return pieces if parts == 1 else -1 - pieces  # odd, since the two parts have as many


def sides_family(pieces: int) -> int:
    """The family of so many pieces, two for every group: see `side_cuts`."""
    return -4 - pieces  # even, and below those of dual cuts


def dual_cut(numbers: Array, pool: Pool, client: int, round: int, lifted: int) -> FamilyCuts:
    """A cut (c, g) of one client of the pool that need not touch."""
    return dual_cuts(numbers[None], np.array([client]), round, lifted)


def dual_cuts(numbers: Array, clients: Ints, round: int, lifted: int) -> FamilyCuts:
    """Cuts (m, 1 + d) that need not touch: a family of its own, good for bounds only."""
    m = len(clients)
    return FamilyCuts(
        clients,
        DUAL_FAMILY,
        np.ones((m, 1)),
        numbers[:, None, None, 0],
        numbers[:, None, None, 1:],
        np.zeros((m, 1, 1)),
        np.zeros((m, 1, 1, lifted)),
        point=NO_POINT,
        group=np.zeros(1, np.intp),
        tangent=False,
        round=round,
    )


def split_dual_cuts(loss: Array, flips: Array, clients: Ints, round: int) -> FamilyCuts:
    """Cuts (m, 1 + d) of the mean loss alone, and (m, 2 + d) with a slope of what flips add."""
    m, d = len(clients), loss.shape[1] - 1
    slope = np.stack([np.zeros(m), flips[:, 1]], axis=1)
    kept = np.stack([np.ones(m, np.bool_), flips.any(axis=1)], axis=1)
    return FamilyCuts(
        clients,
        SPLIT_DUAL_FAMILY,
        np.ones((m, 2)),
        np.stack([loss[:, 0], flips[:, 0]], axis=1)[:, None],
        np.stack([loss[:, 1:], flips[:, -d:]], axis=1)[:, None],
        slope[:, None],
        np.zeros((m, 1, 2, 0)),
        point=NO_POINT,
        group=np.array([0, OF_FLIPS]),
        tangent=False,
        round=round,
        kept=kept[:, None],
    )


def side_cuts(told: Mapping[int, Array], clients: Ints, round: int) -> FamilyCuts:
    """Cuts (m, K, 1 + d) of the parts of the loss that fall and that rise with the score, by group.

    ``told`` has them by kind, as told or mended; they are the K pieces of one family.
    """
    numbers, m = np.stack(list(told.values()), axis=1), len(clients)
    K = numbers.shape[2]
    return FamilyCuts(
        clients,
        sides_family(K),
        np.ones((m, K)),
        numbers[..., 0],
        numbers[..., 1:],
        np.zeros((m, len(told), K)),
        np.zeros((m, len(told), K, 0)),
        point=np.full(len(told), -1),
        group=np.array(list(told))[:, None],
        tangent=False,
        round=round,
    )
