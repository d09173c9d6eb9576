"""Rows in the pieces of curves: what a client tells, and which knots are kept."""

import numpy as np
import pytest
from scipy import sparse

from drfl.curves import Curves
from drfl.models.plain import encoding_to_plain
from drfl.privacy import Guard, SpentError
from drfl.protocols.agreement import preflight
from drfl.protocols.curve_rows import PIECES, agreed_pieces, told_pieces
from drfl.protocols.data_request import DataRequest, text_array
from drfl.protocols.station import Station
from drfl.rows import Rows
from drfl.training.local_files import Files
from drfl.wire import Message, WireError

WANTED = Curves([[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], []])


def write(path, seed, rows=200):
    rng = np.random.default_rng(seed)
    age, smokes = 50.0 + 10.0 * rng.normal(size=rows), rng.integers(2, size=rows)
    sex = rng.choice(["m", "f"], rows)
    ill = np.where(age + 5.0 * rng.normal(size=rows) > 50.0, "yes", "no")
    lines = [f"{a:.3f},{s},{x},{i}" for a, s, x, i in zip(age, smokes, sex, ill, strict=True)]
    path.write_text("\n".join(["age,smokes,sex,ill", *lines]), encoding="utf-8")
    return age


@pytest.fixture
def ages(tmp_path):
    return {name: write(tmp_path / f"{name}.csv", seed) for seed, name in enumerate("ab")}


def federation(folder, guard=None):
    guards = {name: guard and Guard(guard, ledger=folder / f"{name}.ledger") for name in "ab"}
    found = Files([Station(name, folder / f"{name}.csv", guards[name]) for name in "ab"])
    return found, preflight(DataRequest(target="ill"), found.names, found.ask)


def test_counts_are_those_of_the_files_and_few_are_not_told():
    X = np.array([[-2.0]] * 7 + [[0.5]] * 3 + [[1.5]] * 30)
    curves = Curves([[-1.0, 0.0, 1.0]])
    told = told_pieces(Rows(X, np.ones(40)), curves, 0)
    assert told["counts"].tolist() == [7, 0, 1, 30]
    assert told["single"].tolist() == [1]  # three values, each in a piece of its own
    assert told_pieces(Rows(X[3:], np.ones(37)), curves, 0)["counts"].tolist() == [1, 0, 1, 30]
    two = np.repeat([0.0, 1.0], 20)[:, None]
    assert told_pieces(Rows(two, np.ones(40)), curves, 0)["single"].tolist() == [1]
    curves = Curves([[0.5]])
    three = np.repeat([0.0, 1.0, 2.0], 20)[:, None]
    assert told_pieces(Rows(three, np.ones(60)), curves, 0)["single"].tolist() == [0]
    rare = Rows(three[:44], np.ones(44))
    assert told_pieces(rare, curves, 0)["single"].tolist() == [0]
    assert told_pieces(rare, curves, 5)["single"].tolist() == [1]  # of 4 rows a guard tells nothing


def test_rows_are_counted_block_by_block():
    """Many blocks, sparse and dense: the counts of one array; 1 in 1,000 is a third value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150_000, 3)) * (rng.random((150_000, 3)) < 0.3)
    X[:, 1] = rng.integers(2, size=150_000)
    X[:150, 1] = 2.0
    X[:, 2] = rng.integers(2, size=150_000)
    curves = Curves([[-1.0, 0.0, 1.0], [0.5], []])
    expected = np.concatenate([curves.counts(j, X[:, j]) for j in range(3)])
    for data in (X, sparse.csr_array(X)):
        rows = Rows(data, np.ones(len(X)))
        assert len(list(rows.dense_blocks())) > 1
        told = told_pieces(rows, curves, 0)
        np.testing.assert_array_equal(told["counts"], expected)
        assert told["single"].tolist() == [0, 0, 0]
    X[:150, 1] = 1.0
    assert told_pieces(Rows(X, np.ones(len(X))), curves, 0)["single"].tolist() == [0, 1, 0]


def test_every_piece_that_is_left_has_rows_at_every_client(ages, tmp_path):
    found, agreement = federation(tmp_path)
    wanted = Curves([[-3.5, -1.0, 0.0, 1.0, 2.9], [-1.0, 0.0, 1.0], []])
    curves, rows = agreed_pieces(found, agreement, wanted)
    assert curves.knots == ((-1.0, 0.0, 1.0), (), ())  # two values stay linear
    column = agreement.columns[0]
    for name, age in ages.items():
        z = (np.round(age, 3) - column.shift) / column.scale
        counts = curves.counts(0, z)
        assert (counts >= 5).all()
        # Few rows beyond an outer knot count as one.
        np.testing.assert_allclose(rows[name][:4], counts, atol=3)
        assert sum(rows[name][:4]) <= 200


@pytest.mark.parametrize("guard", [None, 5])
def test_rows_tell_the_slopes_of_few_values_apart(tmp_path, guard):
    """Four values in four pieces have three differences: one of four slopes is another's back."""
    rng = np.random.default_rng(0)
    for name in "ab":
        vessels, ill = rng.integers(4, size=400), rng.choice(["y", "n"], 400)
        lines = [f"{v},{x}" for v, x in zip(vessels, ill, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["vessels,ill", *lines]), encoding="utf-8")
    found, agreement = federation(tmp_path, guard)
    curves, rows = agreed_pieces(found, agreement, Curves([[-0.84, 0.0, 0.84]]))
    assert len(curves.knots[0]) == 2
    assert all(min(counts) > 50 for counts in rows.values())


