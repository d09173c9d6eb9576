"""The study of curves: records that are kept, and the tables they make."""

import numpy as np
import pytest

from experiments import additive
from experiments.__main__ import main


def test_a_price_of_bends_makes_lines_of_curves():
    """At a large price all slopes of a column are one; at none the problem is drfl's own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(1.0 - X[:, 0] ** 2 + X[:, 1] > 0.0, 1.0, -1.0)
    model = additive.DRFLClassifier(norm="l1", additive="all", knots=2, radius=0.05, tol=1e-7)
    model.fit(X, np.where(y > 0.0, "yes", "no"))
    A, curves = model.curves_.expand(X), model.curves_
    s, b = additive._bent(A, y, curves, 0.05, 0.0, additive.Logistic())
    cost = np.logaddexp(0.0, -y * (A @ s + b)).mean() + 0.05 * np.abs(s).max()
    assert cost == pytest.approx(model.objective_, rel=1e-5)
    flat, _ = additive._bent(A, y, curves, 0.05, 10.0, additive.Logistic())
    for j in range(2):
        assert np.ptp(flat[curves.of(j)]) < 1e-4


def test_records_are_kept_and_make_the_tables(tmp_path, capsys):
    path = tmp_path / "records.jsonl"
    found = [
        additive.Score("heart", k, test, (0.8, 0.8 + 0.01 * k, 0.7), k > 0)
        for k in range(3)
        for test in additive.TESTS
    ]
    found += [additive.Score("heart", k, "bends", (0.8, 0.4, 0.81, 0.1), True) for k in range(3)]
    additive._write(path, found)
    assert additive._read(path) == found
    flags = ["--data", "heart", "--repeats", "3", "--records", str(path)]
    assert main(["additive", *flags, "--out", str(tmp_path / "page.md")]) == 0
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| heart | clean | 0.800 ± 0.000 | 0.810 ± 0.006 |" in page
    assert "| +0.010 ± 0.006 | 2 of 3 | 4 |" in page
    assert "| heart | 0.800 ± 0.000 | 0.810 ± 0.000 | +0.010 ± 0.000 | 40 % | 10 % |" in page
    assert additive._read(path) == found  # nothing was done again


def test_what_cannot_be_studied_is_one_sentence(capsys):
    assert main(["additive", "--data", "hearts"]) != 0
    assert "--data has 'hearts', known are" in capsys.readouterr().err
