"""Entries instead of weights: columns that few people rule, small cells, files with a row less."""

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem

import drfl
from drfl.privacy import SpentError, audit_ledger

N, n, K = 270, 4, 5


def data(column=None):
    plain = make_client(N, n)
    X, y = plain.rows.take(slice(None)).copy(), plain.rows.y
    if column is not None:
        X[:, 2] = column
    return X, y


def test_a_column_that_one_person_rules(table):
    """Whatever the weights, its sum is that person's entry: any two answers tell it."""
    column = np.zeros(N)
    column[17] = 7.3
    X, y = data(column)
    plain = Server(drfl.Client("a", X, y), make_problem())
    plain.ask(np.zeros(n + 1))
    assert abs(plain.slopes[0][2]) * N == pytest.approx(7.3)
    for few in (1, K - 2):
        column[:few] = 7.3 + np.arange(few)
        with pytest.raises(ValueError, match="ruled by fewer than k = 5 rows"):
            drfl.Client("a", *data(column), guard=guard(K))
    outlier = np.random.default_rng(0).normal(size=N)
    outlier[3] = 40.0
    with pytest.raises(ValueError, match="ruled by fewer"):
        drfl.Client("a", *data(outlier), guard=guard(K))
    table("a column that one to k - 1 people rule", "the entry", "refused")


def test_a_target_that_one_person_rules(table):
    """Sums of numeric targets are in the constants of cuts and, before, in the preflight."""
    X, _ = data()
    y = 1e-3 * np.random.default_rng(0).normal(size=N)
    y[17] = 7.3
    plain = Server(drfl.Client("a", X, y), make_problem("pinball"))
    plain.ask(np.append(np.zeros(n), -10.0))
    constant = plain.cuts[0][0]  # all residuals are below 0: half of the sum of y
    assert 2.0 * N * constant == pytest.approx(7.3, rel=1e-2)
    with pytest.raises(ValueError, match="'the target' is ruled by fewer than k = 5 rows"):
        drfl.Client("a", X, y, guard=guard(K))
    table("a numeric target that one to k - 1 people rule", "the entry", "refused")


@pytest.mark.parametrize("size", [1e-200, 1e-20, 1e90])
def test_columns_are_looked_at_in_any_unit(size):
    """Squares of tiny numbers are 0, and 0 is ruled by nobody."""
    column = np.zeros(N)
    column[:2] = 7.3 * size, 5.1 * size
    with pytest.raises(ValueError, match="ruled by fewer than k = 5 rows"):
        drfl.Client("a", *data(column), guard=guard(K))


@pytest.mark.parametrize("part", [1e-4, 1e-6, 1e-8])
def test_bits_of_a_column_that_others_nearly_explain(part, table):
    """A copy with a little of something else in it: the difference of two slopes is a sum of that.

    The slope of the copy must have no more bits of it than that of a column by itself.
    """
    X, y = data()
    X[:, 2] = X[:, 0] + part * np.random.default_rng(5).normal(size=N)
    bits = []
    for settings in (None, guard(K)):
        server = Server(drfl.Client("a", X, y, guard=settings), make_problem())
        server.ask(np.zeros(n + 1))
        bits.append(np.log2(part / last_bit(server.slopes[0][2])))
    assert bits[0] > 20
    assert bits[1] <= 14
    table("bits of what is hidden in a copy of a column", *bits, "bits")


def last_bit(number):
    """The value of the last bit of a number that is 1."""
    mantissa, exponent = np.frexp(number)
    whole = int(mantissa * 2**53)
    return 2.0 ** (int(exponent) - 53) * (whole & -whole)


