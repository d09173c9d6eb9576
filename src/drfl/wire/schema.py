"""What a message must hold, as data: the method that sends it declares it once for both ends.

Symmetric matrices travel as their lower triangle, row by row, in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.wire.message import DTYPES, Message, WireError


@dataclass(frozen=True)
class Field:
    """What one array of a message must be.

    Attributes
    ----------
    dtype : str
        "float64", "float32", "float16", "int64" or "uint8".
    shape : tuple
        One entry per axis: a length, the symbol of a length ("n", "d", ...), or None for any.
    finite : bool
        Whether NaN and infinity are refused.
    optional : bool
        Whether the array may be missing.
    """

    dtype: str
    shape: tuple[int | str | None, ...] = ()
    finite: bool = True
    optional: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"a field is one of {', '.join(DTYPES)}, not {self.dtype!r}")


Schema = Mapping[str, Field]


def validate(
    message: Message, kind: str, round: int | None, schema: Schema, sizes: Mapping[str, int]
) -> dict[str, int]:
    """Refuse a message that is not of this kind, this round and this form.

    Parameters
    ----------
    message : Message
        What came.
    kind : str
        What was expected; the answer to "evaluate" is "evaluate/reply".
    round : int or None
        The round expected; None: any.
    schema : mapping of str to Field
        The arrays it must hold, no others.
    sizes : mapping of str to int
        The lengths of the symbols. A symbol that is not among them takes the first length it
        meets and must keep it.

    Returns
    -------
    dict
        ``sizes`` and the lengths that the other symbols took.

    Examples
    --------
    >>> reply = Message("evaluate/reply", 0, {"value": np.array(0.5), "gradient": np.ones(2)})
    >>> schema = {"value": Field("float64"), "gradient": Field("float64", ("n",))}
    >>> validate(reply, "evaluate/reply", 0, schema, {})
    {'n': 2}
    """
    if message.kind != kind:
        raise WireError(f"expected a message of kind {kind!r}, got {message.kind!r}")
    if round is not None and message.round != round:
        raise WireError(f"expected a message of round {round}, got one of round {message.round}")
    return validate_arrays(message.arrays, schema, sizes)


def validate_arrays(
    arrays: Mapping[str, NDArray[Any]], schema: Schema, sizes: Mapping[str, int]
) -> dict[str, int]:
    """Like `validate`, of the arrays alone."""
    for name in arrays:
        if name not in schema:
            raise WireError(f"array {name!r} was not expected")
    bound = dict(sizes)
    for name, field in schema.items():
        if name in arrays:
            _check_array(name, arrays[name], field, bound)
        elif not field.optional:
            raise WireError(f"array {name!r} is missing")
    return bound


def _check_array(name: str, array: NDArray[Any], field: Field, sizes: dict[str, int]) -> None:
    """Check one array; symbols that are not known yet enter ``sizes``."""
    if array.dtype != DTYPES[field.dtype]:
        raise WireError(f"array {name!r} must be {field.dtype}, got {array.dtype.name}")
    if array.ndim == len(field.shape):
        for length, symbol in zip(array.shape, field.shape, strict=True):
            if isinstance(symbol, str):
                sizes.setdefault(symbol, length)
    # A symbol may still be unknown where the number of axes is wrong: then its name is shown.
    lengths = [sizes.get(s, s) if isinstance(s, str) else s for s in field.shape]
    if array.ndim != len(lengths) or any(
        wanted not in (None, length) for wanted, length in zip(lengths, array.shape, strict=True)
    ):
        shown = ", ".join("any" if wanted is None else str(wanted) for wanted in lengths)
        raise WireError(f"array {name!r} must have shape ({shown}), got {array.shape}")
    if field.finite and not np.isfinite(array).all():
        raise WireError(f"array {name!r} has NaN or infinite entries")


INDEFINITE = 1e-4  # relative: what float32 may do to a positive semidefinite matrix
LEAST = float(np.finfo(np.float32).smallest_subnormal)  # and to an entry that is nearly 0


def triangle_of(H: Array) -> Array:
    """The lower triangle, row after row."""
    return np.concatenate([row[: i + 1] for i, row in enumerate(H)])


def as_lower(triangle: NDArray[np.floating], dimension: int) -> Array:
    """The lower triangular matrix of a triangle, which is the last axis."""
    L = np.zeros((*triangle.shape[:-1], dimension, dimension))
    first = 0
    for i in range(dimension):
        L[..., i, : i + 1] = triangle[..., first : first + i + 1]
        first += i + 1
    return L


def pack_triangle(H: Array) -> NDArray[np.float32]:
    """The lower triangle in float32: accurate enough for Newton steps."""
    return triangle_of(H).astype(np.float32)


def unpack_triangle(triangle: NDArray[np.floating], dimension: int) -> Array:
    """H from its triangle, the last axis."""
    L = as_lower(triangle, dimension)
    H, i = L + np.swapaxes(L, -1, -2), np.arange(dimension)
    H[..., i, i] = L[..., i, i]
    return H


def require_semidefinite(H: Array) -> None:
    """Anything semidefinite is a valid metric; anything else would lead the steps uphill."""
    if not semidefinite(H[None]).all():
        raise WireError("its curvature is not positive semidefinite")


def semidefinite(H: Array) -> NDArray[np.bool_]:
    """Which of the matrices (m, d, d) are positive semidefinite, up to what float32 may do."""
    largest = np.diagonal(H, axis1=-2, axis2=-1).max(axis=-1, initial=0.0)
    room = INDEFINITE * largest + LEAST * H.shape[-1]
    shifted = H + room[:, None, None] * np.eye(H.shape[-1])
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        if len(H) > 1:
            return np.concatenate([semidefinite(one[None]) for one in H])
        return np.zeros(1, np.bool_)
    return np.ones(len(H), np.bool_)
