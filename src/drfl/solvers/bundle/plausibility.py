r"""Reading a reply: is it of the right form, and can it be true?

A client's cuts bound its F from below everywhere. A value below its own earlier cuts, or a cut
above one of its values, here or at a point points before, proves that something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.client_half.curvature import unpack_factor, unpack_sketch
from drfl.solvers.bundle.client_half.joint import of_pairs, packed_length, unpack_pairs
from drfl.solvers.bundle.messages import KIND, MOST_MENDS, REPLY, CutRequest, PathModel, PathRequest
from drfl.solvers.bundle.points import Points
from drfl.solvers.bundle.stacks import Mask, Stack, stacked
from drfl.solvers.certificate.anchors import AnchorBox
from drfl.solvers.certificate.server import ServerProblem
from drfl.solvers.limits import DIGITS, LARGEST, SLACK, Limits, are_below, is_below
from drfl.wire import Message, WireError, reply_kind, validate
from drfl.wire.schema import semidefinite, unpack_triangle

COARSE = 1e-2  # what the rounding of a guard may add to a slope, relative to the largest
ROUNDING = 1e-9  # of shares, which add up to 1
NO_VALUES = "its values are not F and, perhaps, a nonnegative multiplier"
NO_ROWS = "it does not say how many rows it has"
FORM = {name: replace(field, finite=False) for name, field in REPLY.items()}
CURVATURE = "factor", "hess", "bend", "sketch"  # the forms it comes in

Arrays = Mapping[str, NDArray[Any]]


def read_reply(
    message: Message,
    client: int,
    round: int,
    asked: CutRequest,
    lifted: int,
    limits: Limits,
    first: Stack | None = None,
) -> Stack:
    """Validate one client's reply and unpack it; ``first`` was its introduction, None: this is."""
    about, guarded = (None, False) if first is None else (first.arrays["about"], first.guarded)
    stack = read_form([message], [client], round, asked, lifted, [limits], about, guarded=guarded)
    stack = read_numbers(stack, 0)
    stack.require()
    return stack


def read_form(
    messages: Sequence[Message],
    clients: Sequence[int],
    round: int,
    asked: CutRequest,
    lifted: int,
    limits: Sequence[Limits],
    about: Array | None = None,
    *,
    guarded: bool = False,
) -> Stack:
    """Replies with the same header to the same request, if that is the form they should have.

    ``lifted`` numbers of a cut belong to a clipped model; ``about`` (m, 2) is what they said of
    themselves before, and ``guarded`` whether guards answered then.
    """
    sizes = {"P": len(asked.points), "d": asked.points.shape[1]}
    split, classes = limits[0].split, limits[0].classes
    if classes is not None:
        sizes["C"] = classes
    arrays = messages[0].arrays
    found = validate(messages[0], reply_kind(KIND), round, FORM, sizes)
    d, parts = found["d"], 2 if split and found["G"] > 1 else 1  # a strict client does not split
    if found["G"] not in (parts, parts * asked.groups):
        raise WireError(f"cuts of {found['G']} pieces were not asked for")
    if not 0 <= found["c"] - 1 - d - lifted <= 1:
        raise WireError(f"cuts of {found['c']} numbers do not fit {d} coefficients")
    if arrays["value"].shape[1] not in (1, 2):
        raise WireError(NO_VALUES)
    require_asked(arrays, asked)
    _require_form_of_shares(arrays.get("share"), found["G"] // parts, asked)
    if "dual" in arrays and len(arrays["dual"]) != d + 1:
        raise WireError(f"a dual cut of {len(arrays['dual'])} numbers does not fit")
    _require_form_of_path(arrays, asked.path, d)
    if "reach" in arrays and "bend" not in arrays:
        raise WireError("how far curvature reaches goes with its digits")
    if asked.introduction and "about" not in arrays:
        raise WireError(NO_ROWS)
    _require_form_of_curvature(arrays, d, classes)
    every = stacked(message.arrays for message in messages)
    guarded = "guard" in arrays if about is None else guarded
    return Stack(np.array(clients), asked, every, limits, about, guarded, lifted, parts)


def read_numbers(stack: Stack, intercepts: int) -> Stack:
    """Refuse numbers that cannot be; those that are left, with their curvature."""
    for name, array in stack.arrays.items():
        top = np.abs(array).reshape(len(stack), -1).max(axis=1, initial=0.0).astype(np.float64)
        stack.refuse(~np.isfinite(top), f"array {name!r} has NaN or infinite entries")
        stack.refuse(top > LARGEST, f"array {name!r} has numbers beyond {LARGEST:g}")
    stack = stack.left()
    if not len(stack):
        return stack
    arrays = stack.arrays
    stack.refuse((arrays["value"][:, :, 1:] < 0.0).any(axis=(1, 2)), NO_VALUES)
    if "share" in arrays:
        stack.refuse(~_are_shares(arrays["share"]), "the masses of its groups are not shares of 1")
    if "path" in arrays:
        products, clipped = arrays["path"][:, 0, -1], arrays["path"][:, 1, -1]
        bad = ~((products > 0.0) & (clipped >= 0.0) & (clipped <= 1.0))
        stack.refuse(bad, "the products of its rows on the path cannot be")
    if stack.asked.introduction:
        stack.refuse(~(arrays["about"][:, 0] > 0.0), NO_ROWS)
    if "reach" in arrays:
        radii, factors = arrays["reach"][..., 0], arrays["reach"][..., 1]
        good = (radii >= 0.0) & (factors >= 0.0) & (factors <= 1.0)
        stack.refuse(~good.all(axis=1), "how far its curvature reaches cannot be")
    return replace(stack, curvature=_read_curvature(stack, intercepts)).left()


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
        "bend": asked.path is not None or asked.reach > 0.0,
        "reach": asked.reach > 0.0,
        "sides": asked.path is not None and asked.path.tilt is not None,
        "room": asked.path is not None and asked.path.tilt is not None,
        "mended": asked.path is not None and bool(asked.path.mends),
    }
    for name, is_wanted in wanted.items():
        if name in arrays and not is_wanted:
            raise WireError(f"array {name!r} was not asked for")


