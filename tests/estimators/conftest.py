"""Rows of three clients that differ."""

import numpy as np
import pytest


@pytest.fixture
def hospitals():
    """X, labels, targets and the clients' names of 90 rows."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 3))
    clients = np.repeat(["north", "south", "west"], [20, 30, 40])
    X[clients == "south"] += 0.4
    y = X @ np.array([1.0, -0.7, 0.2]) + 0.8 * rng.normal(size=90)
    y[clients == "west"] += X[clients == "west", 2]
    shuffled = rng.permutation(90)
    X, y, clients = X[shuffled], y[shuffled], clients[shuffled]
    labels = np.where(y > np.median(y), "ill", "healthy")
    return X, labels, y, clients
