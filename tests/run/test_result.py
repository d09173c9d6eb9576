"""What a run gives back: written, read, shown."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from drfl.run import Record, Result
from drfl.solvers import SOLVERS, Status, StatusKind, make_solver, relative_gap, solver_class
from drfl.wire import Failure, Sent


def record(round, **changes):
    given = {
        "round": round,
        "objective": 1.0 / round,
        "lower_bound": -math.inf,
        "gap": math.inf,
        "worst_client": "inf",
        "bytes_up": {"inf": 10 * round, "nan": 20 * round},
        "bytes_down": {"inf": round, "nan": round},
        "seconds_clients": 0.5,
        "seconds_server": 0.25,
    }
    return Record(**given | changes)


def result(**changes):
    given = {
        "coef": np.array([1.0, -0.1]),
        "intercept": 0.1 + 0.2,
        "objective": 1.0 / 3.0,
        "lower_bound": -math.inf,
        "gap": math.inf,
        "status": Status(StatusKind.FAILED, "nan is a name here"),
        # Names that look like numbers: they must stay names.
        "weights": {"inf": 0.25, "nan": 0.75},
        "client_losses": {"inf": 0.5, "nan": math.nan},
        "client_multipliers": {"inf": math.inf, "nan": 2.0},
        "rounds": 2,
        "bytes_up": {"inf": 20, "nan": 40},
        "bytes_down": {"inf": 2, "nan": 2},
        "seconds_clients": 0.5,
        "seconds_server": 0.25,
        "sent": (Sent("nan", "evaluate/reply", 2, 40, {"inf": (), "cuts": (2, 3)}),),
        "history": (
            record(1, worst_client=None, failures={"nan": "nan"}, info={"mu": np.float64(0.1)}),
            record(2, failures={"nan": str(Failure.DEADLINE)}, info={"mu": math.inf, "cuts": 3}),
        ),
    }
    return Result(**given | changes)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_json_round_trip_keeps_every_number():
    here = result()
    text = here.to_json()
    json.loads(text, parse_constant=refuse)
    again = Result.from_json(text)
    np.testing.assert_array_equal(again.coef, here.coef)
    assert again.coef.dtype == np.float64
    assert again.history == here.history
    assert again.status == here.status
    assert again.sent == here.sent
    assert again.client_multipliers == here.client_multipliers
    assert math.isnan(again.client_losses["nan"])
    assert again.intercept == here.intercept
    assert again.lower_bound == -math.inf
    assert again.to_json() == text


def test_other_json_is_no_result():
    for text in ("[]", "{}", json.dumps(json.loads(result().to_json()) | {"extra": 1})):
        with pytest.raises(ValueError, match="not a result"):
            Result.from_json(text)


def test_to_frame_has_a_row_per_round():
    frame = result().to_frame()
    assert list(frame["round"]) == [1, 2]
    assert list(frame["bytes_up"]) == [30, 60]
    assert list(frame["bytes_down"]) == [2, 4]
    assert list(frame["missing"]) == [1, 1]
    assert list(frame["mu"]) == [0.1, math.inf]
    assert frame["cuts"].isna().tolist() == [True, False]
    assert "info" not in frame
    assert "failures" not in frame


def test_info_does_not_hide_a_column():
    frame = result(history=(record(1, info={"gap": 7.0}),)).to_frame()
    assert list(frame["gap"]) == [math.inf]


def test_summary_says_what_was_proved_and_who_was_missing():
    text = result(lower_bound=0.3, gap=0.1).summary()
    assert text.startswith("failed: nan is a name here\n")
    assert "objective 0.33333333, proved to be at least 0.3 (relative gap 0.1)" in text
    assert "2 rounds, 0.1 kB up, 0.0 kB down" in text
    last, other = text.splitlines()[-2:]
    assert last.split()[:2] == ["nan", "0.7500"]
    assert last.endswith("missing in 2 of 2 rounds: it did not answer before the deadline")
    assert other.split() == ["inf", "0.2500", "0.5", "inf"]
    assert repr(result()) == "<Result failed: objective 0.333333, gap inf, 2 rounds, 2 clients>"


def test_summary_of_many_clients_fits_on_a_screen():
    many = {f"client {k}": 1.0 / 40 for k in range(40)}
    here = result(weights=many, client_losses=many, client_multipliers=many, history=())
    assert len(here.summary().splitlines()) < 24
    assert here.summary().endswith("and 28 more")


def test_results_and_records_are_frozen():
    with pytest.raises(AttributeError):
        result().gap = 0.0
    with pytest.raises(AttributeError):
        record(1).gap = 0.0


# ---------------------------------------------------------------------------- status and gap
def test_a_status_says_what_was_proved():
    assert str(Status.certified(3e-7)).startswith("certified: ")
    assert "3.0e-07" in Status.certified(3e-7).message
    assert Status.max_rounds(1e-3, 1e-6).kind is StatusKind.MAX_ROUNDS
    assert "1.0e-03, not yet 1.0e-06" in Status.max_rounds(1e-3, 1e-6).message
    assert "1.0e-03, not yet 1.0e-06" in Status.stalled(1e-3, 1e-6).message
    assert "stopped by callback" in Status.stopped(math.inf).message
    assert "coefficients differ by at most 2.5 is 1.0e-03" in Status.stopped(1e-3, 2.5).message
    assert "coefficients differ" not in Status.stopped(1e-3).message
    assert Status("local", "here").kind is StatusKind.LOCAL
    with pytest.raises(ValueError, match="optimal"):
        Status("optimal", "")


@pytest.mark.parametrize(
    ("upper", "lower", "at_zero", "gap"),
    [
        (2.0, 1.0, 1.0, 0.5),
        (1e-6, 0.0, 1.0, 1e-3),  # the floor of a thousandth of the objective at 0
        (-2.0, -3.0, 1.0, 0.5),
        (0.0, 0.0, 0.0, 0.0),
        (1.0, 1.0, 1.0, 0.0),
        (1.0, 1.0 + 1e-15, 1.0, 0.0),
        (1e-12, 2e-12, 1.0, 0.0),  # the rounding of sums of losses around 1
        # Bounds that contradict each other prove nothing.
        (1.0, 1.0 + 1e-6, 1.0, math.inf),
        (0.493, 0.536, 1.0, math.inf),
        (0.0, 1e-3, 0.0, math.inf),
        (-1.0, -0.5, math.nan, math.inf),
        (0.0, -1.0, 0.0, math.inf),
        (1.0, -math.inf, 1.0, math.inf),
        # Unknown bounds prove nothing, whatever the other numbers are.
        (math.inf, 0.0, 1.0, math.inf),
        (math.inf, math.inf, 1.0, math.inf),
        (math.nan, 0.0, 1.0, math.inf),
        (1.0, math.nan, 1.0, math.inf),
        (2.0, 1.0, math.inf, 0.5),
        (2.0, 1.0, math.nan, 0.5),
    ],
)
def test_relative_gap(upper, lower, at_zero, gap):
    assert relative_gap(upper, lower, at_zero) == gap


# ---------------------------------------------------------------------------- solvers by name
def test_solvers_by_name():
    with pytest.raises(ValueError, match="did you mean 'bundle'"):
        make_solver("bundel")
    with pytest.raises(TypeError, match="solver must be a name"):
        make_solver(3)


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_registered_solvers_exist_under_their_name(name):
    assert solver_class(name).name == name
    assert make_solver(name).handlers


def test_a_solver_is_imported_when_it_is_asked_for():
    code = (
        "import sys, drfl.run; print(any(m.startswith('drfl.solvers.bundle') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