def test_a_guarded_client_tells_multiples_of_k_and_one_set_of_knots(ages, tmp_path):
    found, agreement = federation(tmp_path, guard=5)
    curves, rows = agreed_pieces(found, agreement, WANTED)
    assert len(curves.knots[0]) >= 1
    assert curves.knots[1] == ()
    for counts in rows.values():
        assert all(count % 5 == 0 for count in counts)
        assert min(counts[: len(curves.knots[0]) + 1]) >= 5
    again, same = agreed_pieces(found, agreement, WANTED)
    assert (again, same) == (curves, rows)
    with pytest.raises(ValueError, match="other knots under this ledger"):
        agreed_pieces(found, agreement, Curves([[-0.99, 0.0, 1.0], [], []]))


def test_pieces_count_as_preflights(ages, tmp_path):
    guard = Guard(5, ledger=tmp_path / "a.ledger", preflights=1)
    station = Station("a", tmp_path / "a.csv", guard)
    found = Files([station])
    agreement = preflight(DataRequest(target="ill"), found.names, found.ask)
    with pytest.raises(SpentError, match="its 1 preflights"):
        agreed_pieces(found, agreement, WANTED)


def test_a_question_of_another_form_is_refused(ages, tmp_path):
    found, agreement = federation(tmp_path)
    encoding, fresh = text_array(encoding_to_plain(agreement)), Station("a", tmp_path / "a.csv")
    for station, curves, sentence in [
        (fresh, WANTED.to_dict(), "before the preflight"),
        (found.stations["a"], Curves([[0.0]]).to_dict(), "other columns"),
        (found.stations["a"], {"knots": 3}, "cannot be read"),
    ]:
        message = Message(PIECES, 0, {"encoding": encoding, "curves": text_array(curves)})
        with pytest.raises(WireError, match=sentence):
            station.handle(message)


@pytest.mark.parametrize("counts", [[-1] * 9, [10**6] * 9])
def test_impossible_counts_are_refused(ages, tmp_path, counts):
    found, agreement = federation(tmp_path)

    class Lying(Files):
        def ask(self, messages, *, partial=False):
            arrays = {"counts": np.array(counts), "single": np.zeros(3, dtype=np.int64)}
            return {name: message.reply(arrays) for name, message in messages.items()}

    with pytest.raises(WireError, match="more rows in the pieces"):
        agreed_pieces(Lying(list(found.stations.values())), agreement, WANTED)


def test_pieces_of_another_target_are_another_question(tmp_path):
    """Which pieces are heavy depends on the classes: an old answer would be of other ones."""
    rng = np.random.default_rng(0)
    age = 50.0 + 10.0 * rng.normal(size=300)
    ill = np.where(age + 30.0 * rng.normal(size=300) > 50.0, "yes", "no")
    below = np.sort(age[age < age.mean() + age.std()])
    old = np.where(age > below[-4], "yes", "no")  # three of them are below one deviation
    lines = [f"{a:.3f},{i},{o}" for a, i, o in zip(age, ill, old, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["age,ill,old", *lines]), encoding="utf-8")
    told = {}
    for target, other in (("ill", "old"), ("old", "ill")):
        station = Station("a", tmp_path / "a.csv", Guard(5, ledger=tmp_path / "a.ledger"))
        request = DataRequest(target, exclude=(other,))
        agreement = preflight(request, ["a"], lambda m, s=station: {"a": s.handle(m["a"])})
        arrays = {
            "encoding": text_array(encoding_to_plain(agreement)),
            "curves": text_array(Curves([[0.0, 1.0]]).to_dict()),
        }
        told[target] = station.handle(Message(PIECES, 0, arrays)).arrays["counts"].tolist()
    assert all(told["ill"])
    assert 0 in told["old"]
