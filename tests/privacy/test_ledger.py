"""The ledger: numbers that are counted and rounded, sums that are audited, what is remembered."""

import stat

import numpy as np
import pytest

import drfl
from drfl.engines import ProcessesEngine
from drfl.privacy import (
    Guard,
    SpentError,
    audit,
    audit_ledger,
    guard_line,
    merge_categories,
    release_metric,
    release_scalar,
    release_sums,
)
from drfl.privacy.release.rounding import Rounding
from drfl.solvers import StatusKind

N, n = 200, 4


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n))
    score = X @ np.array([1.0, -0.5, 0.3, 0.0]) + 0.5 * rng.normal(size=N)
    return X, np.where(score > 0.0, 1.0, -1.0)


def problem():
    ball, mixture = drfl.Ball(0.05, "l2"), drfl.Mixture(radius=0.2, p=1)
    return drfl.Problem("hinge", ball, mixture, intercept="shared")


def test_a_run_in_other_processes_with_ledgers_is_the_same_and_is_remembered(tmp_path):
    def guarded(folder):
        folder.mkdir()
        return [
            drfl.Client(f"c{s}", *data(s), guard=Guard(5, folder / f"{s}", secret=b"key"))
            for s in range(2)
        ]

    serial = drfl.solve(problem(), guarded(tmp_path / "serial"))
    others = drfl.solve(problem(), guarded(tmp_path / "others"), engine=ProcessesEngine())
    assert serial.coef.tobytes() == others.coef.tobytes()
    assert serial.status.kind in (StatusKind.STALLED, StatusKind.CERTIFIED)
    for s in range(2):
        lines = [audit(tmp_path / where / f"{s}").splitlines() for where in ("serial", "others")]
        assert lines[0][1:] == lines[1][1:]
        assert lines[0][1].startswith("answers: ")
    assert stat.S_IMODE((tmp_path / "serial" / "0").stat().st_mode) == 0o600
    again = drfl.solve(
        problem(), [drfl.Client("c0", *data(0), guard=Guard(5, tmp_path / "serial" / "0"))]
    )
    assert again.gap < 1.0


def test_a_statement_tells_no_number_of_a_row(tmp_path):
    client = drfl.Client("a", *data(), guard=Guard(5, tmp_path / "ledger", secret=b"key"))
    drfl.solve(problem(), [client])
    told = audit(tmp_path / "ledger")
    assert [line.split(":")[0] for line in told.splitlines()[1:]] == [
        "answers",
        "independent answers",
        "largest part of one row in them",
        "bits",
        "cells told",
        "scalars",
        "sums over all rows",
        "readings of the rows",
    ]
    assert audit_ledger(client.ledger).splitlines()[1:] == told.splitlines()[1:]
    with pytest.raises(ValueError, match="no ledger"):
        audit(tmp_path / "nothing")


def scalar(ledger, question, value, most, *, up):
    rounding = Rounding(100.0 / N**2, up=up)
    return release_scalar(ledger, "bound", question, lambda: value, rounding, most)


def test_scalars_are_rounded_counted_and_repeated():
    client = drfl.Client("a", *data(), guard=Guard(5, secret=b"key"))
    ledger, step = client.ledger, 100.0 / N**2
    low = scalar(ledger, b"1", 0.5, 2, up=False)
    assert 0.5 - step <= low <= 0.5
    high = scalar(ledger, b"2", 0.5, 2, up=True)
    assert 0.5 <= high <= 0.5 + step
    assert scalar(ledger, b"1", 0.9, 2, up=False) == low
    with pytest.raises(SpentError):
        release_metric(ledger, "accuracy", b"3", lambda: np.ones(N), 2)
    sums = {"moments": np.array(client.rows.moments())}
    told = release_sums(ledger, "moments", b"", sums, 1)["moments"]
    assert told == pytest.approx(np.array([data()[0].mean(0), (data()[0] ** 2).mean(0)]))
    assert release_sums(ledger, "moments", b"", {"moments": 0.0 * told}, 1)["moments"] is told
    with pytest.raises(SpentError, match="has answered its 1 preflights"):
        release_sums(ledger, "moments", b"another", sums, 1)
    assert "scalars: 2 (0 metrics)" in audit_ledger(ledger)
    assert "sums over all rows: 1" in audit_ledger(ledger)


def test_metrics_are_blurred_and_a_third_of_the_scalars():
    ledger = drfl.Client("a", *data(), guard=Guard(5, secret=b"key")).ledger
    right = (np.arange(N) % 3 > 0).astype(float)

    def told(question, per_row=right, **largest):
        return release_metric(ledger, "accuracy", question, lambda: per_row, 30, **largest)

    ten = [told(bytes([j])) for j in range(8)]
    assert np.abs(ten - right.mean()).max() <= 5.0 / N + 1e-12
    assert np.ptp(ten) > 2.0 / N
    assert told(bytes([3]), 1.0 - right) == ten[3]
    # One row's number counts for no more than the largest, whatever a server makes of it.
    assert abs(told(b"large", 1e9 * np.eye(N)[0], largest=4.0) - 4.0 / N) <= 20.0 / N + 1e-12
    told(b"the tenth")
    with pytest.raises(SpentError):
        told(b"another")
    assert scalar(ledger, b"1", 0.5, 30, up=True) >= 0.5


def test_a_larger_budget_answers_what_was_refused():
    """And nothing is computed for what is not told."""
    ledger = drfl.Client("a", *data(), guard=Guard(5, secret=b"key")).ledger
    computed = []

    def value():
        computed.append(1)
        return 0.5

    for _ in range(3):
        with pytest.raises(SpentError):
            release_scalar(ledger, "bound", b"1", value, Rounding(1.0, up=True), 0)
    assert not computed
    assert ledger.count("refused") == 1
    assert release_scalar(ledger, "bound", b"1", value, Rounding(1.0, up=True), 1) >= 0.5
    assert len(computed) == 1


def test_sums_over_some_rows_are_audited():
    """Sums with and without a row, or of fewer than k rows, would give rows away."""
    ledger = drfl.Client("a", *data(), guard=Guard(5, secret=b"key")).ledger
    most = np.ones(N)
    most[7] = 0.0
    with pytest.raises(ValueError, match="a column would tell of fewer than k = 5 rows"):
        ledger.declare(most, "a column")
    some = np.where(np.arange(N) < 60, 1.0, 0.0)
    ledger.declare(some, "a column")
    rank = ledger.leverage.rank
    ledger.declare(some, "a column")
    assert ledger.leverage.rank == rank == 3
    some[60] = 1.0
    with pytest.raises(ValueError, match="together with what the ledger has told"):
        ledger.declare(some, "a column")
    exactly = np.where(np.arange(N) >= N - 5, 1.0, 0.0)
    fresh = Guard(5).begin(b"another key", N)
    fresh.declare(exactly, "five rows")
    assert fresh.leverage.h.max() == pytest.approx(0.2)


def test_small_categories_are_merged():
    merged = merge_categories({"a": [30], "b": [4], "c": [2], "d": [8]}, 5)
    assert merged == {"a": "a", "b": "other", "c": "other", "d": "d"}
    assert merge_categories({"a": [30, 9], "b": [6, 0]}, 5) == {"a": "a", "b": "b"}


def test_a_report_says_which_guard_a_run_had():
    assert "none" in guard_line(None)
    assert guard_line(Guard(7)) == "guard: k = 7, ledger in memory"