def _require_form_of_path(arrays: Arrays, asked: PathRequest | None, d: int) -> None:
    """The model of a step along the path goes with curvature."""
    sides = [arrays[name] for name in ("sides", "mended") if name in arrays]
    if any(cuts.shape[1] != 1 + d for cuts in sides):
        raise WireError(f"cuts of sides do not fit {d} coefficients")
    sizes, told = range(2, 2 * (1 if asked is None else asked.groups) + 1, 2), arrays.get("sides")
    if told is not None and len(told) not in sizes:
        raise WireError(f"cuts of sides are two for each of at most {len(sizes)} groups")
    earlier = 0
    if "mended" in arrays:
        most = 0 if asked is None else len(asked.mends)
        earlier = 0 if told is None else len(arrays["mended"]) // len(told)
        if told is None or len(arrays["mended"]) != earlier * len(told) or not 1 <= earlier <= most:
            raise WireError(f"all cuts of sides are mended, or none, up to {most} times")
    if "room" in arrays and told is None:
        raise WireError("the room of slopes goes with the cuts that they make")
    if "room" in arrays and arrays["room"].shape != (
        min(1 + earlier, MOST_MENDS),
        d * (d + 1) // 2,
    ):
        raise WireError(f"the room of slopes does not fit {d} coefficients")
    if "path" not in arrays:
        if sides:
            raise WireError("cuts of sides go with a model of the path")
    elif arrays["path"].shape[1] != 2 + d or "bend" not in arrays:
        raise WireError(f"a model of the path does not fit {d} coefficients, or has no curvature")


def path_models(stack: Stack) -> dict[int, PathModel]:
    """By client what each tells of its rows on the path."""
    if "path" not in stack.arrays:
        return {}
    return {s: _path_of(stack, i) for i, s in enumerate(stack.clients.tolist())}


def _path_of(stack: Stack, i: int) -> PathModel:
    """What client i of a stack tells of its rows on the path."""
    arrays, asked = stack.arrays, stack.asked
    path, x = np.asarray(arrays["path"][i]), asked.points[0]
    products, clipped = (float(number) for number in path[:, -1])
    model = PathModel(x, path[:, :-1], products, clipped, identity=asked.identities[0])
    if "room" not in arrays:
        return model
    rooms = unpack_triangle(arrays["room"][i].astype(np.float64), len(x))
    slopes = [sides[i, :, 1:].sum(axis=0) for sides in stack.sides]
    return replace(model, proofs=tuple(zip(slopes, rooms, strict=False)))


def _require_form_of_shares(share: Array | None, groups: int, asked: CutRequest) -> None:
    if asked.shares and groups > 1 and share is None:
        raise WireError("the masses of its groups are missing")
    if share is not None and len(share) != groups:
        raise WireError(f"{len(share)} masses of {groups} groups")


