"""What users pass as data, checked and turned into arrays without a copy where possible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from drfl.arrays import Array
from drfl.rows.parts import is_sparse


def feature_names(X: Any) -> tuple[str, ...] | None:
    """Column names of a DataFrame, or None."""
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(str(c) for c in columns)


def numbers(name: str, values: Any) -> Array:
    """Real numbers as float64, not copied if they are; anything else is refused by name."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        raise ValueError(f"{name} is not an array: its rows have different lengths") from None
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} has entries that are not numbers: code them as numbers first")


def as_matrix(X: Any) -> Any:
    """X as a dense float32 or float64 array or as CSR, not copied if it is one."""
    if is_sparse(X):
        csr = sparse.csr_array(X) if X.format == "csr" else sparse.csr_array(X.tocsr())
        if not csr.has_canonical_format:  # an entry that is stored in two parts has one square
            csr = csr.copy()
            csr.sum_duplicates()
        if csr.dtype not in (np.float64, np.float32):
            csr.data = numbers("X", csr.data)
        return csr
    if hasattr(X, "to_numpy"):
        X = _frame_values(X)
    if getattr(X, "dtype", None) != np.float32:
        X = numbers("X", X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features), got shape {X.shape}")
    return np.asarray(X)


def _frame_values(frame: Any) -> Any:
    values = frame.to_numpy()
    if values.dtype == object:
        try:  # pandas.NA is no number; as NaN it is found and named later
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            pass
    return values


def masses_of(weights: ArrayLike | None, n_rows: int) -> tuple[Array | None, float]:
    """The masses (None: all equal) and the total weight of the rows."""
    if weights is None:
        return None, float(n_rows)
    array = numbers("sample_weight", weights)
    if array.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {array.shape}: give one weight per row")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.any()):
        raise ValueError("sample_weight must be finite, nonnegative and not all zero")
    total = float(array.sum())
    return array / total, total


def column_vector(name: str, value: ArrayLike | None, n: int) -> Array | None:
    """One finite number per column, or None."""
    if value is None:
        return None
    array = numbers(name, value)
    if array.shape != (n,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must hold one finite number per column ({n} of them)")
    return array


LARGEST = 1e100
"""Squares of larger numbers, and sums of them, would not be numbers any more."""


def require_finite(parts: Iterable[Any], starts: list[int], names: tuple[str, ...] | None) -> None:
    """Refuse NaN, infinite and huge entries: how many rows, the first few, the first column."""
    found = [_unusable(part) for part in parts]
    rows = [np.unique(at) + start for start, (at, _, _) in zip(starts, found, strict=True)]
    columns = np.concatenate([columns for _, columns, _ in found])
    if len(columns):
        j = int(columns[0])
        where = f"{_rows(np.concatenate(rows))} (column {names[j] if names else j!r} first)"
        what, advice = _what(np.concatenate([values for _, _, values in found]))
        raise ValueError(f"X has {what} in {where}: {advice}")


def surely_usable(X: Any, y: Any) -> bool:
    """Whether these are arrays of rows and targets in which nothing can be wrong: a quick look.

    Where it says no, a careful one may find that all is well, or what is not.
    """
    return (
        type(X) is type(y) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and y.dtype.kind in "biuf"
        and (X.ndim, y.ndim) == (2, 1)
        and len(X) == len(y)
        and X.size > 0
        and _sum_of_squares(X) <= LARGEST
        and (y.dtype.kind != "f" or _sum_of_squares(y) <= LARGEST)
    )


def require_finite_target(y: Array) -> None:
    """The same of y."""
    if _sum_of_squares(y) <= LARGEST:
        return
    bad = np.flatnonzero(~(np.abs(y) <= LARGEST))
    if len(bad):
        what, advice = _what(y[bad])
        raise ValueError(f"y has {what} in {_rows(bad)}: {advice}")


def _what(values: Array) -> tuple[str, str]:
    """What is wrong with values, and what to do."""
    if np.isfinite(values).all():
        return f"numbers beyond {LARGEST:g}, which cannot be squared,", "correct them"
    return "NaN or infinite values", "drop or fill them"


def _unusable(part: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Rows, columns and values of NaN, infinite and huge entries."""
    values = part.data if is_sparse(part) else part
    nothing = np.zeros(0, dtype=np.intp)
    # The slow look runs only on a suspicion: a NaN, or a sum of squares that is too large.
    if not values.size or _sum_of_squares(values) <= LARGEST:
        return nothing, nothing, np.zeros(0)
    if max(float(values.max()), -float(values.min())) <= LARGEST:
        return nothing, nothing, np.zeros(0)
    bad = ~(np.abs(values.astype(np.float64)) <= LARGEST)
    if not is_sparse(part):
        rows, columns = np.nonzero(bad)
        return rows, columns, np.asarray(part[bad], dtype=np.float64)
    at = np.flatnonzero(bad)
    rows = np.searchsorted(part.indptr, at, side="right") - 1
    return rows, part.indices[at], np.asarray(values[at], dtype=np.float64)


def _sum_of_squares(values: Any) -> float:
    """Of all entries; infinite where it would take a copy."""
    if not (values.flags.c_contiguous or values.flags.f_contiguous):
        return np.inf
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        return float(flat @ flat)


def _rows(rows: NDArray[np.intp]) -> str:
    first = ", ".join(str(r) for r in rows[:3])
    return f"row {first}" if len(rows) == 1 else f"{len(rows)} rows (first: {first})"
