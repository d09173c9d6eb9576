r"""Gaussian attribute noise, as in Section 6 of the paper.

.. math:: X \mapsto X + m + \sigma G, \qquad G_{ij} \sim N(0, 1) \text{ independent}

The noise may leave a box or polyhedron that held the data: use the whole space, or ask for
``on_outside="widen"`` or ``"clip"``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from drfl import checks
from drfl._registry import listed
from drfl.arrays import Array
from drfl.datasets._checks import check_rng

Name = TypeVar("Name", bound=Hashable)
PerClient = float | Sequence[float] | Mapping[Any, float]


def add_noise(X: ArrayLike, mean: float, std: float, rng: np.random.Generator) -> Array:
    """Return X plus Gaussian noise on every entry; X itself is not changed.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Dense features.
    mean, std : float
        Mean and standard deviation (>= 0) of the noise.
    rng : numpy.random.Generator
        The source of randomness.

    Examples
    --------
    >>> add_noise([[1.0, 2.0]], 0.5, 0.0, np.random.default_rng(0))
    array([[1.5, 2.5]])
    """
    check_rng(rng)
    _check_moments(mean, std)
    X = _dense(X)
    return X + rng.normal(mean, std, size=X.shape)


@overload
def add_client_noise(
    clients: Mapping[Name, ArrayLike], mean: PerClient, std: PerClient, rng: np.random.Generator
) -> dict[Name, Array]: ...
@overload
def add_client_noise(
    clients: Sequence[ArrayLike], mean: PerClient, std: PerClient, rng: np.random.Generator
) -> list[Array]: ...
def add_client_noise(
    clients: Mapping[Name, ArrayLike] | Sequence[ArrayLike],
    mean: PerClient,
    std: PerClient,
    rng: np.random.Generator,
) -> dict[Name, Array] | list[Array]:
    """Return the clients' features, each with its own noise.

    Parameters
    ----------
    clients : list of X, or mapping of name to X
        One dense matrix per client.
    mean, std : float, or one per client
        One number serves all clients; a list gives one to each, in order; a mapping gives one to
        each client it names (by position, if the clients are a list) and 0 to the others.
    rng : numpy.random.Generator
        The source of randomness, used client after client.

    Returns
    -------
    list or dict
        As ``clients``, with new matrices.

    Examples
    --------
    The paper's heart experiment: only the first of three clients is noisy.

    >>> X = [np.zeros((2, 1))] * 3
    >>> noisy = add_client_noise(X, 0.0, [0.5, 0.0, 0.0], np.random.default_rng(0))
    >>> [bool(x.any()) for x in noisy]
    [True, False, False]
    """
    if not isinstance(clients, Mapping):
        return list(add_client_noise(dict(enumerate(clients)), mean, std, rng).values())
    check_rng(rng)
    names = list(clients)
    means, stds = _per_client("mean", mean, names), _per_client("std", std, names)
    # All is checked before the first draw: a refusal leaves rng where it was.
    for m, s in zip(means, stds, strict=True):
        _check_moments(m, s)
    matrices = [_dense(X) for X in clients.values()]
    return {
        name: add_noise(X, m, s, rng)
        for name, X, m, s in zip(names, matrices, means, stds, strict=True)
    }


def _per_client(what: str, value: PerClient, names: Sequence[Hashable]) -> Array:
    if isinstance(value, Mapping):
        if unknown := [name for name in value if name not in names]:
            raise ValueError(
                f"{what} names unknown clients {listed(unknown)}: known are {listed(names)}"
            )
        return np.array([value.get(name, 0.0) for name in names], dtype=np.float64)
    values = np.asarray(value, dtype=np.float64)
    if values.ndim and values.shape != (len(names),):
        raise ValueError(
            f"{what} must be one number or one per client, {len(names)} in all, "
            f"got shape {values.shape}"
        )
    return np.broadcast_to(values, len(names))


def _check_moments(mean: float, std: float) -> None:
    checks.number("the mean of the noise", mean)
    checks.number("the standard deviation of the noise", std, least=0.0)


def _dense(X: ArrayLike) -> Array:
    if issparse(X):
        raise TypeError("noise on every entry makes a sparse matrix dense: pass X.toarray()")
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns, got an array of shape {X.shape}")
    return X