def _are_shares(share: Array) -> Mask:
    """Whether masses (m, G) are shares of 1: too large ones would be a false lower bound."""
    return np.asarray((share >= 0.0).all(axis=1) & (np.abs(share.sum(axis=1) - 1.0) <= ROUNDING))


def _require_form_of_curvature(arrays: Arrays, d: int, classes: int | None) -> None:
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


def _read_curvature(stack: Stack, intercepts: int) -> Array | None:
    """Symmetric positive semidefinite matrices, as many as were asked for or none."""
    arrays, asked = stack.arrays, stack.asked
    wanted = sum(asked.curvature) + ("path" in arrays)
    if "sketch" in arrays:
        negative = (arrays["sketch"][..., -1:] < 0.0).any(axis=(1, 2, 3))
        stack.refuse(negative, "its sketch of curvature has a negative diagonal")
    names = ("hess",) if stack.limits[0].classes is not None else CURVATURE
    count = sum(arrays[name].shape[1] for name in names if name in arrays)
    if count not in (0, wanted):
        stack.refuse(np.True_, f"curvature at {count} points instead of {wanted}")
        return None
    found = [_unpacked(stack, name, intercepts) for name in names if name in arrays]
    return np.concatenate(found, axis=1) if found else None


def _unpacked(stack: Stack, name: str, intercepts: int) -> Array:
    """Curvature in one of its forms (m, h, d, d)."""
    packed, d = stack.arrays[name], stack.dimension
    if name == "factor":
        return unpack_factor(packed, stack.arrays["scale"])
    if name == "sketch":
        return np.array([[unpack_sketch(sketch) for sketch in own] for own in packed])
    classes = stack.limits[0].classes
    if classes is None:
        H = unpack_triangle(packed, d)
        _require_semidefinite(stack, H)
        return H
    pairs = unpack_pairs(packed, classes, d)
    for A in pairs:
        _require_semidefinite(stack, A)
    every = (m, h) = packed.shape[:2]
    mixed = [
        of_pairs([A[i, k] for A in pairs], classes, d - intercepts) for i, k in np.ndindex(m, h)
    ]
    return np.array(mixed).reshape(*every, d, d)


def _require_semidefinite(stack: Stack, H: Array) -> None:
    good = semidefinite(H.reshape(-1, *H.shape[2:])).reshape(H.shape[:2]).all(axis=1)
    stack.refuse(~good, "its curvature is not positive semidefinite")


def require_facts(stack: Stack, box: AnchorBox | None) -> None:
    """The anchors of a support are made of what clients tell in their first answer."""
    facts = stack.arrays.get("facts")
    columns, wanted = 0 if facts is None else facts.shape[2], 0
    if box is not None:
        wanted = len(box.middle) + 1
    if columns != wanted:
        stack.refuse(np.True_, f"{columns} columns of facts about its support, not {wanted}")
    elif facts is not None:
        share, distance = facts[:, :2, 0], facts[:, 2, 0]
        good = (share >= 0.0).all(axis=1) & (share.sum(axis=1) <= 1.0 + 1e-9) & (distance >= 0.0)
        stack.refuse(~good, "shares of classes or a distance that cannot be")


def require_classes(stack: Stack, columns: int) -> None:
    """Shares and mean rows of the classes, which bound their intercepts."""
    told, wanted = stack.arrays.get("classes"), stack.limits[0].classes is not None
    if (told is not None) != wanted or (told is not None and told.shape[2] != columns + 1):
        stack.refuse(np.True_, "the shares and means of its classes do not fit the problem")
        return
    if told is None:
        return
    share, means = told[:, :, 0], told[:, :, 1:]
    stack.refuse(~_are_shares(share), "the shares of its classes are not shares of 1")
    sizes = _columns(stack)
    if sizes is not None:
        # A share of the rows cannot have a larger sum than all of them allow.
        most = np.sqrt(np.maximum(share, 0.0))[:, :, None] * sizes[:, None, :columns]
        bad = (share[:, :, None] * np.abs(means) > (1.0 + SLACK) * most + SLACK).any(axis=(1, 2))
        stack.refuse(bad, "the means of its classes are larger than its columns allow")


# ---------------------------------------------------------------------- can it be true?
def require_possible(stack: Stack, points: Points) -> None:
    """Refuse what no rows could give."""
    at_zero = _numbers(limits.at_zero for limits in stack.limits)
    for x, values in zip(stack.asked.points, stack.values.T, strict=True):
        if not x.any():
            _require_value_at_zero(stack, values, at_zero)
    _require_slopes(stack, points)
    if stack.about is None:
        _require_sizes(stack)


