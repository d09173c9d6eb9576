"""Divide the rows of a data set into clients.

A partition is a list of arrays of row numbers, one per client, each ascending; together they hold
every row once and no client is empty. (:func:`by_column` returns them by name, and
:func:`class_imbalance` drops rows.) ``X[rows], y[rows]`` are then a client's data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfl import checks
from drfl.datasets._checks import (
    check_classes,
    check_finite,
    check_rng,
    check_rows,
    check_sizes,
)

Indices = NDArray[np.intp]


def random(n_rows: int, n_clients: int, rng: np.random.Generator) -> list[Indices]:
    """Divide at random into clients whose sizes differ by at most one.

    Parameters
    ----------
    n_rows, n_clients : int
        With 1 <= n_clients <= n_rows.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    list of ndarray of int
        The clients' rows; the larger clients come first.

    Examples
    --------
    >>> [len(rows) for rows in random(270, 4, np.random.default_rng(0))]
    [68, 68, 67, 67]
    """
    n_rows, n_clients = check_sizes(n_rows, n_clients)
    check_rng(rng)
    return _cut(rng.permutation(n_rows), n_clients)


def label_skew(
    y: ArrayLike, n_clients: int, alpha: float, rng: np.random.Generator
) -> list[Indices]:
    r"""Divide each class by its own Dirichlet-distributed shares.

    For class c,

    .. math:: p_c \sim \mathrm{Dir}(\alpha,\dots,\alpha)

    and client s receives :math:`N_c p_{cs}` of its :math:`N_c` rows, rounded up or down at random
    such that this is its expected number. A share has mean 1/S and variance
    :math:`(1/S)(1-1/S)/(S\alpha+1)`: small alpha gives almost every class to a single client,
    infinite alpha gives equal shares. A client that is left empty then takes one random row from
    a client with several.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Classes: numbers or text. For a numeric target cut it into classes first, as below, or
        use :func:`sorted_skew`.
    n_clients : int
        At most n_rows.
    alpha : float
        Concentration in (0, inf].
    rng : numpy.random.Generator
        The source of randomness.

    Examples
    --------
    >>> y = np.linspace(0.0, 1.0, 100)
    >>> quarter = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    >>> sum(len(rows) for rows in label_skew(quarter, 3, 0.5, np.random.default_rng(0)))
    100
    """
    classes, class_of = check_classes("y", y)
    n_rows, n_clients = check_sizes(len(class_of), n_clients)
    if not alpha > 0.0:
        raise ValueError(f"alpha must be greater than 0 (inf: equal shares), got {alpha}")
    check_rng(rng)
    owner = np.empty(n_rows, dtype=np.intp)
    for members in _groups(class_of, len(classes)):
        rows = rng.permutation(members)
        # 1e12 stands for inf, which the sampler cannot take: shares equal to six digits.
        shares = rng.dirichlet(np.full(n_clients, min(alpha, 1e12)))
        # One random offset for all cuts: the expected number of rows is exactly N_c p_cs.
        cuts = np.floor(np.cumsum(shares)[:-1] * len(rows) + rng.random())
        owner[rows] = np.searchsorted(cuts, np.arange(len(rows)), side="right")
    _fill_empty(owner, n_clients, rng)
    return _groups(owner, n_clients)


def sorted_skew(
    y: ArrayLike, n_clients: int, noise: float, rng: np.random.Generator
) -> list[Indices]:
    r"""Sort by a noisy target and cut into clients whose sizes differ by at most one.

    Rows are sorted by :math:`y_i + \eta\,\mathrm{std}(y)\,G_i` with :math:`G_i \sim N(0,1)`: the
    first client has the smallest targets. It serves classification and regression alike.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        A numeric target.
    n_clients : int
        At most n_rows.
    noise : float
        :math:`\eta` >= 0; 0 sorts by y itself (ties keep their order), a large value is random.
    rng : numpy.random.Generator
        The source of randomness.

    Examples
    --------
    >>> sorted_skew([3.0, 1.0, 2.0, 4.0], 2, 0.0, np.random.default_rng(0))
    [array([1, 2]), array([0, 3])]
    """
    target = check_finite("y", y)
    n_rows, n_clients = check_sizes(len(target), n_clients)
    noise = checks.number("noise", noise, least=0.0)
    check_rng(rng)
    key = target + noise * target.std() * rng.standard_normal(n_rows)
    return _cut(np.argsort(key, kind="stable"), n_clients)


def by_column(values: ArrayLike) -> dict[str, Indices]:
    """Divide by the values of a column (a hospital, a year): one client per value.

    Parameters
    ----------
    values : array-like of shape (n_rows,)
        Text or numbers, none missing.

    Returns
    -------
    dict of str to ndarray of int
        The rows of each client by its name, ``str(value)``, in the order of the values.

    Examples
    --------
    >>> by_column(["Lund", "Bern", "Lund"])
    {'Bern': array([1]), 'Lund': array([0, 2])}
    """
    names, owner = check_classes("values", values)
    return {str(name): rows for name, rows in zip(names, _groups(owner, len(names)), strict=True)}


def class_imbalance(
    clients: Sequence[ArrayLike], y: ArrayLike, ratios: Sequence[float], rng: np.random.Generator
) -> list[Indices]:
    """Thin out the minority class of each client, as in Section 6.2 of the paper.

    Of the rows of its own minority class, client s keeps the share ``ratios[s]``, chosen at
    random; all rows of its majority class stay. The paper divides at random into three clients
    and takes the ratios 0.5, 0.5, 1.0. Its text leaves open of what the ratio is one; here it is
    of the client's minority rows, so that 1.0 changes nothing.

    Parameters
    ----------
    clients : list of array-like of int
        Rows of each client, such as :func:`random` returns.
    y : array-like of shape (n_rows,)
        Labels of all rows: two classes.
    ratios : list of float
        One in [0, 1] per client. The number of rows kept is rounded to the nearest (half: up),
        but a positive ratio keeps at least one.
    rng : numpy.random.Generator
        The source of randomness, used client after client.

    Returns
    -------
    list of ndarray of int
        The rows that remain. Where both classes are equally frequent, the one that sorts first
        (-1 before +1) counts as the majority; a client with one class stays as it is.

    Examples
    --------
    >>> y = [-1, -1, -1, -1, 1, 1]
    >>> class_imbalance([range(6)], y, [0.5], np.random.default_rng(0))
    [array([0, 1, 2, 3, 5])]
    """
    classes, class_of = check_classes("y", y)
    if len(classes) != 2:
        raise ValueError(f"class imbalance needs two classes in y, got {len(classes)}")
    parts = [check_rows(rows, len(class_of)) for rows in clients]
    if len(ratios) != len(parts):
        raise ValueError(f"one ratio per client is needed: {len(parts)}, got {len(ratios)}")
    for ratio in ratios:
        if not 0.0 <= ratio <= 1.0:
            raise ValueError(f"a ratio must lie between 0 and 1, got {ratio}")
    check_rng(rng)
    return [
        _thin(rows, class_of[rows], ratio, rng) for rows, ratio in zip(parts, ratios, strict=True)
    ]


def _thin(rows: Indices, class_of: Indices, ratio: float, rng: np.random.Generator) -> Indices:
    majority = np.argmax(np.bincount(class_of, minlength=2))
    minority = rows[class_of != majority]
    kept = min(len(minority), max(math.floor(ratio * len(minority) + 0.5), int(ratio > 0.0)))
    chosen = rng.choice(minority, kept, replace=False)
    return np.sort(np.concatenate([rows[class_of == majority], chosen]))


def _cut(order: Indices, n_clients: int) -> list[Indices]:
    return [np.sort(part) for part in np.array_split(order, n_clients)]


def _groups(owner: Indices, n_clients: int) -> list[Indices]:
    # One stable sort, not one pass per client: rows stay ascending within each.
    sizes = np.bincount(owner, minlength=n_clients)
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])


def _fill_empty(owner: Indices, n_clients: int, rng: np.random.Generator) -> None:
    sizes = np.bincount(owner, minlength=n_clients)
    empty = np.flatnonzero(sizes == 0).tolist()
    if not empty:
        return
    for row in rng.permutation(len(owner)):
        if sizes[owner[row]] > 1:
            sizes[owner[row]] -= 1
            owner[row] = empty.pop()
            sizes[owner[row]] = 1
            if not empty:
                return
