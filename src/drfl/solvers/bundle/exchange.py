"""What crosses in a round of the bundle method, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.solvers.bundle.curvature import unpack_factor, unpack_triangle
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.master import Solution
from drfl.wire import Field, Message, WireError, reply_kind, validate

KIND = "bundle"
DUAL_FAMILY = -1

REQUEST = {
    "x": Field("float64", ("P", "d")),  # points to evaluate
    "id": Field("int64", ("P",)),  # under which the client may remember them
    "plan": Field("uint8", (None,)),  # groups; wanted: shares, local optimum, curvature per point
    "marks": Field("int64", (3,)),  # identities: previous point, centre, point of the curvature
    "dual_id": Field("int64", ("k",), optional=True),
    "dual_weight": Field("float64", ("k", None), optional=True),
    "sigma": Field("float64", (1,), optional=True),
}
REPLY = {
    "value": Field("float64", ("P", 2)),  # F and its multiplier
    "cuts": Field("float64", ("P", "G", "c")),  # constant, [slope in lambda], [lift], slope in x
    "share": Field("float64", ("G",), optional=True),
    "triangle": Field("float32", (None, None), optional=True),
    "factor": Field("float16", ("h", None), optional=True),
    "scale": Field("float32", ("h", "d"), optional=True),
    "dual": Field("float64", (None,), optional=True),
    "local": Field("float64", ("d",), optional=True),
    "about": Field("float64", (2,), optional=True),  # weight of the rows, size of a feature
    "facts": Field("float64", (3, None), optional=True),  # of a support: see AnchorBox.facts
}


@dataclass(frozen=True)
class Asked:
    """What one client is asked in a round.

    Attributes
    ----------
    points, identities
        Points (P, d), and the numbers under which client and server speak of them.
    curvature : tuple of bool
        Of which points curvature is wanted.
    groups : int
        Into how many groups the client should split its rows.
    shares, local : bool
        Whether the masses of the groups, and the client's own optimum, are wanted.
    lifted : int
        How many numbers of a cut belong to the clipped model of a box.
    """

    points: Array
    identities: tuple[int, ...]
    curvature: tuple[bool, ...]
    groups: int = 1
    shares: bool = False
    local: bool = False
    lifted: int = 0

    def also(self, identity: int, x: Array) -> Asked:
        """One more point, without curvature."""
        return replace(
            self,
            points=np.vstack([self.points, x]),
            identities=(*self.identities, identity),
            curvature=(*self.curvature, False),
        )

    def message(
        self, round: int, marks: tuple[int, int, int], dual: Mapping[str, NDArray[Any]]
    ) -> Message:
        """The request."""
        plan = (self.groups, self.shares, self.local, *self.curvature)
        arrays = {
            "x": self.points,
            "id": np.array(self.identities),
            "plan": np.array(plan, dtype=np.uint8),
            "marks": np.array(marks),
        }
        return Message(KIND, round, {**arrays, **dual})


@dataclass(frozen=True)
class Reply:
    """A validated reply."""

    values: Array
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


def read_reply(message: Message, round: int, asked: Asked) -> Reply:
    """Validate a reply and unpack it."""
    sizes = {"P": len(asked.points), "d": asked.points.shape[1]}
    lifted = asked.lifted
    found = validate(message, reply_kind(KIND), round, REPLY, sizes)
    if found["G"] not in (1, asked.groups):
        raise WireError(f"cuts of {found['G']} groups were not asked for")
    arrays = message.arrays
    d = found["d"]
    if not 0 <= found["c"] - 1 - d - lifted <= 1:
        raise WireError(f"cuts of {found['c']} numbers do not fit {d} coefficients")
    packed: tuple[Array, ...] = ()
    if "factor" in arrays and "scale" in arrays:
        pairs = zip(arrays["factor"], arrays["scale"], strict=True)
        packed = tuple(unpack_factor(factor, scale) for factor, scale in pairs)
    elif "triangle" in arrays:
        packed = tuple(unpack_triangle(triangle, d) for triangle in arrays["triangle"])
    return Reply(
        values=arrays["value"],
        rows=arrays["cuts"],
        share=arrays.get("share"),
        curvature=packed,
        dual=arrays.get("dual"),
        local=arrays.get("local"),
        about=arrays.get("about"),
        facts=arrays.get("facts"),
        dimension=d,
        lifted=lifted,
    )


def dual_request(
    pool: Pool, cuts: Cuts, solution: Solution, sigma: float
) -> list[dict[str, NDArray[Any]]]:
    r"""For each client the master's multipliers of its own cuts, :math:`a_k/(\mathrm{share}_pq_s)`.

    With them the client rebuilds the master's dual point row by row.
    """
    out: list[dict[str, NDArray[Any]]] = []
    client = pool.piece_client[cuts.piece]
    for s, q in enumerate(np.maximum(solution.weights, 1e-300)):
        mine = np.flatnonzero((client == s) & (solution.cuts > 1e-12 * q))
        identities, position = np.unique(cuts.point[mine], return_inverse=True)
        if not len(mine):
            out.append({})
            continue
        weight = np.zeros((len(identities), int(cuts.group[mine].max()) + 1))
        share = pool.piece_share[cuts.piece[mine]]
        weight[position, cuts.group[mine]] = solution.cuts[mine] / (share * q)
        out.append(
            {"dual_id": identities, "dual_weight": weight, "sigma": np.array([float(sigma)])}
        )
    return out
