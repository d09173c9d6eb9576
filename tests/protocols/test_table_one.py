"""Files as people have them: what is refused, what is warned of, and Table 1."""

import re

import numpy as np
import pytest

from drfl.privacy import Guard
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.station import Station
from kit.program import drfl, write_csv

N = 120
NAMES = ("age", "chol", "sex", "ill")


def patients(seed, n=N, **columns):
    """Rows of age, cholesterol in mg/dL, sex and whether ill; columns may be replaced."""
    rng = np.random.default_rng(seed)
    age, chol = rng.normal(54.0, 9.0, n).round(1), rng.normal(240.0, 50.0, n).round()
    found = {
        "age": age,
        "chol": chol,
        "sex": np.where(rng.random(n) < 0.6, "m", "f"),
        "ill": np.where(age + rng.normal(0.0, 9.0, n) > 54.0, "yes", "no"),
    }
    for name, change in columns.items():
        found[name] = np.array(change(found)) if callable(change) else np.array(change)
    return found


def write(folder, name, columns):
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return write_csv(folder / f"{name}.csv", list(columns), list(rows))


def looked(folder, files, guard=None, **request):
    """The agreement of clients with these columns."""
    stations = {
        name: Station(name, write(folder, name, columns), guard and Guard(guard))
        for name, columns in files.items()
    }

    def carry(messages):
        return {name: stations[name].handle(message) for name, message in messages.items()}

    return preflight(DataRequest("ill", **request), list(stations), carry)


def three(**south):
    return {"north": patients(0), "west": patients(1), "south": patients(2, **south)}


def test_nothing_is_said_of_columns_that_a_rule_leaves_out(tmp_path):
    empty = three(chol=lambda found: np.where(np.arange(N) < 100, "", found["chol"].astype(str)))
    kept = looked(tmp_path, empty, missing="mean")
    assert [text for text in kept.warnings if "'chol' has no value in 83%" in text]
    assert "filled at south: chol 83%" in kept.describe()
    agreement = looked(tmp_path, empty, missing="mean", max_missing=0.5)
    (said,) = agreement.warnings
    assert said == "column 'chol' is left out: it has no value in 83% of the rows of 'south'"
    assert not [line for line in agreement.describe() if line.startswith("filled")]
    assert any(line.strip().startswith("chol") for line in agreement.describe())  # in the table


def test_good_files_are_told_without_a_warning(tmp_path):
    agreement = looked(tmp_path, three())
    assert agreement.warnings == ()
    cells = {(cell.column, cell.client): cell for cell in agreement.table.cells}
    own = patients(2)
    cell = cells["age", "south"]
    assert (cell.mean, cell.deviation) == pytest.approx((own["age"].mean(), own["age"].std()))
    assert cells["ill", "south"].shares["yes"] == pytest.approx((own["ill"] == "yes").mean())
    assert cells["sex", "south"].shares["f"] == pytest.approx((own["sex"] == "f").mean())
    assert any("chol" in line and "240" not in line for line in agreement.table.lines())


def test_labels_spelt_in_two_ways_are_refused_or_merged(tmp_path):
    capital = three(ill=lambda c: np.char.capitalize(c["ill"]))
    with pytest.raises(ValueError, match=r"'ill' holds 'no' and, at client 'south', 'No'.*--merge"):
        looked(tmp_path, capital)
    assert looked(tmp_path, capital, merge_labels=True).target.classes == ("no", "yes")
    blanks = three(sex=lambda c: np.char.add(c["sex"], "  "))
    assert looked(tmp_path, blanks).warnings == ()  # outer blanks have never mattered
    upper = three(sex=lambda c: np.char.upper(c["sex"]))
    with pytest.raises(ValueError, match="column 'sex' holds"):
        looked(tmp_path, upper)
    (sex,) = [c for c in looked(tmp_path, upper, merge_labels=True).columns if c.name == "sex"]
    assert {sex.reference, *sex.levels} == {"f", "m"}


def test_a_category_of_numbers_is_the_same_where_a_gap_made_them_decimal(tmp_path):
    pain = np.arange(N) % 4
    files = three(chol=[f"{k}.0" for k in pain])
    for name in ("north", "west"):
        files[name]["chol"] = pain
    agreement = looked(tmp_path, files, categorical=("chol",))
    (column,) = [c for c in agreement.columns if c.name == "chol"]
    assert {column.reference, *column.levels} == {"0", "1", "2", "3"}
    assert column.shares == pytest.approx([0.25] * 3)


