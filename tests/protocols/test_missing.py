"""Missing values: what is filled, with what, what is said of it, and what is left out by rule."""

import numpy as np
import pytest
from test_table_one import looked, patients, three, write

from drfl.protocols.client_file import ClientFile
from drfl.protocols.data_request import DataRequest
from drfl.tables import encoded
from kit.program import drfl


def gaps(values, share):
    """The values with every so many left out."""
    texts = [str(value) for value in values]
    return ["" if (k * share) % 1.0 < share else text for k, text in enumerate(texts)]


def test_a_missing_category_is_a_level_of_its_own(tmp_path):
    files = three(sex=lambda c: gaps(c["sex"], 0.25))
    with pytest.raises(ValueError, match="column 'sex' has no value"):
        looked(tmp_path, files)
    agreement = looked(tmp_path, files, missing="mean")
    (sex,) = [c for c in agreement.columns if c.name == "sex"]
    assert set(sex.levels) | {sex.reference} == {"f", "m", "missing"}
    assert sex.knows_gaps
    file = ClientFile(tmp_path / "south.csv", DataRequest("ill", missing="mean"), 0)
    X, _ = file.rows(agreement)
    at = agreement.features.index("sex=missing")
    assert X[:, at].sum() == sum(text == "" for text in files["south"]["sex"]) == 30
    cell = next(c for c in agreement.table.cells if (c.column, c.client) == ("sex", "south"))
    assert cell.missing == 0.25


def test_gaps_at_prediction_are_what_they_were_in_training(tmp_path):
    files = three(sex=lambda c: gaps(c["sex"], 0.25))
    agreement = looked(tmp_path, files, missing="mean")
    file = ClientFile(tmp_path / "south.csv", DataRequest("ill", missing="mean"), 0)
    raw = ClientFile(tmp_path / "south.csv", DataRequest("ill", missing="drop"), 0).table
    assert np.array_equal(encoded(raw, agreement.columns), file.rows(agreement)[0])


def test_columns_that_are_mostly_filled_are_told_or_left_out_by_rule(tmp_path):
    files = three(chol=lambda c: gaps(c["chol"], 0.5))
    warnings = looked(tmp_path, files, missing="mean").warnings
    assert any("'chol' has no value in 50% of the rows of 'south'" in w for w in warnings)
    agreement = looked(tmp_path, files, missing="mean", max_missing=0.4)
    assert "chol" not in agreement.features
    assert any("'chol' is left out: it has no value in 50%" in w for w in agreement.warnings)
    assert "chol" in looked(tmp_path, files, missing="mean", max_missing=0.5).features
    with pytest.raises(ValueError, match="--max-missing goes with --missing mean or indicator"):
        DataRequest("ill", max_missing=0.5)


def test_a_column_that_a_rule_left_out_can_be_bound(tmp_path):
    request = DataRequest("ill", missing="mean", max_missing=0.4)
    files = three(chol=lambda c: gaps(c["chol"], 0.5))
    agreement = looked(tmp_path, files, missing="mean", max_missing=0.4)
    for name in files:
        ClientFile(tmp_path / f"{name}.csv", request, 0).require_agreed(agreement)


def column(agreement, name):
    return next(c for c in agreement.columns if c.name == name)


def test_an_indicator_says_where_a_number_was_missing(tmp_path):
    files = three(age=lambda c: gaps(c["age"], 0.25))
    agreement = looked(tmp_path, files, missing="indicator")
    assert agreement.features[:3] == ["age", "age=missing", "chol"]
    assert not column(agreement, "chol").indicator  # it has no gap anywhere
    request = DataRequest("ill", missing="indicator")
    for name, columns in files.items():
        file = ClientFile(tmp_path / f"{name}.csv", request, 0)
        file.require_agreed(agreement)
        X, _ = file.rows(agreement)
        empty = np.array([text == "" for text in columns["age"]])
        assert np.array_equal(X[:, 1] == 1.0, empty)
        assert set(X[empty, 0]) <= {column(agreement, "age").fill}
        shift, scale = file.scaling(agreement)
        assert (shift[1], scale[1]) == (0.0, 1.0)
    assert agreement.column_sizes["south"][1] == 1.0


