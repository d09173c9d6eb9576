"""What is refused before anything is sent, and categories that are too small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from drfl.losses.known import OWN
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.supports import WholeSpace

OTHER = "other"
# Between which a loss may be chosen, epsilons in units of the targets' root mean square.
PARAMETERS = {
    "huber": {"epsilon": (1e-2, 1e2)},
    "epsilon_insensitive": {"epsilon": (0.0, 10.0)},
    "pinball": {"quantile": (0.01, 0.99)},
}
LABEL_COSTS = 1e-3, 1e6
"""Between which a finite label cost may be, where labels flip; it is a price in units of rows."""


def require_enough(rows: Rows, k: int) -> None:
    """Refuse data that are too few for a guard of k."""
    require_counts(rows.n_rows, class_counts(rows), k)
    # A column that is the same in all rows, of gaps say, tells of no row: its sums are known.
    varied = np.ptp(rows.take(slice(None)), axis=0) > 0.0
    require_columns(rows.n_rows, int(varied.sum()), k)
    if rows.p is not None and np.ptp(rows.p) > 0.0:
        raise ValueError("a guard knows rows of equal weight only: drop sample_weight")


def require_counts(n_rows: int, classes: Sequence[int], k: int) -> None:
    """Refuse too few rows, or too few of a class; there are no classes in a regression."""
    if 10 * k > n_rows:
        raise ValueError(
            f"{n_rows} rows are too few for a guard of k = {k}: it needs at least {10 * k}"
        )
    if classes and min(classes) < k:
        raise ValueError(
            f"a class has {min(classes)} rows, fewer than k = {k}: its sums would tell of them"
        )


def require_two(classes: int) -> None:
    """Refuse more than two classes."""
    if classes > 2:
        raise _several(classes)


def _several(classes: int) -> ValueError:
    """Why several classes are refused, in one problem or one against the rest.

    All at once, a client would tell the shares and means of K classes, and in every answer K
    slopes, K - 1 of which are independent. One against the rest, K problems would ask for the
    answers of one ledger, in which the sums of one pair of classes count as known.
    """
    return ValueError(
        f"a guard knows two classes or a numeric target: each of {classes} classes would tell a "
        "mean and slopes of its own, of the same rows, and a ledger audits and counts one slope "
        "per answer; take two classes with one score, or no guard"
    )


def require_columns(n_rows: int, n_features: int, k: int) -> None:
    """Refuse too many columns for so many rows."""
    least = 2 * k * (n_features + 1)
    if least > n_rows:
        raise ValueError(
            f"{n_features + 1} parameters on {n_rows} rows are too many for a guard of k = {k}: "
            f"it needs at least {least} rows, or fewer columns"
        )


def require_answerable(problem: Problem, name: str, rows: Rows) -> None:
    """Refuse by name what a guard has no weights for, or whose numbers no grid would hide."""
    ball = problem.ball_of(name)
    if problem.classes is not None:
        raise _several(problem.classes)
    if problem.shared_ball:
        raise ValueError("a guard does not know shared_ball=True: take guard=None or False")
    if not isinstance(ball.support, WholeSpace):
        kind = type(ball.support).__name__
        raise ValueError(
            f"a guard does not know the support {kind}: take the whole space, or guard=None"
        )
    loss = problem.loss
    low, high = LABEL_COSTS
    flips = loss.task == "classification" and ball.radius > 0.0 and math.isfinite(ball.label_cost)
    if flips and not low <= ball.label_cost <= high:
        raise ValueError(
            f"a guard knows label costs from {low:g} to {high:g}, or inf, not {ball.label_cost:g}"
        )
    if type(loss) not in OWN:  # the parameters of others have no bounds here
        known = ", ".join(own.name for own in OWN)
        raise ValueError(f"a guard knows the losses {known}, not {loss.name!r}")
    size = float(np.sqrt(np.mean(np.square(rows.y))))
    for key, (least, most) in PARAMETERS.get(loss.name, {}).items():
        unit = 1.0 if key == "quantile" else size
        value = getattr(loss, key)
        if not least * unit <= value <= most * unit:
            relative = "" if key == "quantile" else " times the size of the target"
            raise ValueError(
                f"a guard knows {loss.name} with {key} from {least:g} to {most:g}{relative}, "
                f"not {value:g}"
            )


def class_counts(rows: Rows) -> list[int]:
    """How many rows each class has; empty for targets of a regression."""
    labels = np.unique(rows.y)
    if not set(labels.tolist()) <= {-1.0, 1.0}:
        return []
    return [int((rows.y == label).sum()) for label in labels]


def merge_categories(
    counts: Mapping[str, Sequence[int]], k: int, other: str = OTHER
) -> dict[str, str]:
    """Where each category goes so that no cell of 1 to k - 1 rows is told of.

    Categories with such a cell go into one called ``other``; if that has one as well, it takes
    the smallest of the rest.

    Parameters
    ----------
    counts : mapping of str to sequence of int
        How many rows hold each category, by class.
    k, other
        Of the guard, and what merged categories are called.

    Examples
    --------
    >>> merge_categories({"a": [40], "b": [3], "c": [4]}, 5)
    {'a': 'a', 'b': 'other', 'c': 'other'}
    >>> merge_categories({"a": [40, 40], "b": [9, 6], "c": [9, 1]}, 5)
    {'a': 'a', 'b': 'other', 'c': 'other'}
    """

    def told(cells: Iterable[int]) -> bool:
        return all(cell == 0 or cell >= k for cell in cells)

    rest = sorted(
        (name for name, cells in counts.items() if told(cells)), key=lambda name: sum(counts[name])
    )
    gone = {name for name in counts if name not in rest}
    while rest and gone and not told(map(sum, zip(*(counts[n] for n in gone), strict=True))):
        gone.add(rest.pop(0))
    return {name: other if name in gone else name for name in counts}
