"""What the adversary does to rows: facts against plain sums, and rows in the file's units."""

import numpy as np
import pytest

import drfl
from drfl.models.adversary import attack_of, changed_rows, worst_weights
from drfl.models.estimator import model_of
from drfl.rows import Rows
from drfl.worst_case import make_oracle

SCALE, SHIFT = np.array([2.0, 0.5]), np.array([10.0, -1.0])
KAPPA, RADIUS = 0.7, 0.06


@pytest.fixture(scope="module")
def attacked():
    """A model of scaled columns, a client's rows, and their worst case."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.where(X @ [1.0, -1.0] + 0.7 * rng.normal(size=40) > 0.0, 1, -1)
    clients = np.repeat(["a", "b"], 20)
    fitted = drfl.DRFLClassifier(
        loss="hinge", norm="l1", radius=RADIUS, label_cost=KAPPA, mixture_radius=0.3
    ).fit(X, y, clients)
    model = model_of(fitted)
    rows = Rows(X[:20] * SCALE + SHIFT, y[:20].astype(float), shift=SHIFT, scale=SCALE)
    worst = make_oracle(rows, model.problem.loss, model.problem.ball_of("a")).evaluate(
        model.coef[0], float(model.intercept[0])
    )
    return model, rows, worst, worst.distribution(), X[:20], y[:20]


def test_facts_are_sums_over_the_worst_case_distribution(attacked):
    model, rows, worst, d, X, y = attacked
    found = attack_of(model, 0, rows, worst.value, worst.multiplier, d)
    w, b = model.coef[0], float(model.intercept[0])
    assert found.loss == pytest.approx(np.maximum(1.0 - y * (X @ w + b), 0.0).mean())
    # The worst loss is that of the moved rows, and moving them costs the radius.
    moved = np.maximum(1.0 - d.y * (d.x @ w + b), 0.0)
    assert d.mass @ moved == pytest.approx(worst.value, rel=1e-9)
    assert found.moved + KAPPA * found.flipped == pytest.approx(RADIUS)
    assert found.flipped == pytest.approx(d.mass[d.y != y[d.source]].sum())
    step = np.abs(d.x - X[d.source])
    np.testing.assert_allclose(found.feature_moves, SCALE * (d.mass @ step), atol=1e-12)
    change = d.y[:, None] * d.x - y[d.source][:, None] * X[d.source]
    np.testing.assert_allclose(found.carried, d.mass @ np.abs(change * w), atol=1e-12)
    assert sum(share for _, share in found.carriers(2)) == pytest.approx(1.0)
    assert found.facts()["labels_changed"] == found.flipped


def test_rows_are_told_in_the_units_of_the_file_the_most_changed_first(attacked):
    model, rows, _, d, X, y = attacked
    told = list(changed_rows(model, rows, d, 3))
    changed = np.abs(d.x - X[d.source]).sum(axis=1) + np.abs(d.y - y[d.source])
    order = np.argsort(-changed * d.mass, kind="stable")[:3]
    order = order[changed[order] > 1e-9]  # what is less is rounding
    assert len(order) >= 2
    assert [row for row, _ in told] == d.source[order].tolist()
    for (row, text), atom in zip(told, order, strict=True):
        if d.y[atom] != y[row]:
            assert f"{model.target.name} {y[row]} -> {int(d.y[atom])}" in text
        for j, name in enumerate(model.features):
            if abs(d.x[atom, j] - X[row, j]) > 1e-9:
                before, after = (SCALE * x + SHIFT for x in (X[row], d.x[atom]))
                assert f"{name} {before[j]:.5g} -> {after[j]:.5g}" in text
        assert ("of the row)" in text) == (d.mass[atom] * 20 < 0.995)


def test_weights_are_the_worst_of_these_clients_or_those_of_the_training(attacked):
    model, rows, worst, d, _, _ = attacked
    one = attack_of(model, 0, rows, worst.value, worst.multiplier, d)
    assert worst_weights(model, 0, {"a": one}) == {"a": model.clients[0].weights[0]}
    assert worst_weights(model, 0, {"a": one, "elsewhere": one}).keys() == {"a"}
    other = attack_of(model, 0, rows, 2.0 * worst.value, worst.multiplier, d)
    weights = worst_weights(model, 0, {"a": one, "b": other})
    assert weights == pytest.approx({"a": 0.35, "b": 0.65})  # half of the radius from a to b