def test_decimal_commas_are_refused_or_read(tmp_path):
    comma = {"age": lambda c: [str(v).replace(".", ",") for v in c["age"]]}
    with pytest.raises(ValueError, match=r"'age' holds numbers with a comma.*--decimal ,"):
        looked(tmp_path, three(**comma))
    gaps = {"age": lambda c: ["", *(str(v).replace(".", ",") for v in c["age"][1:])]}
    with pytest.raises(ValueError, match="numbers with a comma"):
        looked(tmp_path, three(**gaps), missing="mean")
    files = {name: patients(k, **comma) for k, name in enumerate(("north", "south"))}
    agreement = looked(tmp_path, files, decimal=",")
    cell = next(c for c in agreement.table.cells if (c.column, c.client) == ("age", "north"))
    assert cell.mean == pytest.approx(patients(0)["age"].mean())


@pytest.mark.parametrize(
    ("column", "factor", "words"),
    [
        ("age", 12.0, "years and months"),
        ("chol", 1 / 38.67, "mg/dL and mmol/L of cholesterol"),
        ("chol", 1000.0, "a power of a thousand"),
    ],
)
def test_other_units_at_one_client_are_told(tmp_path, column, factor, words):
    files = three(**{column: lambda c: (c[column] * factor).round(3)})
    (warning,) = looked(tmp_path, files).warnings
    assert f"column {column!r}" in warning
    assert "at 'south'" in warning
    assert words in warning


def test_two_clients_against_two_in_other_units_are_told(tmp_path):
    months = {"age": lambda c: c["age"] * 12}
    files = {
        "a": patients(0, 150),
        "b": patients(1, 150),
        "c": patients(2, **months),
        "d": patients(3, **months),
    }
    warnings = looked(tmp_path, files).warnings
    assert len(warnings) == 2
    assert all("years and months" in text for text in warnings)


def test_units_are_told_also_where_values_spread_as_far_as_their_mean(tmp_path):
    """Triglycerides in mg/dL and mmol/L: the means differ by less than the deviation of one."""
    values = np.random.default_rng(0).lognormal(4.6, 1.3, N)
    files = {"a": patients(0, chol=values.round()), "b": patients(1, chol=values[::-1].round())}
    assert looked(tmp_path, files).warnings == ()
    files["c"] = patients(2, chol=(values / 88.57).round(3))
    assert values.std() > values.mean()
    (warning,) = looked(tmp_path, files).warnings
    assert "mg/dL and mmol/L of triglycerides" in warning
    warm = patients(0)["age"] / 100 + 36.5
    files = {name: patients(k, age=warm.round(2)) for k, name in enumerate("ab")}
    files["c"] = patients(2, age=(32 + 1.8 * warm).round(2))
    (warning,) = looked(tmp_path, files).warnings
    assert "degrees Celsius and Fahrenheit" in warning


def test_several_codes_and_spikes_beside_each_other_are_told(tmp_path):
    chol = patients(2)["chol"].copy()
    chol[::6], chol[1::6], chol[2::12] = -9.0, 9999.0, -77.0
    warnings = looked(tmp_path, three(chol=chol)).warnings
    for code, count in ((-9, 20), (9999, 20), (-77, 10)):
        assert any(f"is {code} in {count} rows of 'south'" in text for text in warnings)


def test_an_outlier_is_told_in_a_column_that_is_mostly_the_same(tmp_path):
    chol = np.zeros(N)
    chol[:15] = np.arange(15) + 1.0
    assert looked(tmp_path, three(chol=chol + 240)).warnings == ()
    chol[0] = 1e15
    assert any("has a value at 'south'" in w for w in looked(tmp_path, three(chol=chol)).warnings)


@pytest.mark.parametrize("code", [-9.0, -999.0, 999.0, 0.0])
def test_codes_that_few_rows_hold_are_told_without_how_many(tmp_path, code):
    chol = np.where(np.arange(N) < 3, code, patients(2)["chol"])
    (warning,) = looked(tmp_path, three(chol=chol)).warnings
    assert f"column 'chol' is {code:g} in fewer than 5 rows of 'south', apart" in warning
    chol[:3] = 117.0  # a value of somebody
    assert looked(tmp_path, three(chol=chol)).warnings == ()


