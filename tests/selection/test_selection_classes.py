"""Several classes in a selection: parts of the rows may be without one of them."""

import numpy as np
import pytest

import drfl


def rows(rare, at):
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 40)
    y[:rare] = 2
    X = rng.normal(size=(80, 2)) + 1.5 * np.eye(3)[y][:, :2]
    clients = np.arange(80) % 2
    clients[y == 2] = np.arange(rare) % at
    return X, y, clients


@pytest.mark.parametrize(
    ("rare", "at", "rule", "several"),
    [(2, 1, "mean", False), (8, 2, "mean", True), (8, 1, "new_client", False)],
)
@pytest.mark.sampled(2)
def test_classes_are_one_problem_where_no_part_lacks_one(rare, at, rule, several):
    X, y, clients = rows(rare, at)
    model = drfl.DRFLClassifier(tol=1e-3)
    grid = {"radius": [0.05, 0.2]}
    found = drfl.select(model, X, y, clients, rule=rule, grid=grid, folds=3, verbose=0)
    assert (found.estimator.problem_.classes == 3) is several
    assert set(found.estimator.predict(X)) <= {0, 1, 2}
