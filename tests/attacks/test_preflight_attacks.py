"""The preflight as a channel: sums over chosen rows, bounds that are refused, rare values."""

import json
from dataclasses import replace

import numpy as np
import pytest
from attack_kit import Server, leverages, make_problem

from drfl.privacy import Guard, SpentError, audit
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
    except (ValueError, SpentError):  # at a site it would be a code, no more
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
    for held, used in (([3, 50], 0), (range(0, 60, 2), 30), ([*range(0, 40, 2), 1], 0)):
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


def write(tmp_path, **columns):
    """A file with an age, an illness and these columns."""
    rng = np.random.default_rng(2)
    ill = np.arange(N) % 2
    table = {"age": rng.normal(60.0, 10.0, size=N).round(3), **columns, "ill": ill}
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    path = tmp_path / "file.csv"
    path.write_text("\n".join([",".join(table), *lines]) + "\n")
    return path


def marked(people, value=1.0, gaps=0):
    """0 for all but some, with gaps in the last rows."""
    column = np.zeros(N, dtype=object)
    column[list(people)] = value
    column[N - gaps :] = ""
    return column


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (marked([17], 7.3), 7.3),  # one person's number
        (marked([3, 9, 41]), 3),  # three people
        (marked([*range(0, 60, 2), 1, 3]), 32),  # two people of one class, 30 of the other
        (marked([3, 9, 41], gaps=50), 3),
        (marked([*range(0, 60, 2), 1, 3], gaps=50), 32),
    ],
    ids=["one", "three", "two of a class", "three, gaps", "two of a class, gaps"],
)
def test_sums_of_a_column_that_few_people_rule(tmp_path, column, told, table):
    """The preflight tells the sum of every column, before anybody is bound."""
    path, missing = write(tmp_path, mark=column), "mean" if "" in column else "error"
    plain, guarded = (make() for make in stations(path, tmp_path))
    heard = sums(plain, missing=missing)
    assert heard[0]["mark"] == pytest.approx(told)
    heard = sums(guarded, missing=missing)
    assert heard is None or heard[0]["mark"] == 0.0  # all of them count as gaps
    attack = "sums of the preflight: a column that one to k - 1 people rule, or of a class"
    table(attack, "the entry, or the count", "refused")


@pytest.mark.parametrize("ones", [0, 3])
def test_sums_of_a_target_that_few_people_rule(tmp_path, ones):
    target = np.arange(N) % 2 * 0.0 if ones else (np.arange(N) % 3) * 1e-3
    target[5 : 5 + max(ones, 1)] = 1.0 if ones else 99.5
    path = write(tmp_path, dose=target)
    message = DataRequest("dose", task="regression")
    told = json.loads(Station("a", path).look(message)["facts"].tobytes())["target"]["moments"]
    assert told[1] == pytest.approx(target.sum())
    with pytest.raises(ValueError, match="fewer than k = 5"):
        Station("a", path, Guard(K)).look(message)


def test_gaps_by_class(tmp_path, table):
    """Six gaps, one of them in a class: two bindings with other fills differ by f times 5 - 1."""
    dose = np.random.default_rng(3).normal(size=N).round(4).astype(object)
    dose[[1, 3, 5, 7, 9, 10]] = ""
    path, found = write(tmp_path, dose=dose), []
    for guarded in (None, Guard(K, secret=b"k")):
        slopes = []
        for fill in (-5.0, 5.0):
            station = Station("a", path, guarded)
            agreed = preflight(request("mean"), ["a"], lambda m, s=station: {"a": s.handle(m["a"])})
            columns = tuple(replace(c, fill=fill) for c in agreed.columns)
            server = Server(station.client(replace(agreed, columns=columns), 1), make_problem())
            server.ask(np.zeros(3))
            slopes.append(server.slopes[0] * agreed.columns[1].scale)
        found.append(abs(slopes[0] - slopes[1])[1] * N / 10.0)
    assert found[0] == pytest.approx(4.0, abs=1e-9)  # so 5 and 1
    assert found[1] == pytest.approx(0.0, abs=1e-9)
    table("gaps by class, from two numbers to fill them with", "5 and 1 people", "nothing")


def test_preflights_that_are_refused_are_counted(file, tmp_path, table):
    """Whether a column has a gap is one bit per question; the twentieth is the last."""
    path, _ = file
    policy, answers = Guard(K, ledger=tmp_path / "ledger"), []
    for number in range(30):
        asked = DataRequest("ill", exclude=("lab", f"nothing {number}"))
        try:
            Station("a", path, policy).look(asked)
        except ValueError as error:
            answers.append("gap" if "'dose' has no value" in str(error) else str(error))
        except SpentError:
            answers.append("spent")
    assert answers == ["gap"] * 20 + ["spent"] * 10
    path.write_text(path.read_text().replace(",,", ",0.5,"))  # mended: an old question is asked
    assert Station("a", path, policy).look(DataRequest("ill", exclude=("lab", "nothing 3")))
    assert "sums over all rows: 1, 20 preflights refused" in audit(tmp_path / "ledger")
    table("preflights that are refused: a bit each", "any number of bits", "20 bits")


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
@pytest.mark.sampled(2)
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