@pytest.mark.parametrize("few", [1, 4])
def test_cells_of_few_people(few, table):
    """Sums of a column of zeros and ones by class are counts."""
    X, y = data()
    ones = np.zeros(N)
    ones[np.flatnonzero(y > 0.0)[:few]] = 1.0
    ones[np.flatnonzero(y < 0.0)[:30]] = 1.0
    X[:, 2] = ones
    plain = Server(drfl.Client("a", X, y), make_problem())
    plain.ask(np.zeros(n + 1))
    assert round((ones.sum() - N * plain.slopes[0][2]) / 2.0) == few
    with pytest.raises(ValueError, match="which fewer than k = 5 rows of a class hold"):
        drfl.Client("a", X, y, guard=guard(K))
    table("cells of one to k - 1 people, by class", "the count", "refused")


def ruling(weights, column):
    """Which part of an answer the k - 1 largest terms of a column hold."""
    terms = np.sort(np.square(weights * column))
    return terms[-(K - 1) :].sum() / terms.sum()


def test_an_answer_in_which_few_rule_a_column(table):
    """Sixteen people have a mark; the server asks where two or three of them have a loss."""
    X, y = data()
    marked = np.concatenate([np.flatnonzero(y > 0.0)[:8], np.flatnonzero(y < 0.0)[:8]])
    X[:, 2] = np.isin(np.arange(N), marked)
    client = drfl.Client("a", X, y, guard=guard(K))
    server = Server(client, make_problem())
    rng = np.random.default_rng(0)
    A = np.column_stack([X[marked], np.ones(len(marked))])
    best = np.linalg.lstsq(A, y[marked], rcond=None)[0]  # of the marked ones alone
    points = 30.0 * (best + 0.2 * rng.normal(size=(20_000, n + 1)))
    short = y * (points[:, :n] @ X.T + points[:, n:]) < 1.0
    few = short[:, marked].sum(axis=1)
    points = points[(few > 1) & (few < K - 1)][:25]
    assert len(points) == 25
    for x in points:
        server.ask(x)
    sent = [
        e.arrays["weights"]
        for e in client.ledger.entries
        if e.kind == "answer" and "weights" in e.arrays
    ]
    assert sent
    largest = max(ruling(weights, X[:, 2]) for weights in sent)
    assert largest <= 1.0 - 1.0 / K + 1e-12
    table("part of an answer that k - 1 people hold, where few have a loss", 1.0, largest)
    assert "cells told: the smallest of 8 rows" in audit_ledger(client.ledger)
    assert "bits: " in audit_ledger(client.ledger)


@pytest.mark.parametrize("where", ["ledger", "another"])
def test_the_same_rows_but_a_few(tmp_path, where, table):
    """The site's person begins a new ledger for a file with one row less: two sums differ by it."""
    X, y = data()
    drfl.Client("a", X, y, guard=guard(K, ledger=tmp_path / "ledger"))
    for few in (1, K - 1):
        with pytest.raises(ValueError, match="fewer than k = 5"):
            drfl.Client("a", X[few:], y[few:], guard=guard(K, ledger=tmp_path / where))
        moved = X.copy()
        moved[:few, 1] += 1.0
        with pytest.raises(ValueError, match="fewer than k = 5"):
            drfl.Client("a", moved, y, guard=guard(K, ledger=tmp_path / where))
    assert X[:1].tobytes() not in (tmp_path / "ledger").read_bytes()
    many = drfl.Client("a", X[K:], y[K:], guard=guard(K, ledger=tmp_path / "third"))
    assert many.ledger is not None
    table("the same rows but 1 to k - 1, under their ledger or beside it", "a row", "refused")


def test_readings_of_the_rows_are_counted():
    """Other columns, targets or units are other questions about the same rows."""
    X, y = data()
    settings = guard(K, bindings=2)
    ledger = settings.begin(b"a file", N)
    for unit in (1.0, 2.0, 1.0):
        drfl.Client("a", unit * X, y, guard=settings, ledger=ledger)
    with pytest.raises(SpentError):
        drfl.Client("a", 3.0 * X, y, guard=settings, ledger=ledger)


def test_a_column_is_read_in_one_way():
    ledger = guard(K).begin(b"a file", N)
    ledger.read_as("age", "number")
    ledger.read_as("age", "number")
    with pytest.raises(ValueError, match="read in another way"):
        ledger.read_as("age", "text")