def test_gaps_can_be_treated_column_by_column(tmp_path):
    files = three(age=lambda c: gaps(c["age"], 0.25), chol=lambda c: gaps(c["chol"], 0.125))
    by = {"age": "indicator", "chol": "drop"}
    agreement = looked(tmp_path, files, missing_columns=by)
    assert column(agreement, "age").indicator
    assert column(agreement, "chol").fill is None
    assert agreement.rows["south"] == 105
    assert agreement.missing == "drop"  # what a prediction does with a row without chol
    with pytest.raises(
        ValueError, match=r"column 'chol' has no value .* --missing drop, mean or ind"
    ):
        looked(tmp_path, files, missing_columns={"age": "mean"})
    with pytest.raises(ValueError, match=r"--missing-columns agee .did you mean 'age'"):
        looked(tmp_path, files, missing="mean", missing_columns={"agee": "drop"})
    with pytest.raises(ValueError, match="unknown --missing-columns of 'age'"):
        DataRequest("ill", missing_columns={"age": "median"})
    with pytest.raises(ValueError, match="'ill' is the target"):
        DataRequest("ill", missing_columns={"ill": "mean"})


def test_rows_without_a_target_can_be_left_out(tmp_path):
    files = three(ill=lambda c: gaps(c["ill"], 0.125), age=lambda c: gaps(c["age"], 0.25))
    with pytest.raises(ValueError, match="--missing-columns ill=drop"):
        looked(tmp_path, files, missing="mean")
    agreement = looked(tmp_path, files, missing="mean", missing_columns={"ill": "drop"})
    assert agreement.rows["south"] == 105


def test_what_is_filled_is_said_of_every_client(tmp_path):
    files = three(chol=lambda c: gaps(c["chol"], 0.5), age=lambda c: gaps(c["age"], 0.25))
    agreement = looked(tmp_path, files, missing="mean")
    assert "filled at south: chol 50%, age 25%" in agreement.describe()
    (warning,) = agreement.warnings
    assert "50% of the rows of 'south'; the mean over all clients stands there" in warning
    assert "--missing-columns chol=indicator" in warning


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_a_guard_fills_gaps_and_trains(tmp_path, missing):
    """One gap, many gaps, a column with two values: none forbids a column any more."""
    few, none = patients(2)["chol"].astype(str), np.full(120, "", dtype=object)
    few[7] = ""
    none[[3, 9]] = "250"
    files = {
        "north": patients(0, age=lambda c: gaps(c["age"], 0.25)),
        "south": patients(2, chol=few),
        "west": patients(1, chol=none),
    }
    for name, columns in files.items():
        write(tmp_path, name, columns)
    clients = [text for name in files for text in ("--client", f"{name}.csv")]
    options = ("--target", "ill", "--missing", missing, "--guard", "5", "--tol", "0.9")
    said = drfl("train", *clients, *options, "--out", "RUN", cwd=tmp_path)
    table = (tmp_path / "RUN" / "table-1.txt").read_text()
    assert "filled at north: age 25%" in table
    assert "filled at west: chol 100%" in table  # two values are told of as gaps
    assert "filled at south" not in table  # one gap is told of as a value
    assert ("age=missing" in said.out) == (missing == "indicator")
    drfl("predict", "RUN/model.json", "west.csv", cwd=tmp_path)


def test_rows_scaled_by_themselves_have_the_scores_of_the_training(tmp_path):
    """Scale and fill of a model with --scale per-client are those that its clients trained with."""
    files = three(age=lambda c: gaps(c["age"], 0.3))
    request = DataRequest("ill", missing="mean", scale="per-client")
    agreement = looked(tmp_path, files, missing="mean", scale="per-client")
    for name in files:
        file = ClientFile(tmp_path / f"{name}.csv", request, 0)
        X, _ = file.rows(agreement)
        shift, scale = file.scaling(agreement)
        scaled = ((X - shift) / scale)[:, :2]
        assert np.allclose(scaled.mean(axis=0), 0.0, atol=1e-9)
        assert np.allclose(scaled.std(axis=0), 1.0)
        sizes = np.sqrt(np.square(scaled).mean(axis=0))
        assert (np.array(agreement.column_sizes[name][:2]) >= sizes).all()


def test_a_mean_is_that_of_the_values_that_are_there(tmp_path):
    files = {"one": patients(0, age=lambda c: gaps(c["age"], 0.1)), "two": patients(1)}
    agreement = looked(tmp_path, files, missing="mean")
    (age,) = [c for c in agreement.columns if c.name == "age"]
    known = [float(v) for v in files["one"]["age"] if v] + patients(1)["age"].tolist()
    assert age.fill == pytest.approx(np.mean(known))
