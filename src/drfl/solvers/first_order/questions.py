"""What the server asks and a client answers, their form, and what cannot be true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.limits import LARGEST, SLACK, Limits, is_below
from drfl.wire import Field, Message, WireError, reply_kind, validate
from drfl.wire.schema import require_semidefinite, unpack_triangle

KIND = "first_order"

# All slopes of a client are also told lowered by these factors: what they prove then, by one
# number each. Between two of them the proof mixes.
FACTORS = 1.0 - np.array([0.0, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3])

REQUEST = {
    "x": Field("float64", (None,), optional=True),  # the point, or some of its entries; none: 0
    "at": Field("int64", (None,), optional=True),  # which entries; the others are 0
    "plan": Field("uint8", (1,)),  # 1: introduce yourself
    "columns": Field("int64", ("k",), optional=True),  # curvature of these is wanted
}
REPLY = {
    "value": Field("float64"),  # the mean loss
    "slope": Field("float64", ("d",)),  # its gradient
    "fan": Field("float64", (len(FACTORS),)),  # constants of the cuts with slope * FACTORS
    "diagonal": Field("float32", ("d",), optional=True),  # of the second derivative
    "hess": Field("float32", (None,), optional=True),  # of the columns and the intercept, packed
    "halves": Field("float64", (2, None), optional=True),  # see `GradientReply`
    "total": Field("float64", optional=True),  # the weight of the rows
}


@dataclass(frozen=True)
class GradientRequest:
    """A point to evaluate."""

    x: Array  # (d,), the point
    # (k,), the columns whose second derivatives are wanted
    columns: NDArray[np.int64] | None = None
    # Whether the client is to tell the weight of its rows, the diagonal of the second
    # derivative, and the two halves of its slope
    introduction: bool = False
    # Whether these are all columns at work: the server's own note, which does not travel
    whole: bool = False

    def message(self, round: int) -> Message:
        """The message; a point with few entries names them."""
        arrays: dict[str, NDArray[Any]] = {"plan": np.array([self.introduction], dtype=np.uint8)}
        at = np.flatnonzero(self.x)
        if 0 < 2 * len(at) < len(self.x):
            arrays |= {"at": at.astype(np.int64), "x": self.x[at]}
        elif len(at):
            arrays["x"] = self.x
        if self.columns is not None:
            arrays["columns"] = self.columns
        return Message(KIND, round, arrays)

    @classmethod
    def read(cls, message: Message, dimension: int, n_features: int) -> GradientRequest:
        """What a message asks for; its form has been validated."""
        arrays, x = message.arrays, np.zeros(dimension)
        values = arrays.get("x", x)
        if "at" in arrays:
            x[_places("at", arrays["at"], dimension, len(values))] = values
        elif len(values) != dimension:
            raise WireError(f"a point of {len(values)} numbers does not fit {dimension}")
        else:
            x = np.array(values)
        columns = arrays.get("columns")
        if columns is not None:
            columns = _places("columns", columns, n_features, len(columns))
        return cls(x, columns, bool(arrays["plan"][0]))


@dataclass(frozen=True)
class GradientReply:
    r"""A validated reply.

    Attributes
    ----------
    value, slope : float, (d,)
        The mean loss and its gradient.
    fan : (K,)
        c_k: for all x the mean loss is at least :math:`c_k+\phi_k\,\mathrm{slope}^\top x`.
    diagonal : (d,) or None
        Of the second derivative.
    hess : (k + 1, k + 1) or None
        Second derivatives of the columns asked for, then of the intercept if there is one.
    halves : (2, 1 + d) or None
        Constants and slopes of two minorants: of the rows whose slope leans to one side, and of
        the others. Their slopes in b have different signs.
    total : float
        The weight of the rows; 0: not told.
    """

    value: float
    slope: Array
    fan: Array
    diagonal: Array | None = None
    hess: Array | None = None
    halves: Array | None = None
    total: float = 0.0


@dataclass(frozen=True)
class Heard:
    """What a client said of a point before: its mean loss there, and the gradient."""

    x: Array
    value: float
    slope: Array


def read_reply(
    message: Message,
    round: int,
    asked: GradientRequest,
    limits: Limits,
    heard: list[Heard],
    *,
    intercept: bool,
) -> GradientReply:
    """The reply, or the reason why it cannot be true, or not together with what was heard."""
    d = len(asked.x)
    validate(message, reply_kind(KIND), round, REPLY, {"d": d})
    arrays = message.arrays
    wanted = {"columns": asked.columns is not None, "introduction": asked.introduction}
    for name, why in {"hess": "columns", "halves": "introduction", "total": "introduction"}.items():
        if name in arrays and not wanted[why]:
            raise WireError(f"array {name!r} was not asked for")
    value, slope, fan = float(arrays["value"]), arrays["slope"], arrays["fan"]
    _require_possible(value, slope, fan, asked.x, limits)
    _require_sizes(slope, limits, intercept=intercept)
    for before in heard:
        _require_consistent(value, slope, fan, asked.x, before)
    halves, total = arrays.get("halves"), float(arrays.get("total", np.zeros(())))
    if asked.introduction:
        if not total > 0.0:
            raise WireError("it does not say how many rows it has")
        if halves is not None:
            _require_halves(halves, value, d)
            for half in halves:
                _require_sizes(half[1:], limits, intercept=intercept)
    diagonal = arrays.get("diagonal")
    if diagonal is not None:
        diagonal = diagonal.astype(np.float64)
        if (diagonal < 0.0).any() or (diagonal > LARGEST).any():
            raise WireError("its curvature is not positive semidefinite")
    hess = arrays.get("hess")
    if hess is not None:
        assert asked.columns is not None
        size = len(asked.columns) + intercept
        if len(hess) != size * (size + 1) // 2:
            raise WireError(f"curvature of {len(hess)} numbers does not fit {size} columns")
        hess = unpack_triangle(hess, size)
        require_semidefinite(hess)
    return GradientReply(value, slope, fan, diagonal, hess, halves, total)


TOUCH, TINY = 1e-9, 1e-12  # how much above a value a cut may be, by rounding


def _require_possible(value: float, slope: Array, fan: Array, x: Array, limits: Limits) -> None:
    """Refuse what no rows could give: a loss is not negative, and its slope touches it."""
    if not 0.0 <= value <= LARGEST or (np.abs(slope) > LARGEST).any():
        raise WireError("a value or a slope that cannot be")
    known = limits.at_zero
    if known is not None and not x.any() and (is_below(value, known) or is_below(known, value)):
        raise WireError(f"its value at w = 0 is {value:.6g}, and everybody's is {known:.6g}")
    along, terms = float(slope @ x), float(np.abs(slope) @ np.abs(x))
    if (fan + FACTORS * along > value + TOUCH * (value + abs(along)) + TINY).any():
        raise WireError("a cut above its own value")
    if is_below(float(fan[0]) + along, value, terms):
        raise WireError("its value is above its own cut")
    if known is not None and is_below(known, float(fan.max())):
        raise WireError("its cuts are above its own values")


def _require_sizes(slope: Array, limits: Limits, *, intercept: bool) -> None:
    """No mean slope is steeper than the loss times its column."""
    n, size, steepest = len(slope) - intercept, np.abs(slope), limits.lipschitz
    if intercept and size[n] > steepest * (1.0 + TOUCH):
        raise WireError("a slope in the intercept that is steeper than the loss")
    if limits.columns is not None:
        most = steepest * limits.columns
        if (size[:n] > (1.0 + SLACK) * most + SLACK * float(most.max(initial=0.0))).any():
            raise WireError("its slopes are steeper than its columns allow")


def _require_consistent(value: float, slope: Array, fan: Array, x: Array, before: Heard) -> None:
    """A loss is above all its tangents: the new ones at an old point, and the old one here."""
    way, far = before.x, x - before.x
    terms = float(np.abs(slope) @ np.abs(way))
    if is_below(before.value, float((fan + FACTORS * float(slope @ way)).max()), terms):
        raise WireError("its cuts are above its own values")
    least = before.value + float(before.slope @ far)
    if is_below(value, least, float(np.abs(before.slope) @ np.abs(far))):
        raise WireError("its value is below its own earlier cuts")


def _require_halves(halves: Array, value: float, dimension: int) -> None:
    if halves.shape[1] != dimension + 1 or (np.abs(halves) > LARGEST).any():
        raise WireError("halves of a slope that cannot be")
    if (halves[:, 0] > value * (1 + TOUCH) + TINY).any():
        raise WireError("a half of its slope is above its value")


def _places(name: str, places: NDArray[np.int64], size: int, count: int) -> NDArray[np.int64]:
    """Ascending places within so many."""
    inside = len(places) == count and (places >= 0).all() and (places < size).all()
    if not inside or (np.diff(places) <= 0).any():
        raise WireError(f"array {name!r} does not name places in ascending order")
    return places
