r"""Reading a reply: is it of the right form, and can it be true?

A client's cuts bound its F from below everywhere. A value below its own earlier cuts, or a cut
above one of its values, here or at a point points before, proves that something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.curvature import unpack_factor, unpack_sketch, unpack_triangle
from drfl.solvers.bundle.messages import KIND, REPLY, Reply, Request
from drfl.solvers.bundle.points import Points
from drfl.solvers.certificate.anchors import AnchorBox
from drfl.wire import Message, WireError, reply_kind, validate

SLACK = 1e-7  # rounding, relatively
ROUNDING = 1e-9  # of shares, which add up to 1
INDEFINITE = 1e-4  # relative: what float32 may do to a positive semidefinite matrix

Arrays = Mapping[str, NDArray[Any]]


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
        guarded="guard" in arrays,
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


def require_facts(facts: Array | None, box: AnchorBox | None) -> None:
    """The anchors of a support are made of what clients tell in their first answer."""
    columns, wanted = 0 if facts is None else facts.shape[1], 0
    if box is not None:
        wanted = len(box.middle) + 1
    if columns != wanted:
        raise WireError(f"{columns} columns of facts about its support, not {wanted}")
    if facts is not None and not (
        (facts[:2, 0] >= 0.0).all() and facts[:2, 0].sum() <= 1.0 + 1e-9 and facts[2, 0] >= 0.0
    ):
        raise WireError("shares of classes or a distance that cannot be")


def _double(array: NDArray[Any] | None) -> Array | None:
    return None if array is None else array.astype(np.float64)


def require_consistent(reply: Reply, s: int, asked: Request, points: Points) -> None:
    """Refuse a reply that contradicts itself or what the client said before."""
    terms = points.terms
    here = [
        (x, float(value), terms.multiplier(s, x) if given is None else given)
        for x, value, given in zip(asked.points, reply.values, reply.multipliers, strict=True)
    ]
    for x, value, multiplier in here:
        if _is_below(value, points.model_of(s, x, multiplier)):
            raise WireError("its value is below its own earlier cuts")
    before = [
        (point.x, float(point.values[s]), float(point.multipliers[s]))
        for point in points.at.values()
        if not np.isnan(point.values[s])
    ]
    for x, value, multiplier in (*here, *before):
        for least in _cut_values(reply, s, x, multiplier, points):
            if _is_below(value, least):
                raise WireError("its cuts are above its own values")


def _is_below(value: float, least: float) -> bool:
    return value < least - SLACK * (1.0 + abs(least))


def _cut_values(
    reply: Reply, s: int, x: Array, multiplier: float, points: Points
) -> Sequence[float]:
    """What the new cuts say of F at x: those of every point, and the dual cut."""
    pool, half = points.pool, points.terms.half[s]
    priced = points.terms.rho[s] * multiplier if points.terms.priced else 0.0
    groups = reply.rows.shape[1]
    share = pool.share(s, groups) if reply.share is None else reply.share
    values = list(np.maximum(reply.at(x, multiplier, half), 0.0) @ share)
    if reply.dual is not None:
        values.append(reply.dual[0] + reply.dual[1:] @ x)
    return [priced + float(value) for value in values]
