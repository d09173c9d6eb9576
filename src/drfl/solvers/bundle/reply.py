"""A client's reply: its form validated, its arrays unpacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.curvature import unpack_factor, unpack_sketch, unpack_triangle
from drfl.solvers.bundle.cuts import Cuts, Pool, clipping
from drfl.solvers.bundle.exchange import KIND, REPLY, Request
from drfl.wire import Message, WireError, reply_kind, validate

DUAL_FAMILY = -1
ROUNDING = 1e-9  # of shares, which add up to 1
INDEFINITE = 1e-4  # relative: what float32 may do to a positive semidefinite matrix

Arrays = Mapping[str, NDArray[Any]]


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

    def at(self, x: Array, multiplier: float, half: Array) -> Array:
        """The values (P, G) of the cuts at x and a multiplier: each is linear in these numbers."""
        slopes = self.rows.shape[2] - self.dimension - self.lifted - 1
        parts = [np.ones(1), np.full(slopes, multiplier)]
        if self.lifted:
            parts.append(clipping(x, multiplier, half))
        values: Array = self.rows @ np.concatenate([*parts, x])
        return values

    def dual_cut(self, pool: Pool, client: int, round: int) -> Cuts:
        """The dual cut, in the units of the other cuts."""
        assert self.dual is not None
        return dual_cut(self.dual, pool, client, round, self.lifted)


def dual_cut(numbers: Array, pool: Pool, client: int, round: int, lifted: int) -> Cuts:
    """A cut (c, g) that need not touch: a family of its own, good for bounds only."""
    piece = pool.pieces(client, DUAL_FAMILY, 1)
    one, none = np.ones(1, np.intp), np.zeros(1)
    return Cuts(
        piece,
        numbers[:1],
        numbers[None, 1:],
        none,
        np.zeros((1, lifted)),
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
    values = arrays["value"]
    if values.shape[1] not in (1, 2) or (values[:, 1:] < 0.0).any():
        raise WireError("its values are not F and, perhaps, a nonnegative multiplier")
    require_asked(arrays, asked)
    require_shares(arrays.get("share"), found["G"], asked)
    if "dual" in arrays and len(arrays["dual"]) != d + 1:
        raise WireError(f"a dual cut of {len(arrays['dual'])} numbers does not fit")
    if asked.introduction and ("about" not in arrays or not arrays["about"][0] > 0.0):
        raise WireError("it does not say how many rows it has")
    return Reply(
        identities=asked.identities,
        values=values[:, 0],
        multipliers=list(values[:, 1]) if values.shape[1] > 1 else [None] * len(values),
        rows=arrays["cuts"],
        share=arrays.get("share"),
        curvature=read_curvature(arrays, d, sum(asked.curvature)),
        dual=arrays.get("dual"),
        local=_double(arrays.get("local")),
        about=arrays.get("about"),
        facts=arrays.get("facts"),
        dimension=d,
        lifted=lifted,
    )


def require_asked(arrays: Arrays, asked: Request) -> None:
    """Refuse what was not asked for."""
    wanted = {
        "share": asked.shares,
        "dual": asked.dual is not None,
        "about": asked.introduction,
        "facts": asked.introduction,
        "local": asked.local,
    }
    for name, is_wanted in wanted.items():
        if name in arrays and not is_wanted:
            raise WireError(f"array {name!r} was not asked for")


def require_shares(share: Array | None, groups: int, asked: Request) -> None:
    """The masses of the groups: too large ones would be a false lower bound."""
    if asked.shares and groups > 1 and share is None:
        raise WireError("the masses of its groups are missing")
    if share is not None and ((share < 0.0).any() or abs(share.sum() - 1.0) > ROUNDING):
        raise WireError("the masses of its groups are not shares of 1")


def read_curvature(arrays: Arrays, d: int, wanted: int) -> tuple[Array, ...]:
    """Symmetric positive semidefinite matrices, as many as were asked for or none."""
    triangle = d * (d + 1) // 2
    for name, length in (("hess", triangle), ("factor", triangle), ("scale", d)):
        if name in arrays and arrays[name].shape[1] != length:
            raise WireError(f"array {name!r} does not fit {d} coefficients")
    if ("factor" in arrays) != ("scale" in arrays):
        raise WireError("a factor of curvature goes with its scale")
    if "sketch" in arrays and (arrays["sketch"][:, :, -1:] < 0.0).any():
        raise WireError("its sketch of curvature has a negative diagonal")
    packed = tuple(_unpacked(arrays, d))
    if len(packed) not in (0, wanted):
        raise WireError(f"curvature at {len(packed)} points instead of {wanted}")
    return packed


def _unpacked(arrays: Arrays, d: int) -> Iterator[Array]:
    if "factor" in arrays:
        for factor, scale in zip(arrays["factor"], arrays["scale"], strict=True):
            yield unpack_factor(factor, scale)
    for triangle in arrays.get("hess", ()):
        H = unpack_triangle(triangle, d)
        _require_semidefinite(H)
        yield H
    for sketch in arrays.get("sketch", ()):
        yield unpack_sketch(sketch)


def _require_semidefinite(H: Array) -> None:
    """Anything semidefinite is a valid metric; anything else would lead the steps uphill."""
    largest = float(np.diag(H).max(initial=0.0))
    try:
        np.linalg.cholesky(H + (INDEFINITE * largest + 1e-300) * np.eye(len(H)))
    except np.linalg.LinAlgError:
        raise WireError("its curvature is not positive semidefinite") from None


def _double(array: NDArray[Any] | None) -> Array | None:
    return None if array is None else array.astype(np.float64)
