r"""Curves under a guard: which knots a client lets its columns be bent at.

An answer about ramps tells sums of the ramps of a column, and with them the sums of every function
that is linear between the knots: of one that is 0 at all rows but one, that row's. Since the sums
of the classes are known, no such function may be 0 at all but fewer than k rows of a class. By the
lemma of `drfl.privacy.leverage` it is not if every row has a leverage of at most 1/k in the span of
1 and the ramps, each row multiplied by some positive number, which changes no zero. And since all
other rows add a whole number of times the same to the ramp of a piece, every piece has k rows of a
class, or none. As of other columns, fewer than k rows may not rule a ramp, nor the difference of
two that is 0 but between three knots.

Other knots of the same column would make other functions: two that are near each other differ by a
function that is 0 at all rows but those between them. So a ledger keeps the first knots of every
column, in the units of the file, and knows no others from then on; some of them are fine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.curves import Curves
from drfl.privacy.columns import ruled
from drfl.privacy.guard import Guard
from drfl.privacy.ledger import Ledger
from drfl.privacy.leverage import MARGIN
from drfl.privacy.refusals import require_columns
from drfl.rows import Rows

SINGULAR = 1e-10
SCALINGS, SLACK = 100, 1e-3  # how often rows are scaled, and by how much more than is needed


def require_ramps(
    rows: Rows, curves: Curves, guard: Guard, ledger: Ledger, names: Sequence[str] | None
) -> None:
    """Refuse curves that tell of fewer than k rows, and knots that the ledger does not know.

    Whether curves are refused tells of the rows, too: each is counted as a reading of them. The
    rows are the client's columns, without ramps; columns without names are called by their numbers.
    """
    k = guard.k
    guard.count_reading(ledger, rows.ramped(curves))
    varied = int((np.ptp(rows.take(slice(None)), axis=0) > 0.0).sum())
    require_columns(rows.n_rows, varied + curves.n_slopes - curves.n, k)
    called = list(names) if names is not None else [str(j) for j in range(curves.n)]
    heavy = [called[j] for j in range(curves.n) if heavy_pieces(rows, curves, j, k).any()]
    if heavy:
        raise ValueError(
            f"the curve of {listed(heavy)} has pieces in which single rows would tell too much "
            f"for a guard of k = {k}: take fewer knots, nearer to the middle, or a line"
        )
    keep_knots(rows, curves, ledger, called)


def require_coarse(rows: Rows, curves: Curves, k: int) -> None:
    """Refuse so many knots that the pieces of a column hold fewer than 2k rows on average."""
    for size in curves.sizes.tolist():
        if 2 * k * size > rows.n_rows:
            raise ValueError(
                f"a curve of {size} pieces is too fine for a guard of k = {k} and {rows.n_rows} "
                "rows: take fewer knots"
            )


def heavy_pieces(rows: Rows, curves: Curves, j: int, k: int) -> NDArray[np.bool_]:
    """In which pieces of a column single rows would tell too much; in none without knots."""
    heavy = np.zeros(int(curves.sizes[j]), dtype=np.bool_)
    if not curves.knots[j]:
        return heavy
    one, x = Curves((curves.knots[j],)), rows.take(slice(None))[:, [j]]
    ramps = one.expand(x)
    hats = one.hats(ramps)
    heavy |= ruled(np.square(ramps - ramps.mean(axis=0)), k)
    for p in np.flatnonzero(ruled(np.square(hats), k)).tolist():
        heavy[p + 1 : p + 3] = True  # the pieces on both sides of the hat's middle knot
    labels = rows.y if len(np.unique(rows.y)) == 2 else np.zeros(rows.n_rows)
    for label in np.unique(labels):
        own = labels == label
        inside = one.counts(0, x[own, 0])
        heavy |= (inside > 0) & (inside < k)
        over = _leverages(np.column_stack([np.ones(own.sum()), ramps[own]]), k) > 1.0 / k
        heavy |= one.counts(0, x[own, 0][over]) > 0
    return heavy


def _leverages(A: Array, k: int) -> Array:
    """Leverages of rows, multiplied by numbers that make them at most 1/k where any do."""
    size = np.linalg.norm(A, axis=1)
    for _ in range(SCALINGS):
        U, s, _ = np.linalg.svd(A / size[:, None], full_matrices=False)
        h = np.square(U[:, s > SINGULAR * s[0]]).sum(axis=1)
        if h.max() <= 1.0 / k - MARGIN:
            break
        size *= np.sqrt(np.maximum(1.0, h * k * (1.0 + SLACK)))
    return np.asarray(h)


def keep_knots(rows: Rows, curves: Curves, ledger: Ledger, names: Sequence[str]) -> None:
    """Write the first knots of every column down; refuse others later."""
    shift = np.zeros(curves.n) if rows.shift is None else rows.shift
    scale = np.ones(curves.n) if rows.scale is None else rows.scale
    for j, name in enumerate(names):
        if curves.knots[j]:
            ledger.bend_at(name, np.array(curves.knots[j]) * scale[j] + shift[j])
