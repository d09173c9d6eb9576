"""The preflight as a channel: sums over chosen rows, bounds that are refused, rare values."""

import json
from dataclasses import replace

import numpy as np
import pytest
from attack_kit import Server, leverages, make_problem

from drfl.privacy import Guard, SpentError
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.station import Station
from drfl.tables import Number
from drfl.tables.encoding import Encoding, Target

N, K = 200, 5
NAMES = ["age", "lab", "dose", "ill", "old"]


@pytest.fixture
def file(tmp_path):
    """200 patients; one of them has no dose, 40 have no lab."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).round(6)
    ill = np.where(X[:, 0] + rng.normal(size=N) > 0.0, "yes", "no")
    old = np.where(X[:, 0] + 0.5 * rng.normal(size=N) > 0.3, "yes", "no")
    rows = [[*map(str, x), *t] for x, t in zip(X.tolist(), np.stack([ill, old], 1), strict=True)]
    rows[17][2] = ""
    for row in rows[100:140]:
        row[1] = ""
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(",".join(row) for row in [NAMES, *rows]) + "\n")
    return path, X


def stations(path, tmp_path):
    """Without a guard, and with one that remembers."""
    yield lambda: Station("a", path)
    yield lambda: Station("a", path, Guard(K, ledger=tmp_path / "ledger"))


def sums(station, **request):
    """What a server hears of the columns, by name; None if it is refused."""
    try:
        told = station.look(DataRequest("ill", **request))
    except ValueError:  # at a site it would be a code, no more
        return None
    facts = json.loads(told["facts"].tobytes())
    return dict(zip(facts["numbers"], told["sum"].tolist(), strict=True)), facts


def test_sums_with_and_without_one_row(file, tmp_path, table):
    """Which columns are read decides which rows are dropped: two sums differ by one row."""
    path, X = file
    found = []
    for station in stations(path, tmp_path):
        whole = sums(station(), missing="drop", exclude=("lab", "dose"))
        less = sums(station(), missing="drop", exclude=("lab",))
        assert whole is not None
        found.append(less is not None and whole[0]["age"] - less[0]["age"])
    assert found[0] == pytest.approx(X[17, 0], abs=1e-9)
    assert found[1] is False
    table("preflights whose sums differ by one row", "a row", "refused")


def test_a_preflight_beyond_the_budget_is_refused_before_the_file_is_read(file, tmp_path):
    """What has been told may be asked again; a new question finds no reader of the file."""
    path, _ = file
    copy = tmp_path / "copy.csv"
    copy.write_bytes(path.read_bytes())
    guard = Guard(K, ledger=tmp_path / "ledger", preflights=1)
    first = DataRequest("ill", missing="drop", exclude=("lab", "dose"))
    told = Station("a", copy, guard).look(first)
    again = Station("a", copy, guard).look(first)
    assert again["sum"].tolist() == told["sum"].tolist()
    copy.unlink()
    with pytest.raises(SpentError, match="1 preflights"):
        Station("a", copy, guard).look(DataRequest("ill", missing="drop", exclude=("dose",)))


def test_a_column_that_one_row_lacks(file, tmp_path):
    """The row without a value would be filled with what all agree upon, and be counted.

    From its own sums and those of the filled column follows how many gaps a client has. With a
    guard one gap holds the client's mean and counts as a value: the two sums are the same.
    """
    path, X = file
    found = []
    for station in (make() for make in stations(path, tmp_path)):
        agreement = preflight(
            request("mean"), ["a"], lambda sent, s=station: {"a": s.handle(sent["a"])}
        )
        told = {cell.column: cell for cell in agreement.table.cells}
        # A server may claim any mean over all clients.
        dose = next(c for c in agreement.columns if c.name == "dose")
        other = replace(dose, fill=dose.fill + 7.0)
        columns = tuple(other if c is dose else c for c in agreement.columns)
        rows, _ = station.file.rows(replace(agreement, columns=columns))
        filled = rows[:, columns.index(other)].sum()
        found.append((filled - told["dose"].rows * told["dose"].mean) / (dose.fill + 7.0))
        # 40 rows are many enough to be counted.
        assert told["lab"].rows == N - 40
    assert found == pytest.approx([1.0, 0.0], abs=1e-9)
    assert X.shape == (N, 3)


def request(missing):
    return DataRequest("ill", missing=missing)


def test_values_of_a_few_rows_are_gaps(tmp_path):
    """Two values in a column: what is filled around them is known, so their sum would be theirs."""
    rng = np.random.default_rng(1)
    age, ill = rng.normal(size=N).round(6), np.where(np.arange(N) % 2, "yes", "no")
    for held, used in (([3, 50], 0), (range(0, 2 * K, 2), K), ([*range(0, 40, 2), 1], 0)):
        lab = np.full(N, "", dtype=object)
        lab[list(held)] = rng.normal(size=len(held)).round(6).astype(str)
        lines = [",".join(row) for row in zip(age.astype(str), lab, ill, strict=True)]
        path = tmp_path / f"{len(held)}.csv"
        path.write_text("\n".join(["age,lab,ill", *lines]) + "\n")
        station = Station("a", path, Guard(K))
        told = station.look(request("indicator"))
        facts = json.loads(told["facts"].tobytes())
        assert told["count"][facts["numbers"].index("lab")] == used
        agreed = Encoding(
            Target("ill", ("no", "yes")),
            (Number("age", fill=0.0), Number("lab", fill=9.0, indicator=True)),
            "federated",
            "indicator",
        )
        X, _ = station.file.rows(agreed)
        if not used:
            assert set(X[:, 1]) == {9.0}
            assert set(X[:, 2]) == {1.0}  # no mark tells of single rows


def test_labels_with_and_without_other_spellings(file, tmp_path, table):
    """The two counts of a label differ by the few people whose label is spelled otherwise."""
    path, _ = file
    lines = path.read_text().splitlines()
    few = [k for k, line in enumerate(lines) if line.endswith(",yes")][:2]
    path.write_text("\n".join(t[:-3] + "Yes" if k in few else t for k, t in enumerate(lines)))

    def counts(station):
        for merge in (False, True):
            told = sums(station(), exclude=("lab", "dose"), merge_labels=merge)
            yield told and told[1]["texts"]["old"]["values"].get("yes", 0)

    plain, guarded = (list(counts(station)) for station in stations(path, tmp_path))
    assert plain[1] - plain[0] == len(few)
    assert guarded[0] is not None
    assert guarded[1] is None
    table("labels counted as they are and with other spellings", "a count of 2", "refused")


def test_bounds_of_a_support_are_not_compared(file, tmp_path, table):
    """Refused or not, bisected: the largest entry of a column."""
    path, X = file
    found = []
    for station in stations(path, tmp_path):
        low, high = 0.0, 10.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            bounds = {"age": (-10.0, middle)}
            fits = sums(station(), exclude=("lab", "dose"), support=bounds) is not None
            low, high = (low, middle) if fits else (middle, high)
        found.append(abs(high - X[:, 0].max()))
    assert found[0] < 1e-6
    assert found[1] > 1.0
    table("bounds of a support, bisected: error of the largest entry", *found, "deviations")


def test_few_dropped_rows_are_not_counted(file, tmp_path):
    path, _ = file
    dropped = [
        sums(station(), missing="drop", exclude=("lab",))[1]["dropped"]
        for station in stations(path, tmp_path)
    ]
    assert dropped == [1, K]


def test_the_answer_is_in_the_ledger_before_it_leaves(file, tmp_path):
    """The same request have the stored answer, others go into the same ledger."""
    path, _ = file
    guard = Guard(K, ledger=tmp_path / "ledger")
    request = DataRequest("ill", exclude=("lab", "dose"))
    first, second = Station("a", path, guard), Station("a", path, guard)
    told = [station.look(request) for station in (first, second)]
    assert [array.tobytes() for array in told[0].values()] == [
        array.tobytes() for array in told[1].values()
    ]
    assert second.ledger.count("sums") == 1
    third = Station("a", path, guard)
    third.look(DataRequest("age", exclude=("lab", "dose")))
    assert third.ledger.count("sums") == 2
    assert third.ledger.key == first.ledger.key


@pytest.mark.parametrize("guarded", [False, True])
def test_trainings_with_other_columns_or_targets_share_the_leverage(file, tmp_path, guarded, table):
    """The rows are the same, whatever is made of them: two trainings together isolate rows."""
    path, _ = file
    weights = [np.ones(N)]
    for target, exclude in (("ill", ("lab", "dose")), ("old", ("lab", "dose", "ill"))):
        station = Station("a", path, Guard(K, ledger=tmp_path / "ledger") if guarded else None)
        agreement = preflight(
            DataRequest(target, exclude=exclude),
            ["a"],
            lambda m, station=station: {"a": station.handle(m["a"])},
        )
        server = Server(station.client(agreement, 1), make_problem())
        for t in np.linspace(-1.0, 1.0, 40):
            x = np.linspace(0.5, 1.0, server.site.dimension)
            x[-1] = t
            server.ask(x)
        weights += list(server.weights)
    if guarded:
        ledger = server.client.ledger
        assert ledger.count("answer") == 80
        assert ledger.count("sums") == 2
        sent = [e.arrays["weights"] for e in ledger.entries if "weights" in e.arrays]
        weights = [np.ones(N), *sent]
    largest = leverages(np.array(weights)).max()
    assert largest <= 1.0 / K + 1e-9 if guarded else largest > 1.0 - 1e-9
    if guarded:
        attack = "trainings on one file with other columns and another target: largest leverage"
        table(attack, 1.0, largest)


def test_changed_files_are_refused(file, tmp_path):
    path, _ = file
    guard = Guard(K, ledger=tmp_path / "ledger")
    request = DataRequest("ill", exclude=("lab", "dose"))
    Station("a", path, guard).look(request)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:50] + lines[51:]))
    with pytest.raises(ValueError, match="not those of the ledger"):
        Station("a", path, guard).look(request)


ENDINGS = [".csv", ".csv.gz", ".xlsx", ".parquet"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("few", [1, K - 1])
def test_another_extract_with_a_few_rows_less_begins_no_ledger(file, tmp_path, ending, few, table):
    """In any format, in another order, with the columns in another order."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(file[0]).drop(columns=["lab", "dose"])

    def station(rows, name):
        path = tmp_path / f"{name}{ending}"
        if ending == ".parquet":
            rows.to_parquet(path, index=False)
        elif ending == ".xlsx":
            rows.to_excel(path, index=False)
        else:
            rows.to_csv(path, index=False)
        return Station("a", path, Guard(K, ledger=tmp_path / f"{name}.ledger"))

    request = DataRequest("ill")
    station(frame, "old").look(request)
    less = frame.iloc[few:].sample(frac=1.0, random_state=0)[["old", "ill", "age"]]
    with pytest.raises(ValueError, match="but for fewer than k = 5"):
        station(less, "new").look(request)
    station(frame.iloc[K:], "other").look(request)
    table(
        "an extract with 1 to k - 1 rows less, in any format, beside its ledger", "a row", "refused"
    )