def _numbers(numbers: Iterable[float | None]) -> Array:
    """One for every client; NaN: it is not known, and nothing is below or above it."""
    return np.array([np.nan if number is None else number for number in numbers])


def _columns(stack: Stack) -> Array | None:
    """The root mean squares of the clients' columns (m, n): those of all are known, or none's."""
    known = [limits.columns for limits in stack.limits]
    return None if any(sizes is None for sizes in known) else np.array(known, dtype=np.float64)


def _require_value_at_zero(stack: Stack, values: Array, known: Array) -> None:
    """A guard rounds up, by a factor of 3 at most."""
    most = 4.0 * known + 1.0 if stack.guarded else known
    stack.refuse(
        are_below(values, known) | are_below(most, values),
        lambda i: f"its value at w = 0 is {values[i]:.6g}, and everybody's is {known[i]:.6g}",
    )


def _require_slopes(stack: Stack, points: Points) -> None:
    """Bounds of the slopes in x and in the multiplier, of all cuts and of a dual cut."""
    server, share, lip = points.server, stack.masses(points.pool), stack.limits[0].lipschitz
    n, d, loose = server.n, stack.dimension, COARSE if stack.guarded else SLACK
    arrays, cost = stack.arrays, np.array([limits.label_cost for limits in stack.limits])
    slopes = stack.rows[..., -d:]
    if stack.parts > 1:  # a row's loss and what its flip adds are together no steeper than the loss
        groups = share.shape[1] // stack.parts
        slopes, share = slopes[:, :, :groups] + slopes[:, :, groups:], share[:, :groups]
    slopes = np.abs(slopes)
    if stack.lifted:  # far from the origin a clipped model is the model
        lift = stack.rows[..., 1 + stack.slopes :][..., : stack.lifted]
        slopes[..., :n] = np.abs(stack.rows[..., -d:][..., :n] + lift[..., :n])
        half = server.half[stack.clients]
        room = (1.0 + loose) * lip * np.column_stack([half, np.ones(len(stack))]) + loose
        bad = (np.abs(lift) > room[:, None, None]).any(axis=(1, 2, 3))
        bad |= (lift[..., n] < -loose).any(axis=(1, 2))
        stack.refuse(bad, "the slopes of its cuts in the clipped model cannot be")
    if "dual" in arrays:
        _require_means(stack, np.abs(arrays["dual"][:, None, 1:]), server)
    for sides in stack.sides:
        _require_means(stack, _sizes_of_sides(stack, sides[:, :, 1:]), server)
    if stack.slopes:
        _require_flips(stack, -stack.rows[..., 1], cost, loose)
    if server.is_shared:
        stay = np.array([not np.any(limits.move) for limits in stack.limits])
        _require_flips(stack, -stack.rows[..., -1], np.where(stay, cost, LARGEST), loose)
    _require_means(stack, (share[:, None, :, None] * slopes).sum(axis=2), server)


def _sizes_of_sides(stack: Stack, slopes: Array) -> Array:
    """Sizes (m, P, d) of slopes (m, 2 G, d), each of which is a mean of slopes of the loss.

    The sum of both sides: of sizes where a row is on one side only. Otherwise a proof may have
    slopes of the same row on both, which are no steeper than the loss together, nor on one side.
    """
    sizes = np.abs(slopes)
    if stack.limits[0].one_sided:
        return np.asarray(sizes.sum(axis=1)[:, None])
    falls, rises = np.split(sizes, 2, axis=1)
    return np.stack([np.abs(slopes.sum(axis=1)), falls.sum(axis=1), rises.sum(axis=1)], axis=1)


def _require_flips(stack: Stack, mass: Array, label_cost: Array, loose: float) -> None:
    """A slope in the multiplier is the label cost times the mass that is flipped."""
    most = np.where(np.isfinite(label_cost), label_cost, 0.0)
    least, top = mass.min(axis=(1, 2)), mass.max(axis=(1, 2))
    bad = (least < -SLACK) | (top > (1.0 + loose) * most)
    stack.refuse(bad, "the slopes of its cuts in the multiplier cannot be")


