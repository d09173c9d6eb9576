"""Table 1 of rows in memory, and what looks wrong in them."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import drfl
from drfl.estimators import DataWarning
from drfl.inspection import column, row_sentences, suspicion

SOON = {"tol": 1e-2, "radius": 0.05}
N = 400
HOME = np.repeat(list("abcd"), N // 4)


def patients():
    """Age, cholesterol, a scale, and whether ill, at four clients that are alike."""
    draw = np.random.default_rng(3)
    age, chol = draw.normal(54.0, 9.0, N).round(1), draw.normal(240.0, 50.0, N).round()
    grade = draw.integers(4, size=N).astype(float)
    return (
        np.column_stack([age, chol, grade]),
        np.where(age + draw.normal(0.0, 9.0, N) > 54.0, "yes", "no"),
    )


def spoiled(kind):
    """Rows with something wrong in them, and the words that tell of it."""
    rows, y = patients()
    age, chol, grade = rows.T
    at_d, some = HOME == "d", np.arange(N) % 9 == 0
    wild = np.where(np.arange(N) == 7, 1e15, age)
    number = np.arange(N) % 100.0
    changed, words = {
        "units": ([np.where(at_d, 12 * age, age), chol, grade], "column 0 has mean .* at 'd'"),
        "codes": ([age, np.where(some, -999.0, chol), grade], "column 1 is .* in 45 rows, apart"),
        "zeros": ([age, np.where(at_d, 0.0, chol), grade], "column 1 has mean .* at 'd'"),
        "outlier": ([wild, chol, grade], "column 0 has a value that is 1e13 times as far"),
        "id": ([age, chol, grade, number], "column 3 is a whole number that differs in every row"),
        "copy": ([age, chol, grade, 1.0 * (y == "yes")], "column 3 alone tells the target"),
        "constant": ([age, chol, grade, np.full(N, 3.0)], "column 3 is the same in every row"),
    }[kind]
    return np.column_stack(changed), y, words


KINDS = ("units", "codes", "zeros", "outlier", "id", "copy", "constant")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_what_looks_wrong_in_rows_is_told_by_a_fit_scaled_or_not(kind):
    rows, y, words = spoiled(kind)
    scaled = StandardScaler().fit_transform(rows)
    for form in (rows, scaled, sparse.csr_array(rows)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            drfl.DRFLClassifier(**SOON).fit(form, y, clients=HOME)
        told = [warning for warning in caught if warning.category is DataWarning]
        assert any(re.match(words, str(warning.message)) for warning in told)
        assert {warning.filename for warning in told} == {__file__}
    good, y = patients()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", drfl.ScaleWarning)
        drfl.DRFLClassifier(**SOON).fit(good, y, clients=HOME)


@pytest.mark.parametrize("kind", KINDS)
def test_table_one_of_rows_tells_the_same_in_their_own_units(kind):
    rows, y, words = spoiled(kind)
    table = drfl.inspect(rows, y, HOME)
    name, told = words.split(" ", 2)[1], words.split(" ", 2)[2]
    told = told.replace("in 45 rows", "in 1[12] rows of '.'").replace("a value that", "a value at")
    told = told.replace("a value at is 1e13 times", "a value at 'a' that is 1e13 times")
    assert any(re.search(f"column 'x{int(name) + 1}' {told}", text) for text in table.warnings)
    assert drfl.inspect(*patients(), HOME).warnings == ()
    if kind == "units":
        assert "years and months" in str(table)


def test_table_one_of_a_frame():
    rows, y = patients()
    frame = pd.DataFrame(rows, columns=["age", "chol", "grade"]).assign(sex=["f", "m"] * (N // 2))
    frame.loc[:49, "age"] = np.nan
    frame.loc[100:102, "chol"] = -999.0
    frame.loc[200:209, "grade"] = -9.0
    table = drfl.inspect(frame, pd.Series(y, name="ill"), HOME)
    cells = {(cell.column, cell.client): cell for cell in table.cells}
    assert cells["age", "a"].missing == pytest.approx(0.5)
    assert cells["age", "b"].mean == pytest.approx(frame["age"][100:200].mean())
    assert cells["sex", "c"].shares == pytest.approx({"f": 0.5, "m": 0.5})
    assert cells["ill", "d"].shares["yes"] == pytest.approx((y[300:] == "yes").mean())
    assert table.warnings == (
        "column 'chol' is -999 in fewer than 5 rows of 'b', apart from all other values: if that "
        "means missing, make it NaN, and fill it or leave the row out",
        "column 'grade' is -9 in 10 rows of 'c', apart from all other values: if that means "
        "missing, make it NaN, and fill it or leave the row out",
    )
    comma = frame.assign(dose=[f"{k / 10:.1f}".replace(".", ",") for k in range(N)])
    with pytest.raises(ValueError, match="'dose' holds numbers with a comma, like '0,0': read"):
        drfl.inspect(comma, y, HOME)
    with pytest.raises(ValueError, match="X holds the target, 'sex': leave it out"):
        drfl.inspect(frame, frame["sex"], HOME)


@pytest.mark.parametrize("kind", KINDS)
def test_table_one_of_sparse_rows_is_that_of_the_same_rows(kind):
    rows, y, _ = spoiled(kind)
    dense, other = drfl.inspect(rows, y, HOME), drfl.inspect(sparse.csr_array(rows), y, HOME)
    assert other.warnings == dense.warnings
    assert str(other) == str(dense)
    for one, two in zip(dense.cells, other.cells, strict=True):
        assert (one.column, one.client, one.rows) == (two.column, two.client, two.rows)
        if one.mean is not None:
            assert (two.mean, two.deviation) == pytest.approx((one.mean, one.deviation))


def test_of_many_sparse_columns_those_are_named_that_look_wrong():
    draw = np.random.default_rng(5)
    words = sparse.random_array((N, 3_000), density=0.02, rng=draw, format="lil")
    ill = draw.random(N) < 0.3
    words[:, [0]] = 1.0 * ill[:, None]  # a copy of the target
    words[draw.permutation(N)[:12], 1] = -999.0
    words[np.flatnonzero(words[:, [2]].toarray().ravel())[0], 2] = 1e9
    dose = np.where(np.arange(N) % 5 < 2, draw.normal(400.0, 40.0, N), 0.0)
    words[:, [3]] = np.where(HOME == "d", dose / 1000.0, dose)[:, None]
    words[:, [4]] = np.ones((N, 1))
    member = np.searchsorted(list("abcd"), HOME)
    told = row_sentences(sparse.csr_array(words), 1.0 * ill, list("abcd"), member, None)
    wrong = {
        "column 0 alone tells the target without an error",
        "column 1 is -999 in 12 rows, apart from all other values",
        "column 2 has a value that is 1e9 times as far",
        "column 3 has mean",
        "column 4 is the same in every row and tells nothing",
    }
    assert len(told) == len(wrong)
    assert all(any(text.startswith(words) for text in told) for words in wrong)
    one, few = sparse.csr_array(words[:, 3:4]), 0 * member
    (copy,) = row_sentences(one, 2.0 * one.toarray().ravel() + 1.0, ["all"], few, ["dose"])
    assert copy.startswith("column 'dose' alone tells the target")


def test_many_sentences_are_told_in_a_few():
    rows, y = patients()
    table = np.column_stack([rows, np.ones((N, 40)), *[np.where(y == "yes", 1.0, 0.0)] * 40])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drfl.DRFLClassifier(**SOON).fit(table, y, clients=HOME)
    told = [str(warning.message) for warning in caught if warning.category is DataWarning]
    assert len(told) == 21
    assert re.match(r"columns 3, 4, .* and 30 more are the same in every row", told[0])
    assert told[-1].startswith("21 more such sentences: see all of them with drfl.inspect")


def test_many_rows_are_looked_at_in_a_sample_but_for_the_largest_values():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(50_000, 2))
    y = (rows[:, 0] + draw.normal(size=50_000) > 0.0).astype(float)
    member = np.zeros(50_000, dtype=np.intp)
    assert row_sentences(rows, y, ["all"], member, ["a", "b"]) == []
    rows[4_321, 1] = 1e9
    for form in (rows, sparse.csr_array(rows)):
        (told,) = row_sentences(form, y, ["all"], member, ["a", "b"])
        assert "column 'b' has a value that is 1e8 times as far" in told
    almost = y.copy()
    almost[1] = 1.0 - almost[1]  # in a row that the sample leaves out
    rows = np.column_stack([rows[:, 0], almost, y])
    for form in (rows, sparse.csr_array(rows)):
        (told,) = row_sentences(form, y, ["all"], member, ["a", "b", "c"])
    assert "column 'c' alone tells the target without an error" in told


ODD = {
    "a code": lambda x, y: np.where(np.arange(len(x)) % 9 == 0, -50.0, x),
    "a usual code": lambda x, y: np.where(np.arange(len(x)) == 7, 999.0, x),
    "an outlier": lambda x, y: np.where(np.arange(len(x)) == 3, 1e5, x),
    "an id": lambda x, y: np.argsort(x) * 7.0,
    "a scaled numbering": lambda x, y: np.argsort(x) / 3.7 - 5.0,
    "a threshold": lambda x, y: np.abs(x) * y,
    "a copy": lambda x, y: 2.0 * y + 1.0,
    "a scale": lambda x, y: y * np.round(1.0 + np.abs(x)),
    "nothing": lambda x, y: x,
}


@pytest.mark.parametrize("rows", [60, 900, 5_000])
@pytest.mark.parametrize("regression", [False, True])
def test_columns_are_passed_over_only_where_nothing_would_be_found(rows, regression):
    rng = np.random.default_rng(rows)
    y = rng.normal(size=rows) if regression else np.sign(rng.normal(size=rows))
    X = np.column_stack([make(rng.normal(size=rows), y) for make in ODD.values() for _ in range(3)])
    ends = np.array([X.min(axis=0), X.max(axis=0)])
    screened = suspicion.suspects(X, y, X, ends)
    found = column.nothing()
    for j, x in enumerate(X.T):
        column.look(found, j, x, y, text=False, ends=ends[:, j])
        if column.is_id(x) or column.is_numbering(x):
            found["ids"].append(j)
    odd = {*found["codes"], *found["far"], *found["ids"], *found["perfect"]}
    assert len(odd) >= 15  # five kinds at least are there to be found
    assert odd <= set(np.flatnonzero(screened).tolist())
    assert rows < 900 or not screened[-3:].any()
