"""The preflight: what is agreed upon is right, and only sums and common values cross."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataReply, DataRequest, array_text, text_array
from drfl.protocols.station import Station
from drfl.tables.moments import added, moments_of
from drfl.wire import Message, WireError

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(st.lists(values, min_size=1, max_size=4), st.sampled_from([0.0, 1e9]))
def test_moments_add_up(parts, offset):
    parts = [np.array(part)[:, None] + offset for part in parts]
    total = added([moments_of(part, None) for part in parts])
    whole = np.concatenate(parts)
    assert total.mean[0] == pytest.approx(whole.mean(), rel=1e-12, abs=1e-9)
    scale = max(1.0, np.abs(whole - offset).max())
    assert total.deviation[0] == pytest.approx(whole.std(), abs=1e-9 * scale + 1e-6 * (offset > 0))


def test_a_constant_column_has_no_deviation():
    parts = [np.full((n, 1), 0.1) for n in (3, 7, 1000)]
    assert added([moments_of(part, None) for part in parts]).deviation[0] == 0.0


def write(folder, name, rows, head="u,town,y"):
    path = folder / f"{name}.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return Station(name, path)


def agreed(stations, **request):
    known = {station.name: station for station in stations}

    def carry(messages):
        return {name: known[name].handle(message) for name, message in messages.items()}

    return preflight(DataRequest("y", **request), list(known), carry)


def test_no_row_and_no_rare_value_crosses(tmp_path):
    rng = np.random.default_rng(0)
    towns = ["rome"] * 20 + ["bern"] * 9 + ["Atlantis"] * 4
    numbers = rng.normal(size=33)
    rows = [
        f"{float(u)!r},{t},{k % 2}" for k, (u, t) in enumerate(zip(numbers, towns, strict=True))
    ]
    station = write(tmp_path, "p", rows)
    reply = station.handle(Message("preflight", 0, {"request": DataRequest("y").to_bytes()}))
    text = reply.arrays["facts"].tobytes().decode()
    assert "Atlantis" not in text
    assert array_text(reply.arrays["facts"])["texts"] == {
        "town": {"values": {"rome": 20, "bern": 9}, "other": True}
    }
    # One number of each kind per column of numbers: the count, the sum, the sum of squares.
    sent = [float(reply.arrays[name].item()) for name in ("count", "sum", "squares")]
    assert sent == pytest.approx([33, numbers.sum(), numbers.var() * 33])
    assert 33 not in [length for array in reply.arrays.values() for length in array.shape]


def test_the_order_of_labels_and_levels_does_not_depend_on_the_clients_order(tmp_path):
    one = write(tmp_path, "p", [f"{k},rome,yes" for k in range(6)] + ["0.5,bern,no"] * 5)
    two = write(tmp_path, "q", [f"{k},bern,no" for k in range(7)] + ["0.5,oslo,yes"] * 5)
    found = [agreed([one, two]), agreed([two, one])]
    assert found[0].columns == found[1].columns
    assert found[0].target == found[1].target
    assert found[0].target.classes == ("no", "yes")
    assert found[0].columns[1].reference == "bern"  # 12 rows in all


@pytest.mark.parametrize(
    ("labels", "task", "classes"),
    [
        (["0", "1"], "auto", (0, 1)),
        (["-1", "+1"], "auto", (-1, 1)),
        (["0.5", "1.5"], "auto", (0.5, 1.5)),
        (["true", "false"], "auto", ("false", "true")),
        (["1", "2", "3"], "auto", None),
        (["1", "2", "3"], "classification", (1, 2, 3)),
        (["a", "b", "c"], "auto", ("a", "b", "c")),
        (["0", "1"], "regression", None),
    ],
)
def test_what_the_target_is(tmp_path, labels, task, classes):
    rows = [f"{k * 0.7},rome,{labels[k % len(labels)]}" for k in range(12)]
    stations = [write(tmp_path, "p", rows), write(tmp_path, "q", rows)]
    found = agreed(stations, task=task)
    assert found.target.classes == classes
    if classes is not None:
        y = stations[0].file.rows(found)[1]
        assert [str(classes[int(k)]) for k in y] == [
            str(_plain(labels[k % len(labels)])) for k in range(12)
        ]


@pytest.mark.parametrize(
    ("values", "task", "asked"),
    [
        (range(4), "auto", True),
        (range(4), "regression", False),
        (range(4), "classification", False),
        (range(2), "auto", False),
        (range(12), "auto", False),
        ([0.5, 1.5, 2.5], "auto", False),
    ],
)
def test_few_whole_numbers_ask_whether_classes_are_meant(tmp_path, values, task, asked):
    values = list(values)
    rows = [f"{k * 0.7},rome,{values[k % len(values)]}" for k in range(60)]
    found = agreed([write(tmp_path, "p", rows), write(tmp_path, "q", rows)], task=task)
    said = [w for w in found.warnings if "are classes meant?" in w]
    assert len(said) == asked
    assert all("'y' has 4 different values" in w for w in said)


def _plain(label):
    try:
        number = float(label)
    except ValueError:
        return label
    return int(number) if number.is_integer() else number


def test_two_features_of_one_name_are_refused(tmp_path):
    rows = [f"{k},{('rome', 'oslo')[k % 2]},{k % 2}" for k in range(20)]
    station = write(tmp_path, "p", rows, head="town=rome,town,y")
    with pytest.raises(ValueError, match="'town=rome' and 'town' would both have a feature"):
        agreed([station])


def test_clients_rows_are_scaled_as_agreed(tmp_path):
    rng = np.random.default_rng(0)
    data = {name: rng.normal(size=(n, 1)) * 3 + 100 for name, n in (("p", 20), ("q", 35))}
    stations = [
        write(tmp_path, name, [f"{float(u[0])!r},{k % 2}" for k, u in enumerate(X)], head="u,y")
        for name, X in data.items()
    ]
    whole = np.concatenate(list(data.values()))
    for scale, expected in (
        ("federated", {n: (X - whole.mean()) / whole.std() for n, X in data.items()}),
        ("per-client", {n: (X - X.mean()) / X.std() for n, X in data.items()}),
        ("none", data),
    ):
        fresh = [Station(station.name, station.path) for station in stations]
        found = agreed(fresh, scale=scale)
        for station in fresh:
            rows = station.client(found, 1).rows
            assert np.allclose(rows.take(slice(None)), expected[station.name])


def test_a_request_travels():
    request = DataRequest("y", categorical=("a",), support={"u": (0.0, 1.0)}, scale="none")
    assert DataRequest.from_bytes(request.to_bytes()) == request


def good_reply(folder):
    rows = [f"{k * 0.7},{'rome' if k % 3 else 'bern'},{k % 2}" for k in range(24)]
    station = write(folder, "p", rows)
    return station.handle(Message("preflight", 0, {"request": DataRequest("y").to_bytes()}))


@given(st.data())
def test_a_reply_of_another_form_is_refused(tmp_path_factory, data):
    reply = good_reply(tmp_path_factory.mktemp("t"))
    DataReply.read(reply)
    facts = array_text(reply.arrays["facts"])
    key = data.draw(st.sampled_from([*facts, "new"]))
    wrong = st.sampled_from([None, -1, 1.5, "x", [], {}, [1], {"a": 1}, [["a"]]])
    changed = {**facts, key: data.draw(wrong)}
    if data.draw(st.booleans()) and key in facts:
        del changed[key]
    arrays = {**reply.arrays, "facts": text_array(changed)}
    with pytest.raises(WireError, match="agreed form"):
        DataReply.read(Message("preflight/reply", 0, arrays))


def test_facts_that_are_no_json_are_refused(tmp_path):
    arrays = dict(good_reply(tmp_path).arrays)
    for text in (b"{", b"\xff", b"[" * 100_000):
        arrays["facts"] = np.frombuffer(text, dtype=np.uint8)
        with pytest.raises(WireError, match="no JSON"):
            DataReply.read(Message("preflight/reply", 0, arrays))
