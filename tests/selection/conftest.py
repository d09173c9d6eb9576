"""Rows of three clients that differ."""

import numpy as np
import pytest

from drfl import Client


@pytest.fixture
def hospitals():
    """X, labels, targets and the clients' names of 75 rows."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(75, 3))
    clients = np.repeat(["north", "south", "west"], [20, 25, 30])
    X[clients == "south"] += 0.3
    y = X @ np.array([1.0, -0.7, 0.2]) + 0.7 * rng.normal(size=75)
    shuffled = rng.permutation(75)
    labels = np.where(y > 0.2, "ill", "healthy")
    return X[shuffled], labels[shuffled], y[shuffled], clients[shuffled]


@pytest.fixture
def placed(hospitals):
    """The same as clients with signs."""
    X, labels, _, clients = hospitals
    sign = np.where(labels == "ill", 1.0, -1.0)
    return [Client(name, X[clients == name], sign[clients == name]) for name in np.unique(clients)]