def _require_means(stack: Stack, size: Array, server: ServerProblem) -> None:
    """Sizes (m, P, d) of slopes in x, means over the groups, against those of the columns."""
    n, lip, loose = server.n, stack.limits[0].lipschitz, COARSE if stack.guarded else SLACK
    move = np.array([np.broadcast_to(limits.move, n) for limits in stack.limits])
    level = (size[:, :, n : n + server.intercepts] > (1.0 + loose) * lip).any(axis=(1, 2))
    stack.refuse(level, "the slopes of its cuts in the intercept are steeper than the loss")
    columns = _columns(stack)
    if columns is not None:
        most = lip * (columns + move)
        # Of what is known.
        largest = np.where(np.isfinite(most), most, 0.0).max(axis=1, initial=0.0)
        room = (1.0 + loose) * most + loose * largest[:, None]
        steep = (size[:, :, :n] > room[:, None]).any(axis=(1, 2))
        stack.refuse(steep, "the slopes of its cuts are steeper than its columns allow")
    else:
        # A guard tells the size of a feature as a power of 2.
        rms = np.sqrt(n * np.maximum(stack.size, 0.0) * (4.0 if stack.guarded else 1.0))
        most = (1.0 + loose) * lip * (rms + np.linalg.norm(move, axis=1)) + SLACK
        steep = (np.linalg.norm(size[:, :, :n], axis=2) > most[:, None]).any(axis=1)
        stack.refuse(steep, "the slopes of its cuts are steeper than the features it told of allow")


def _require_sizes(stack: Stack) -> None:
    """The size of a feature that a client tells, against that of its columns."""
    columns = _columns(stack)
    if columns is None or not columns.shape[1]:
        return
    most = np.mean(columns**2, axis=1) * (2.0 if stack.guarded else 1.0 + SLACK)
    stack.refuse(stack.size > most + DIGITS, "its features are larger than its columns")


def require_consistent(stack: Stack, points: Points) -> None:
    """Refuse replies that contradict themselves or what is known of their clients."""
    server, clients = points.server, stack.clients
    multipliers = stack.multipliers(server).T
    here = list(zip(stack.asked.points, stack.values.T, multipliers, strict=True))
    for k, (x, values, multiplier) in enumerate(here):
        least = points.model_of(clients, x, multiplier)
        stack.refuse(are_below(values, least), "its value is below its own earlier cuts")
        if not stack.guarded:
            cut = stack.cut_values(x, multiplier, points)[:, k]
            above = are_below(cut, values, stack.largest_terms(x)[:, k])
            stack.refuse(above, "its value is above its own cut")
    told = [(p.x, p.values[clients], p.multipliers[clients]) for p in points.at.values()]
    known = [(x, values, at) for x, values, at in told if not np.isnan(values).all()]
    zero = _numbers(limits.at_zero for limits in stack.limits)
    if not np.isnan(zero).all():
        at = np.array([limits.multiplier_at_zero for limits in stack.limits])
        known.append((np.zeros(stack.dimension), zero, at))
    for x, values, multiplier in (*here, *known):
        least = stack.cut_values(x, multiplier, points)
        too_high = are_below(values[:, None], least, stack.largest_terms(x)).any(axis=1)
        stack.refuse(too_high, "its cuts are above its own values")
    if server.priced and not server.is_shared:
        for x, values, multiplier in here:
            _require_multipliers(stack, multiplier, values, x, server)


def _require_multipliers(
    stack: Stack, given: Array, values: Array, x: Array, server: ServerProblem
) -> None:
    s = stack.clients
    gauge = 0.0 if server.kind == "box" else server.gauge.value(x)
    least = np.zeros(len(s)) if server.kind == "box" else np.maximum(gauge, server.floor[s])
    stack.refuse(
        are_below(given, least) | are_below(values, server.rho[s] * given),
        "its multiplier is below the norm of w, or costs more than its loss",
    )


def require_constants(
    constants: Array, slopes: Array, value: float, s: int, limits: Limits, points: Points
) -> None:
    """Refuse constants (P,) of minorants with given slopes (P, d) that cannot be.

    ``value`` is what the client told of the best point.
    """
    server, best = points.server, points.at[points.best]
    mine = np.array([s])
    if are_below(value, points.model_of(mine, best.x, best.multipliers[mine])).any():
        raise WireError("its value is below its own earlier cuts")
    known = [(best.x, value, float(best.multipliers[s]))]
    if limits.at_zero is not None:
        known.append((np.zeros(len(best.x)), limits.at_zero, limits.multiplier_at_zero))
    for x, most, multiplier in known:
        priced = float(server.rho[s]) * multiplier if server.priced else 0.0
        if any(is_below(most, priced + c) for c in constants + slopes @ x):
            raise WireError("its constants are above its own values")
