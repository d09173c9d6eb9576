"""Curves as a channel: knots that are moved around a row, pieces that are counted, refusals."""

import numpy as np
import pytest
from attack_kit import guard, make_client

import drfl
from drfl.client import Site
from drfl.curves import Curves
from drfl.models.plain import encoding_to_plain
from drfl.privacy import Guard, SpentError
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest, text_array
from drfl.protocols.station import Station
from drfl.wire import Failure, Message
from kit.program import write_csv

N, K = 400, 5


@pytest.fixture
def path(tmp_path):
    plain = make_client(N, 2)
    X = plain.rows.take(slice(None)).round(4)
    rows = [[*x, int(y)] for x, y in zip(X.tolist(), plain.rows.y.tolist(), strict=True)]
    return write_csv(tmp_path / "a.csv", ("age", "dose", "ill"), rows)


def ask(station, agreement, knots):
    """How many rows are in the pieces of 'age', knots in deviations; None if it is refused."""
    curves = Curves([knots, []])
    arrays = {"encoding": text_array(encoding_to_plain(agreement))}
    message = Message("pieces", 0, {**arrays, "curves": text_array(curves.to_dict())})
    reply = station.answer(message)
    return None if Failure.of(reply) else reply.arrays["counts"][: len(knots) + 1].tolist()


def asked(station):
    return preflight(DataRequest("ill"), ["a"], lambda m: {"a": station.handle(m["a"])})


def test_where_a_count_changes_is_a_row(path, tmp_path, table):
    """A knot that is bisected between two counts ends at a person's entry."""
    age = np.sort(np.loadtxt(path, delimiter=",", skiprows=1)[:, 0])
    errors = []
    for settings in (None, Guard(K, ledger=tmp_path / "ledger")):
        station = Station("a", path, settings)
        agreement = asked(station)
        column = agreement.columns[0]
        low, high = -3.0, 0.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            told = ask(station, agreement, [middle])
            if told is None:
                break
            low, high = (low, middle) if told[0] >= 2 * K else (middle, high)
        found = column.shift + column.scale * 0.5 * (low + high)
        errors.append(np.abs(age - found).min() / column.scale if high - low < 1.0 else 0.5)
    assert errors[0] < 1e-6
    assert errors[1] >= 0.5  # after one question no other knot is known
    table("rows between knots, bisected: error of an entry", *errors, "deviations")


def test_pieces_finer_than_rows_are_refused(path):
    station = Station("a", path, Guard(K))
    assert ask(station, asked(station), np.linspace(-2.0, 2.0, 48).tolist()) is None
    assert ask(station, asked(station), [-0.5, 0.5]) is not None


def test_curves_that_are_refused_are_counted():
    """Which of some knots are let in is a bit each: whether a piece holds few people."""
    settings = guard(K, bindings=6)
    client = make_client(N, 2, settings)
    edge = np.sort(client.rows.take(slice(None))[:, 0])[2]
    knots, outcomes = [float(edge), -0.6, -0.3, 0.0, 0.3, 0.6], []
    for left in range(9):
        chosen = [t for j, t in enumerate(knots) if not left >> j & 1]
        try:
            Site(client, drfl.Problem("hinge", drfl.Ball(0.01), curves=Curves([chosen, []])))
            outcomes.append("taken")
        except SpentError:
            outcomes.append("spent")
        except ValueError:
            outcomes.append("refused")
    assert "refused" in outcomes
    assert outcomes[5:] == ["spent"] * 4
