"""What crosses in a round of the bundle method, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.solvers.bundle.curvature import unpack_factor, unpack_sketch, unpack_triangle
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.master import Solution
from drfl.wire import Field, Message, WireError, reply_kind, validate

KIND = "bundle"
DUAL_FAMILY = -1

REQUEST = {
    "x": Field("float64", ("P", "d"), optional=True),  # points to evaluate; none: the point 0
    "id": Field("int64", ("P",)),  # under which the client may remember them
    "plan": Field("uint8", (None,)),  # see Request
    "dual": Field("float64", (None, None), optional=True),
}
REPLY = {
    "value": Field("float64", ("P", None)),  # F [and its multiplier, if the norm does not give it]
    "cuts": Field("float64", ("P", "G", "c")),  # constant, [slope in lambda], [lift], slope in x
    "share": Field("float64", ("G",), optional=True),
    "hess": Field("float32", ("h", None), optional=True),
    "sketch": Field("float32", ("h", "d", None), optional=True),
    "factor": Field("float16", ("h", None), optional=True),
    "scale": Field("float32", ("h", "d"), optional=True),
    "dual": Field("float64", (None,), optional=True),
    "local": Field("float32", ("d",), optional=True),
    "about": Field("float64", (2,), optional=True),  # weight of the rows, size of a feature
    "facts": Field("float64", (3, None), optional=True),  # of a support: see AnchorBox.facts
}


@dataclass(frozen=True)
class Dual:
    """The master's multipliers of a client's own cuts: by point and group, divided by q_s."""

    sigma: float
    identities: tuple[int, ...]
    weights: Array  # (k, G)


@dataclass(frozen=True)
class Request:
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

    def also(self, identity: int, x: Array) -> Request:
        """One more point, without curvature."""
        return replace(
            self,
            points=np.vstack([self.points, x]),
            identities=(*self.identities, identity),
            curvature=(*self.curvature, False),
        )

    def message(self, round: int) -> Message:
        """The message: ages of the marks, not numbers, so that the plan fits in bytes."""
        ages = [self.identities[0] - mark if mark >= 0 else 0 for mark in self.marks]
        ages = [age if age < 256 else 0 for age in ages]
        first = self.introduction + 2 * self.local + 4 * self.lifted
        plan = (self.groups, self.shares, first, *ages, *self.curvature)
        arrays: dict[str, NDArray[Any]] = {
            "id": np.array(self.identities),
            "plan": np.array(plan, dtype=np.uint8),
        }
        if self.points.any():
            arrays["x"] = self.points
        if self.dual is not None:
            head = np.zeros((1, 1 + self.dual.weights.shape[1]))
            head[0, 0] = self.dual.sigma
            body = np.column_stack([self.dual.identities, self.dual.weights])
            arrays["dual"] = np.vstack([head, body])
        return Message(KIND, round, arrays)

    @classmethod
    def read(cls, message: Message, dimension: int) -> Request:
        """What a message asks for; its form has been validated."""
        arrays = message.arrays
        identities = tuple(int(i) for i in arrays["id"])
        plan = [int(entry) for entry in arrays["plan"]]
        if len(plan) != 6 + len(identities):
            raise WireError("the plan does not fit the points")
        ages, dual = plan[3:6], arrays.get("dual")
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
            dual=None if dual is None else _read_dual(dual),
        )


def _read_dual(dual: Array) -> Dual:
    return Dual(float(dual[0, 0]), tuple(int(i) for i in dual[1:, 0]), dual[1:, 1:])


@dataclass(frozen=True)
class Reply:
    """A validated reply; a multiplier is None where the norm of w gives it."""

    identities: tuple[int, ...]
    values: Array
    multipliers: Sequence[float | None]
    rows: Array
    share: Array | None
    curvature: tuple[Array, ...]
    dual: Array | None
    local: Array | None
    about: Array | None
    facts: Array | None
    dimension: int
    lifted: int

    def cuts(self, pool: Pool, client: int, k: int, identity: int, round: int) -> Cuts:
        """The cuts of the k-th point; their family is the number of groups."""
        rows = self.rows[k]
        groups, d = len(rows), self.dimension
        piece = pool.pieces(client, groups, groups, self.share)
        slopes = rows.shape[1] - d - self.lifted - 1
        return Cuts(
            piece=piece,
            c=rows[:, 0],
            g=rows[:, -d:],
            slope=rows[:, 1] if slopes else np.zeros(groups),
            lift=rows[:, 1 + slopes : 1 + slopes + self.lifted],
            point=np.full(groups, identity),
            group=np.arange(groups),
            tangent=np.ones(groups, np.bool_),
            used=np.full(groups, round),
            serial=pool.serials(groups),
        )

    def dual_cut(self, pool: Pool, client: int, round: int) -> Cuts:
        """The dual cut: a family of its own, good for bounds only."""
        assert self.dual is not None
        piece = pool.pieces(client, DUAL_FAMILY, 1)
        one, none = np.ones(1, np.intp), np.zeros(1)
        return Cuts(
            piece,
            self.dual[:1],
            self.dual[None, 1:],
            none,
            np.zeros((1, self.lifted)),
            -one,
            0 * one,
            np.zeros(1, np.bool_),
            round * one,
            pool.serials(1),
        )


def read_reply(message: Message, round: int, asked: Request, lifted: int) -> Reply:
    """Validate a reply and unpack it; ``lifted`` numbers of a cut belong to a clipped model."""
    sizes = {"P": len(asked.points), "d": asked.points.shape[1]}
    found = validate(message, reply_kind(KIND), round, REPLY, sizes)
    arrays, d = message.arrays, found["d"]
    if found["G"] not in (1, asked.groups):
        raise WireError(f"cuts of {found['G']} groups were not asked for")
    if not 0 <= found["c"] - 1 - d - lifted <= 1:
        raise WireError(f"cuts of {found['c']} numbers do not fit {d} coefficients")
    packed: tuple[Array, ...] = ()
    if "factor" in arrays and "scale" in arrays:
        pairs = zip(arrays["factor"], arrays["scale"], strict=True)
        packed = tuple(unpack_factor(factor, scale) for factor, scale in pairs)
    elif "hess" in arrays:
        packed = tuple(unpack_triangle(triangle, d) for triangle in arrays["hess"])
    elif "sketch" in arrays:
        packed = tuple(unpack_sketch(sketch) for sketch in arrays["sketch"])
    return Reply(
        identities=asked.identities,
        values=arrays["value"][:, 0],
        multipliers=_multipliers(arrays["value"]),
        rows=arrays["cuts"],
        share=arrays.get("share"),
        curvature=packed,
        dual=arrays.get("dual"),
        local=_double(arrays.get("local")),
        about=arrays.get("about"),
        facts=arrays.get("facts"),
        dimension=d,
        lifted=lifted,
    )


def _double(array: NDArray[Any] | None) -> Array | None:
    return None if array is None else array.astype(np.float64)


def _multipliers(values: Array) -> list[float | None]:
    return list(values[:, 1]) if values.shape[1] > 1 else [None] * len(values)


def dual_requests(pool: Pool, cuts: Cuts, solution: Solution, sigma: float) -> dict[int, Dual]:
    r"""For each client the master's multipliers of its own cuts, :math:`a_k/(\mathrm{share}_pq_s)`.

    With them the client rebuilds the master's dual point row by row.
    """
    out = {}
    client = pool.piece_client[cuts.piece]
    for s, q in enumerate(np.maximum(solution.weights, 1e-300)):
        mine = np.flatnonzero((client == s) & (solution.cuts > 1e-12 * q))
        if len(mine):
            identities, position = np.unique(cuts.point[mine], return_inverse=True)
            weights = np.zeros((len(identities), int(cuts.group[mine].max()) + 1))
            share = pool.piece_share[cuts.piece[mine]]
            weights[position, cuts.group[mine]] = solution.cuts[mine] / (share * q)
            out[s] = Dual(sigma, tuple(int(i) for i in identities), weights)
    return out