def test_codes_in_a_scale_are_told_and_its_values_are_not(tmp_path):
    scale = np.arange(N) % 4.0
    warnings = looked(tmp_path, three(chol=scale - 1.0)).warnings
    assert not any("apart from all other values" in text for text in warnings)
    scale[::10] = -9.0
    warnings = looked(tmp_path, three(chol=scale)).warnings
    assert any("column 'chol' is -9 in 12 rows of 'south'" in text for text in warnings)


@pytest.mark.parametrize("code", [-9.0, -999.0, 999.0, 0.0])
def test_codes_for_missing_values_are_told(tmp_path, code):
    chol = np.where(np.arange(N) % 4 == 0, code, patients(2)["chol"])
    warnings = looked(tmp_path, three(chol=chol)).warnings
    assert any(f"column 'chol' is {code:g} in 30 rows of 'south'" in text for text in warnings)


def test_a_usual_zero_is_not_a_code(tmp_path):
    counts = np.random.default_rng(0).poisson(1.0, N)
    assert looked(tmp_path, three(chol=counts + 200)).warnings == ()


def test_outliers_ids_copies_and_tiny_clients_are_told(tmp_path):
    wild = patients(2)["age"].copy()
    wild[7] = 1e15
    assert any(
        "'age' has a value at 'south'" in w for w in looked(tmp_path, three(age=wild)).warnings
    )
    files = {name: {**columns, "patient": np.arange(N) + 7} for name, columns in three().items()}
    (warning,) = looked(tmp_path, files).warnings
    assert "'patient' is a whole number that differs in every row" in warning
    assert "--exclude patient" in warning
    copies = {n: {"copy": c["ill"] == "yes", **c} for n, c in three().items()}
    (warning,) = looked(tmp_path, copies).warnings
    assert "'copy' alone tells the target" in warning
    graded = {
        n: {"grade": (c["ill"] == "yes") * (1 + np.arange(N) % 3), **c} for n, c in three().items()
    }
    (warning,) = looked(tmp_path, graded).warnings
    assert "'grade' alone tells the target without an error at 'north', 'west', 'south'" in warning
    tiny = {**three(), "one": patients(5, 4)}
    assert any("client 'one' has 4 rows" in w for w in looked(tmp_path, tiny).warnings)


def test_an_id_of_text_is_said_to_be_one(tmp_path):
    files = {
        name: {"name": np.array([f"{name}{k}" for k in range(40)]), **patients(j, 40)}
        for j, name in enumerate(("north", "south"))
    }
    (warning,) = looked(tmp_path, files).warnings
    assert "column 'name' is text with no value that 5 rows of a client hold" in warning


def test_a_guard_tells_no_more_than_its_sums(tmp_path):
    wild = patients(2)["age"].copy()
    wild[7] = 1e5
    with pytest.raises(ValueError, match="'age' is ruled by fewer than k = 5 rows"):
        looked(tmp_path, three(age=wild), guard=5)
    wild[7:27] = 1e5
    agreement = looked(tmp_path, three(age=wild), guard=5)
    assert not any("value" in warning for warning in agreement.warnings)
    assert {cell.column for cell in agreement.table.cells} == set(NAMES)


def test_names_that_no_client_has_are_refused_with_the_nearest(tmp_path):
    with pytest.raises(ValueError, match=r"--exclude AGE .did you mean 'age'\?"):
        looked(tmp_path, three(), exclude=("AGE",))
    with pytest.raises(ValueError, match=r"--exclude se .did you mean 'sex'\?"):
        looked(tmp_path, three(), exclude=("sex", "se"))
    with pytest.raises(ValueError, match=r"--categorical cholx .did you mean 'chol'\?"):
        looked(tmp_path, three(), categorical=("cholx",))
    with pytest.raises(
        ValueError, match=r"--exclude AGE .*, --exclude x .*, --categorical sexe .*: no"
    ):
        looked(tmp_path, three(), exclude=("AGE", "x"), categorical=("sexe",))
    files = three()
    files["west"]["only_here"] = np.arange(N) % 3
    files["north"]["and_here"] = np.arange(N) % 5
    with pytest.raises(ValueError, match=r"'and_here' \(not at 'west', 'south'\), 'only_here'"):
        looked(tmp_path, files)
    assert looked(tmp_path, files, exclude=("only_here", "and_here")).warnings == ()


