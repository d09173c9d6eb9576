"""Missing values: what is filled, with what, what is said of it, and what is left out by rule."""

import numpy as np
import pytest
from test_table_one import looked, patients, three

from drfl.tables import encoded
from drfl.training.client_file import ClientFile
from drfl.training.data_request import DataRequest


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
    with pytest.raises(ValueError, match="--max-missing goes with --missing mean"):
        DataRequest("ill", max_missing=0.5)


def test_a_column_that_a_rule_left_out_can_be_bound(tmp_path):
    request = DataRequest("ill", missing="mean", max_missing=0.4)
    files = three(chol=lambda c: gaps(c["chol"], 0.5))
    agreement = looked(tmp_path, files, missing="mean", max_missing=0.4)
    for name in files:
        ClientFile(tmp_path / f"{name}.csv", request, 0).require_agreed(agreement)


def test_a_mean_is_that_of_the_values_that_are_there(tmp_path):
    files = {"one": patients(0, age=lambda c: gaps(c["age"], 0.1)), "two": patients(1)}
    agreement = looked(tmp_path, files, missing="mean")
    (age,) = [c for c in agreement.columns if c.name == "age"]
    known = [float(v) for v in files["one"]["age"] if v] + patients(1)["age"].tolist()
    assert age.fill == pytest.approx(np.mean(known))
