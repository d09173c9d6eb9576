"""What looks wrong in the data of a fit, or is not what the defaults are made for; said first."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis

from drfl.arrays import Array
from drfl.defaults import crowded
from drfl.estimators.client_table import BLOCK, ClientTable, named_clients
from drfl.inspection import TableOne, array_table, row_sentences
from drfl.one_vs_rest import is_nothing
from drfl.rows.parts import is_sparse
from drfl.tables.table import folded
from drfl.uncertainty import Mixture

FEW = 10
"""A client with fewer rows should not weigh as much as the others."""
TOLD = 20
"""Sentences about the rows; of more it is said how many there are."""
LEAST, MOST = 0.1, 10.0
"""Between which the standard deviation of a standardised feature should be."""
SOME, AT_MOST = 500, 16
"""Rows that can settle that it is: so many, or one in so many."""


class DataWarning(UserWarning):
    """The data look as if something were wrong with them; a certificate does not see it."""


def inspect(X: Any, y: Any, clients: Any = None) -> TableOne:
    """Table 1 of rows in memory: what ``drfl inspect`` tells of files.

    Parameters
    ----------
    X : DataFrame, mapping of columns, or array or sparse matrix of shape (N, n)
        The rows in their own units, best before anything is scaled or filled: gaps are None or NaN,
        columns may be text.
    y : array of shape (N,)
        Classes or numbers.
    clients : array of shape (N,), optional
        The name of each row's client.

    Returns
    -------
    drfl.inspection.TableOne
        Print it; ``warnings`` are sentences about what looks wrong.

    Examples
    --------
    >>> rows = {"age": [41.0, None, 57.0], "sex": ["f", "m", "f"]}
    >>> print(inspect(rows, ["no", "no", "yes"], ["a", "a", "b"]))
    Table 1: mean (standard deviation) of numbers, shares of categories
              a                    b
      age     41 (0), 50% missing  57 (0)
      sex     f 50%, m 50%         f 100%
      target  no 100%              yes 100%
    """
    refuse_variants(np.unique([label for label in np.asarray(y).tolist() if _is_word(label)]))
    names, member = named_clients(clients, np.zeros((len(np.asarray(y)), 1)))
    return array_table(X, y, [str(name) for name in names], member)


def merge_labels(y: Any) -> NDArray[Any]:
    """Labels of text without what does not matter in them: case, and blanks.

    Examples
    --------
    >>> merge_labels(["yes", "Yes ", "no"]).tolist()
    ['yes', 'yes', 'no']
    """
    return np.array([folded(v) if _is_word(v) else v for v in np.asarray(y).tolist()])


def _is_word(label: Any) -> bool:
    return isinstance(label, str)


def refuse_variants(classes: NDArray[Any]) -> None:
    """Refuse classes that differ in case or blanks alone: they are one, spelt in two ways."""
    known: dict[str, list[str]] = {}
    for label in classes.tolist():
        if _is_word(label):
            known.setdefault(folded(label), []).append(label)
    twice = [" and ".join(map(repr, labels)) for labels in known.values() if len(labels) > 1]
    if twice:
        raise ValueError(
            f"y has the classes {', '.join(twice)}: if they are the same, take drfl.merge_labels(y)"
            ", or write them in one way"
        )


def warn_of_data(table: ClientTable, names: Sequence[str] | None) -> None:
    """Issue a `DataWarning` for everything that looks wrong in the rows."""
    told = row_sentences(table.X, table.y, table.labels, table.member, names, table.ends)
    if len(told) > TOLD:
        told[TOLD:] = [f"{len(told) - TOLD} more such sentences: see all of them with drfl.inspect"]
    for sentence in told:
        warnings.warn(sentence, DataWarning, stacklevel=4)  # the line that calls fit


def warn_of_small_clients(table: ClientTable, mixture: Mixture) -> None:
    """Issue a `DataWarning` if clients of hardly any rows weigh as much as the others."""
    if mixture.center != "uniform" or len(table.names) < 2:
        return
    small = [
        f"{name!r} ({rows:g})"
        for name, rows in zip(table.names.tolist(), table.totals.tolist(), strict=True)
        if rows < FEW
    ]
    if small:
        warnings.warn(
            f"clients with hardly any rows weigh as much as the others: {', '.join(small)}; take "
            "mixture_center='proportional', or leave them out",
            DataWarning,
            stacklevel=4,  # the line that calls fit
        )


class ScaleWarning(UserWarning):
    """A feature's standard deviation is far from 1.

    The radius and the label cost are in the units of the features: one radius for all of them
    protects a feature measured in thousands hardly at all, and one measured in thousandths far too
    much. The default radius is meant for standardised features.
    """


class FewRowsWarning(UserWarning):
    """There are more columns than a quarter of the rows, and the radius is the default one."""


def warn_of_few_rows(n_features: int, rows: float) -> None:
    """Issue a `FewRowsWarning` where the default radius can be far too small."""
    sentence = crowded(n_features, rows)
    if sentence is not None:
        warnings.warn(sentence, FewRowsWarning, stacklevel=4)  # the line that calls fit


class NothingLearnedWarning(UserWarning):
    """Every coefficient of a model is zero."""


def warn_of_nothing(coef: Array, table: ClientTable, unit: float) -> None:
    """Say so if no column moves a score.

    Parameters
    ----------
    coef : (n,) or (K, n)
        The coefficients, or the slopes of curves.
    table : ClientTable
        The rows: small coefficients of large columns are something.
    unit : float
        The size of a score: 1 for classes, the deviation of a numeric target. Where that is
        constant, the same for every row is right.
    """
    if unit == 0.0 or not is_nothing(coef):
        return
    scores = np.atleast_2d(coef) / unit
    if scores.shape[1] == table.X.shape[1]:  # no curves
        scores = scores * column_deviation(table.X, table.weight)
    if not is_nothing(scores):
        return
    says = "the same of every row"
    if len(scores) > 1:
        says += ", and which class it names is rounding noise"
    warnings.warn(
        f"all coefficients are zero: the model predicts nothing, it says {says}; take a smaller "
        "radius",
        NothingLearnedWarning,
        stacklevel=4,  # the line that calls fit
    )


def warn_of_scale(table: ClientTable, names: Sequence[str] | None) -> None:
    """Issue a `ScaleWarning` if a column's standard deviation is outside [0.1, 10].

    Constant columns are passed over: no scaling changes them, and they move with the intercept.
    """
    X, suspect = table.X, np.flatnonzero(~_surely_usual(table))
    if not len(suspect):
        return
    deviation = np.ones(X.shape[1])
    chosen = X if len(suspect) == X.shape[1] else X[:, suspect]
    deviation[suspect] = column_deviation(chosen, table.weight)
    odd = np.flatnonzero(((deviation < LEAST) & (deviation > 0.0)) | (deviation > MOST))
    if not len(odd):
        return
    worst = odd[np.argmax(np.abs(np.log(deviation[odd])))]
    column = repr(str(names[worst])) if names is not None else str(worst)
    others = f" (and {len(odd) - 1} more are outside)" if len(odd) > 1 else ""
    scaler = "StandardScaler(with_mean=False)" if is_sparse(X) else "StandardScaler()"
    warnings.warn(
        f"column {column} has standard deviation {deviation[worst]:.3g}, outside "
        f"[{LEAST:g}, {MOST:g}]{others}: the radius is in the units of the features, so scale them "
        f"first, for example with make_pipeline({scaler}, model)",
        ScaleWarning,
        stacklevel=4,  # the line that calls fit
    )


def _surely_usual(table: ClientTable) -> NDArray[np.bool_]:
    """Which columns (n,) have a usual standard deviation, by their ends and some of the rows.

    It is at most half of the range. A share of the weight that has the deviation s by itself leaves
    at least the root of that share times s for all.
    """
    X, weight = table.X, table.weight
    if is_sparse(X):
        return np.zeros(X.shape[1], np.bool_)
    least, most = table.ends
    some = slice(None, None, max(1, min(len(X) // SOME, AT_MOST)))
    share = weight[some].sum() / weight.sum()
    low = np.sqrt(share) * column_deviation(X[some], weight[some])
    return np.asarray((most - least <= 2.0 * MOST) & (low >= LEAST * (1.0 + 1e-9)))


def column_deviation(X: Any, weight: Array) -> Array:
    """The standard deviation of every column (n,), of weighted rows; exactly 0 if constant."""
    if is_sparse(X):
        mean, variance = mean_variance_axis(X, axis=0, weights=weight.astype(X.dtype))
        rounding = 1e-14 * np.square(mean, dtype=np.float64)
        return np.sqrt(np.where(variance <= rounding, 0.0, variance), dtype=np.float64)
    # Differences from the first row lose no digits where the mean is large.
    first = X[0].astype(np.float64)
    sums, squares = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        block = slice(start, start + step)
        difference = X[block] - first
        sums += weight[block] @ difference
        squares += weight[block] @ np.square(difference)
    total = weight.sum()
    return np.asarray(np.sqrt(np.maximum(squares / total - np.square(sums / total), 0.0)))