def test_inspect_and_train_print_the_table_and_the_run_keeps_it(tmp_path):
    for name, columns in three(age=lambda c: c["age"] * 12).items():
        write(tmp_path, name, columns)
    files = [f"{name}.csv" for name in three()]
    said = drfl("inspect", *files, "--target", "ill", cwd=tmp_path)
    assert "Table 1" in said.out
    assert "years and months" in said.err
    clients = [text for file in files for text in ("--client", file)]
    options = ("--target", "ill", "--radius", "0.05", "--tol", "1e-2", "--out", "RUN")
    trained = drfl("train", *clients, *options, cwd=tmp_path)
    assert "years and months" in trained.err
    assert (tmp_path / "RUN" / "table-1.txt").read_text().startswith("Table 1")
    drfl("report", "RUN", "--quick", cwd=tmp_path)
    page = (tmp_path / "RUN" / "report.html").read_text()
    assert "years and months" in page


def trained(folder, files, *options):
    for name, columns in files.items():
        write(folder, name, columns)
    clients = [text for name in files for text in ("--client", f"{name}.csv")]
    return drfl("train", *clients, "--target", "ill", *options, "--out", "RUN", cwd=folder)


def test_coefficients_of_several_classes_stand_under_their_names(tmp_path):
    grades = {"ill": lambda c: np.array(["low", "mid", "top"])[(c["age"] // 10 % 3).astype(int)]}
    files = {name: patients(k, **grades) for k, name in enumerate(("north", "south"))}
    lines = trained(tmp_path, files, "--tol", "1e-2").out.splitlines()
    (at,) = [k for k, line in enumerate(lines) if "= the class above the column" in line]
    assert lines[at + 1].split() == ["low", "mid", "top"]
    ends = [lines[at + 1].index(name) + len(name) for name in ("low", "mid", "top")]
    assert [lines[at + 2][end - 1].isdigit() for end in ends] == [True] * 3


def test_the_report_says_which_of_the_leading_columns_are_filled(tmp_path):
    gaps = {"age": lambda c: np.where(np.arange(N) < 100, "", c["age"].astype(str))}
    trained(tmp_path, three(**gaps), "--missing", "mean", "--tol", "1e-2")
    drfl("report", "RUN", "--quick", cwd=tmp_path)
    page = (tmp_path / "RUN" / "report.html").read_text()
    assert "most by age" in page
    assert re.search("age has no value in 83.3.% of the rows of south: its mean stands there", page)


def libsvm(path, seed, factor):
    """120 rows of 30 sparse columns, and some in which something is wrong."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(N):
        ill = rng.random() < 0.4
        entries = {j: rng.normal() for j in range(1, 31) if rng.random() < 0.1}
        entries |= {31: 1.0} if ill else {}
        entries[32] = factor * rng.normal(240.0, 50.0)
        entries[33] = -999.0 if i % 10 == 0 else rng.normal()
        entries[34] = i + 1.0
        text = " ".join(f"{j}:{value:.6g}" for j, value in entries.items())
        lines.append(f"{1 if ill else -1} {text}\n")
    path.write_text("".join(lines))
    return path


def test_sparse_files_are_looked_at_too(tmp_path):
    stations = {
        name: Station(name, libsvm(tmp_path / f"{name}.libsvm", seed, factor))
        for seed, (name, factor) in enumerate({"north": 1.0, "south": 1.0, "west": 0.1}.items())
    }

    def carry(messages):
        return {name: stations[name].handle(message) for name, message in messages.items()}

    warnings = preflight(DataRequest("label"), list(stations), carry).warnings
    for words in (
        r"column 'x31' alone tells the target without an error at 'north', 'south', 'west'",
        r"column 'x32' has mean .* at 'west' and .*: they look like a power of ten",
        r"column 'x33' is -999 in 12 rows of 'north'",
        r"column 'x34' is a whole number that differs in every row",
    ):
        assert [text for text in warnings if re.match(words, text)], words
    assert not [text for text in warnings if re.match(r"column 'x([1-9]|[12]\d|30)'", text)]
