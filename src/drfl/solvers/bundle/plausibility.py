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
from drfl.solvers.bundle.client_half.curvature import unpack_factor, unpack_sketch
from drfl.solvers.bundle.client_half.joint import of_pairs, packed_length, unpack_pairs
from drfl.solvers.bundle.messages import KIND, REPLY, CutReply, CutRequest, PathModel
from drfl.solvers.bundle.points import Points
from drfl.solvers.certificate.anchors import AnchorBox
from drfl.solvers.certificate.server import ServerProblem
from drfl.solvers.limits import DIGITS, LARGEST, SLACK, Limits, is_below
from drfl.wire import Message, WireError, reply_kind, validate
from drfl.wire.schema import require_semidefinite, unpack_triangle

COARSE = 1e-2  # what the rounding of a guard may add to a slope, relative to the largest
ROUNDING = 1e-9  # of shares, which add up to 1

Arrays = Mapping[str, NDArray[Any]]


def read_reply(
    message: Message,
    round: int,
    asked: CutRequest,
    lifted: int,
    *,
    split: bool = False,
    classes: int | None = None,
    intercepts: int = 0,
) -> CutReply:
    """Validate a reply and unpack it; ``lifted`` numbers of a cut belong to a clipped model.

    ``split``: cuts of what flips add may follow those of the losses, as many again. ``classes``:
    how many there are at once, with so many ``intercepts``.
    """
    sizes = {"P": len(asked.points), "d": asked.points.shape[1]}
    if classes is not None:
        sizes["C"] = classes
    found = validate(message, reply_kind(KIND), round, REPLY, sizes)
    arrays, d = message.arrays, found["d"]
    for name, array in arrays.items():
        if float(np.abs(array).max(initial=0.0)) > LARGEST:
            raise WireError(f"array {name!r} has numbers beyond {LARGEST:g}")
    parts = 2 if split and found["G"] > 1 else 1  # a strict client does not split
    if found["G"] not in (parts, parts * asked.groups):
        raise WireError(f"cuts of {found['G']} pieces were not asked for")
    if not 0 <= found["c"] - 1 - d - lifted <= 1:
        raise WireError(f"cuts of {found['c']} numbers do not fit {d} coefficients")
    values = arrays["value"]
    if values.shape[1] not in (1, 2) or (values[:, 1:] < 0.0).any():
        raise WireError("its values are not F and, perhaps, a nonnegative multiplier")
    require_asked(arrays, asked)
    require_shares(arrays.get("share"), found["G"] // parts, asked)
    if "dual" in arrays and len(arrays["dual"]) != d + 1:
        raise WireError(f"a dual cut of {len(arrays['dual'])} numbers does not fit")
    path = read_path(arrays, asked)
    if asked.introduction and ("about" not in arrays or not arrays["about"][0] > 0.0):
        raise WireError("it does not say how many rows it has")
    return CutReply(
        identities=asked.identities,
        values=values[:, 0],
        multipliers=list(values[:, 1]) if values.shape[1] > 1 else [None] * len(values),
        rows=arrays["cuts"],
        share=arrays.get("share"),
        curvature=read_curvature(
            arrays, d, sum(asked.curvature) + (path is not None), classes, intercepts
        ),
        dual=arrays.get("dual"),
        local=_double(arrays.get("local")),
        about=arrays.get("about"),
        facts=arrays.get("facts"),
        classes=arrays.get("classes"),
        guarded="guard" in arrays,
        dimension=d,
        lifted=lifted,
        parts=parts,
        path=path,
        sides=arrays.get("sides"),
    )


def require_asked(arrays: Arrays, asked: CutRequest) -> None:
    """Refuse what was not asked for."""
    wanted = {
        "share": asked.shares,
        "dual": asked.dual is not None,
        "about": asked.introduction,
        "facts": asked.introduction,
        "classes": asked.introduction,
        "local": asked.local,
        "path": asked.path is not None,
        "bend": asked.path is not None,
        "sides": asked.path is not None and asked.path.tilt is not None,
    }
    for name, is_wanted in wanted.items():
        if name in arrays and not is_wanted:
            raise WireError(f"array {name!r} was not asked for")


def read_path(arrays: Arrays, asked: CutRequest) -> PathModel | None:
    """The model of a step along the path, which goes with curvature."""
    d = asked.points.shape[1]
    if "sides" in arrays and arrays["sides"].shape[1] != 1 + d:
        raise WireError(f"cuts of sides do not fit {d} coefficients")
    if "path" not in arrays:
        if "sides" in arrays:
            raise WireError("cuts of sides go with a model of the path")
        return None
    path = arrays["path"]
    if path.shape[1] != 2 + d or "bend" not in arrays:
        raise WireError(f"a model of the path does not fit {d} coefficients, or has no curvature")
    products, clipped = (float(number) for number in path[:, -1])
    if not (products > 0.0 and 0.0 <= clipped <= 1.0):
        raise WireError("the products of its rows on the path cannot be")
    return PathModel(asked.points[0], path[:, :-1], products, clipped)


def require_shares(share: Array | None, groups: int, asked: CutRequest) -> None:
    """The masses of the groups: too large ones would be a false lower bound."""
    if asked.shares and groups > 1 and share is None:
        raise WireError("the masses of its groups are missing")
    if share is not None and len(share) != groups:
        raise WireError(f"{len(share)} masses of {groups} groups")
    if share is not None and ((share < 0.0).any() or abs(share.sum() - 1.0) > ROUNDING):
        raise WireError("the masses of its groups are not shares of 1")


def read_curvature(
    arrays: Arrays, d: int, wanted: int, classes: int | None = None, intercepts: int = 0
) -> tuple[Array, ...]:
    """Symmetric positive semidefinite matrices, as many as were asked for or none."""
    triangle = d * (d + 1) // 2
    if classes is not None:
        if "factor" in arrays or "sketch" in arrays:
            raise WireError("its curvature is not that of several classes")
        triangle = packed_length(classes, d)
    lengths = {"hess": triangle, "bend": triangle, "factor": triangle, "scale": d}
    for name, length in lengths.items():
        if name in arrays and arrays[name].shape[1] != length:
            raise WireError(f"array {name!r} does not fit {d} coefficients")
    if ("factor" in arrays) != ("scale" in arrays):
        raise WireError("a factor of curvature goes with its scale")
    if "sketch" in arrays and (arrays["sketch"][:, :, -1:] < 0.0).any():
        raise WireError("its sketch of curvature has a negative diagonal")
    found = _unpacked(arrays, d)
    packed = tuple(found if classes is None else _of_classes(arrays, d, classes, intercepts))
    if len(packed) not in (0, wanted):
        raise WireError(f"curvature at {len(packed)} points instead of {wanted}")
    return packed


def _unpacked(arrays: Arrays, d: int) -> Iterator[Array]:
    if "factor" in arrays:
        for factor, scale in zip(arrays["factor"], arrays["scale"], strict=True):
            yield unpack_factor(factor, scale)
    for triangle in (*arrays.get("hess", ()), *arrays.get("bend", ())):
        H = unpack_triangle(triangle, d)
        require_semidefinite(H)
        yield H
    for sketch in arrays.get("sketch", ()):
        yield unpack_sketch(sketch)


def _of_classes(arrays: Arrays, d: int, classes: int, intercepts: int) -> Iterator[Array]:
    for packed in arrays.get("hess", ()):
        matrices = unpack_pairs(packed, classes, d)
        for A in matrices:
            require_semidefinite(A)
        yield of_pairs(matrices, classes, d - intercepts)


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


def require_classes(told: Array | None, limits: Limits, columns: int) -> None:
    """Shares and mean rows of the classes, which bound their intercepts."""
    wanted = limits.classes is not None
    if (told is not None) != wanted or (told is not None and told.shape[1] != columns + 1):
        raise WireError("the shares and means of its classes do not fit the problem")
    if told is None:
        return
    share, means = told[:, 0], told[:, 1:]
    if (share < 0.0).any() or abs(share.sum() - 1.0) > ROUNDING:
        raise WireError("the shares of its classes are not shares of 1")
    if limits.columns is not None:
        # A share of the rows cannot have a larger sum than all of them allow.
        most = np.sqrt(share)[:, None] * limits.columns[:columns]
        if (share[:, None] * np.abs(means) > (1.0 + SLACK) * most + SLACK).any():
            raise WireError("the means of its classes are larger than its columns allow")


def _double(array: NDArray[Any] | None) -> Array | None:
    return None if array is None else array.astype(np.float64)


# ---------------------------------------------------------------------- can it be true?
def require_possible(
    reply: CutReply, s: int, asked: CutRequest, first: CutReply, limits: Limits, points: Points
) -> None:
    """Refuse what no rows could give; ``first`` is the client's introduction."""
    server = points.server
    for x, value in zip(asked.points, reply.values, strict=True):
        if limits.at_zero is not None and not x.any():
            _require_value_at_zero(float(value), limits.at_zero, guarded=first.guarded)
    _require_slopes(reply, s, first, limits, server, reply.masses(points.pool, s))
    if reply is first:
        require_sizes(first, limits)


def _require_value_at_zero(value: float, known: float, *, guarded: bool) -> None:
    """A guard rounds up, by a factor of 3 at most."""
    most = 4.0 * known + 1.0 if guarded else known
    if is_below(value, known) or is_below(most, value):
        raise WireError(f"its value at w = 0 is {value:.6g}, and everybody's is {known:.6g}")


def _require_slopes(
    reply: CutReply, s: int, first: CutReply, limits: Limits, server: ServerProblem, share: Array
) -> None:
    """Bounds of the slopes in x and in the multiplier, of all cuts and of a dual cut."""
    n, loose = server.n, COARSE if first.guarded else SLACK
    slopes = reply.rows[:, :, -reply.dimension :]
    if reply.parts > 1:  # a row's loss and what its flip adds are together no steeper than the loss
        groups = len(share) // reply.parts
        slopes, share = slopes[:, :groups] + slopes[:, groups:], share[:groups]
    slopes = np.abs(slopes)
    if reply.lifted:  # far from the origin a clipped model is the model
        lift = reply.rows[:, :, 1 + reply.slopes :][:, :, : reply.lifted]
        slopes[:, :, :n] = np.abs(reply.rows[:, :, -reply.dimension :][:, :, :n] + lift[:, :, :n])
        room = (1.0 + loose) * limits.lipschitz * np.append(server.half[s], 1.0)
        if (np.abs(lift) > room + loose).any() or (lift[:, :, n] < -loose).any():
            raise WireError("the slopes of its cuts in the clipped model cannot be")
    if reply.dual is not None:
        _require_means(np.abs(reply.dual[1:])[None], first, limits, server, loose)
    if reply.sides is not None:  # a row is on one side
        size = np.abs(reply.sides[:, 1:]).sum(axis=0)
        _require_means(size[None], first, limits, server, loose)
    if reply.slopes:
        _require_flips(-reply.rows[:, :, 1], limits.label_cost, loose)
    if server.is_shared:
        cost = limits.label_cost if limits.move == 0.0 else LARGEST
        _require_flips(-reply.rows[:, :, -1], cost, loose)
    _require_means(share @ slopes, first, limits, server, loose)


def _require_flips(mass: Array, label_cost: float, loose: float) -> None:
    """A slope in the multiplier is the label cost times the mass that is flipped."""
    most = label_cost if np.isfinite(label_cost) else 0.0
    if (mass < -SLACK).any() or (mass > (1.0 + loose) * most).any():
        raise WireError("the slopes of its cuts in the multiplier cannot be")


def _require_means(
    size: Array, first: CutReply, limits: Limits, server: ServerProblem, loose: float
) -> None:
    """Sizes (P, d) of slopes in x, means over the groups, against those of the columns."""
    n, lip = server.n, limits.lipschitz
    if (size[:, n : n + server.intercepts] > (1.0 + loose) * lip).any():
        raise WireError("the slopes of its cuts in the intercept are steeper than the loss")
    if limits.columns is not None:
        most = lip * (limits.columns + limits.move)
        largest = most[np.isfinite(most)].max(initial=0.0)  # of what is known
        if (size[:, :n] > (1.0 + loose) * most + loose * largest).any():
            raise WireError("the slopes of its cuts are steeper than its columns allow")
    elif first.about is not None:
        # A guard tells the size of a feature as a power of 2.
        rms = np.sqrt(n * max(float(first.about[1]), 0.0) * (4.0 if first.guarded else 1.0))
        length = np.linalg.norm(size[:, :n], axis=1)
        if (length > (1.0 + loose) * lip * (rms + np.sqrt(n) * limits.move) + SLACK).any():
            raise WireError("the slopes of its cuts are steeper than the features it told of allow")


def require_sizes(first: CutReply, limits: Limits) -> None:
    """The size of a feature that a client tells, against that of its columns."""
    assert first.about is not None
    if limits.columns is None or not len(limits.columns):
        return
    most = float(np.mean(limits.columns**2)) * (2.0 if first.guarded else 1.0 + SLACK)
    if float(first.about[1]) > most + DIGITS:
        raise WireError("its features are larger than its columns")


def require_consistent(
    reply: CutReply, s: int, asked: CutRequest, first: CutReply, limits: Limits, points: Points
) -> None:
    """Refuse a reply that contradicts itself or what is known of the client."""
    server = points.server
    here = [
        (x, float(value), server.multiplier(s, x) if given is None else given)
        for x, value, given in zip(asked.points, reply.values, reply.multipliers, strict=True)
    ]
    for k, (x, value, multiplier) in enumerate(here):
        if is_below(value, points.model_of(s, x, multiplier)):
            raise WireError("its value is below its own earlier cuts")
        cut = _cut_values(reply, s, x, multiplier, points)[k]
        if not first.guarded and is_below(cut, value, _largest_term(reply, k, x)):
            raise WireError("its value is above its own cut")
    known = [
        (point.x, float(point.values[s]), float(point.multipliers[s]))
        for point in points.at.values()
        if not np.isnan(point.values[s])
    ]
    if limits.at_zero is not None:
        known.append((np.zeros(reply.dimension), limits.at_zero, limits.multiplier_at_zero))
    for x, value, multiplier in (*here, *known):
        for k, least in enumerate(_cut_values(reply, s, x, multiplier, points)):
            if is_below(value, least, _largest_term(reply, k, x)):
                raise WireError("its cuts are above its own values")
    if server.priced and not server.is_shared:
        for x, value, multiplier in here:
            _require_multiplier(multiplier, value, x, s, server)


def _require_multiplier(
    given: float, value: float, x: Array, s: int, server: ServerProblem
) -> None:
    least = 0.0 if server.kind == "box" else server.multiplier(s, x)
    if is_below(given, least) or is_below(value, float(server.rho[s]) * given):
        raise WireError("its multiplier is below the norm of w, or costs more than its loss")


def require_constants(
    constants: Array, slopes: Array, value: float, s: int, limits: Limits, points: Points
) -> None:
    """Refuse constants (P,) of minorants with given slopes (P, d) that cannot be.

    ``value`` is what the client told of the best point.
    """
    server, best = points.server, points.at[points.best]
    if is_below(value, points.model_of(s, best.x, float(best.multipliers[s]))):
        raise WireError("its value is below its own earlier cuts")
    known = [(best.x, value, float(best.multipliers[s]))]
    if limits.at_zero is not None:
        known.append((np.zeros(len(best.x)), limits.at_zero, limits.multiplier_at_zero))
    for x, most, multiplier in known:
        priced = float(server.rho[s]) * multiplier if server.priced else 0.0
        if any(is_below(most, priced + c) for c in constants + slopes @ x):
            raise WireError("its constants are above its own values")


def _largest_term(reply: CutReply, k: int, x: Array) -> float:
    """What the rounding of the k-th cut at x is relative to."""
    if k >= len(reply.rows):
        others = [a for a in (reply.dual, reply.sides) if a is not None]
        return max(float((np.abs(a[..., 1:]) @ np.abs(x)).max()) for a in others)
    g = np.abs(reply.rows[k, :, -reply.dimension :])
    return float((g @ np.abs(x)).max())


def _cut_values(
    reply: CutReply, s: int, x: Array, multiplier: float, points: Points
) -> Sequence[float]:
    """What the new cuts say of F at x: those of every point, and the dual ones."""
    pool, half = points.pool, points.server.half[s]
    priced = points.server.rho[s] * multiplier if points.server.priced else 0.0
    share = reply.masses(pool, s)
    values = list(np.maximum(reply.at(x, multiplier, half), 0.0) @ share)
    if reply.dual is not None:
        values.append(reply.dual[0] + reply.dual[1:] @ x)
    if reply.sides is not None:
        values.append(np.maximum(reply.sides[:, 0] + reply.sides[:, 1:] @ x, 0.0).sum())
    return [priced + float(value) for value in values]
