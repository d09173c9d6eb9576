"""A coordinator that asks for more than was agreed: the site decides what the question is."""

from dataclasses import replace

import numpy as np
import pytest

import drfl
from drfl.client import Policy, RemoteClient
from drfl.models import Model, ProofRecord
from drfl.privacy import Guard
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.evaluation import evaluate_message
from drfl.protocols.federation import bind_message, binding_of
from drfl.protocols.station import Station
from drfl.solvers.base import Status, StatusKind
from drfl.tables import Number
from drfl.wire import Failure, Message
from kit.program import write_csv

N, K = 400, 5
NAMES = ("age", "dose", "ward", "ill")


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal([60.0, 3.0], [10.0, 1.0], size=(N, 2)).round(3)
    ill = (X[:, 0] + 10 * X[:, 1] + 8 * rng.normal(size=N) > 90).astype(int)
    ward = ["north"] * 3 + ["east", "west"] * 200
    rows = [[*x, w, y] for x, w, y in zip(X.tolist(), ward, ill.tolist(), strict=False)]
    return write_csv(tmp_path / "a.csv", NAMES, rows)


def asked(station, request=None):
    """A preflight that was answered; what was agreed."""
    request = request or DataRequest("ill")
    return preflight(request, ["a"], lambda m: {"a": station.handle(m["a"])})


def bound(station, encoding, positive=1, loss="hinge"):
    """What a station answers to a binding."""
    party = RemoteClient(
        "a", encoding.features, "a", 0, binding_of(encoding, positive, folds=False)
    )
    return Failure.of(station.answer(bind_message(party, drfl.Problem(loss, drfl.Ball(0.01)))))


def with_column(agreement, name, **changes):
    columns = [replace(c, **changes) if c.name == name else c for c in agreement.columns]
    return replace(agreement, columns=tuple(columns))


def test_what_was_agreed_is_bound(path):
    for station in (Station("a", path), Station("a", path, Guard(K))):
        assert bound(station, asked(station)) is None


def test_no_binding_without_an_accepted_preflight(path, tmp_path):
    agreement = asked(Station("a", path, Guard(K)))
    fresh = Station("a", path, Guard(K))
    assert bound(fresh, agreement) is Failure.BAD_REQUEST
    few = tmp_path / "few.csv"
    few.write_text("".join(path.read_text().splitlines(keepends=True)[:30]))
    refused = Station("a", few, Guard(K))
    message = Message("preflight", 0, {"request": DataRequest("ill").to_bytes()})
    assert Failure.of(refused.answer(message)) is Failure.REFUSED
    assert bound(refused, agreement) is Failure.BAD_REQUEST


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": 1e-9},  # a grid that is absolute would vanish beside such numbers
        {"shift": 1e9},
        {"fill": 0.0},
    ],
)
def test_the_units_are_not_the_coordinators_to_choose(path, changes):
    station = Station("a", path, Guard(K))
    agreement = asked(station)
    assert bound(station, with_column(agreement, "age", **changes)) is Failure.REFUSED
    assert bound(station, agreement) is None


def test_gaps_are_not_filled_with_what_stands_out(path):
    lines = path.read_text().splitlines()
    gaps = [",".join([line.split(",")[0], "", *line.split(",")[2:]]) for line in lines[1:41]]
    path.write_text("\n".join([lines[0], *gaps, *lines[41:]]) + "\n")
    station = Station("a", path, Guard(K))
    agreement = asked(station, DataRequest("ill", missing="mean"))
    assert bound(station, agreement) is None
    for fill in (1e9, -1e9, np.inf):
        assert bound(station, with_column(agreement, "dose", fill=fill)) is not None


@pytest.mark.parametrize("power", [4, 30, 150])
def test_units_beside_which_rows_would_be_rounding(path, power, table):
    """In units so large squares of entries are 0, and so is what looks at them.

    A column far from 0 in large units is nearly that of ones: its slope would have all its bits.
    """
    for guarded in (None, Guard(K)):
        station = Station("a", path, guarded)
        agreement = asked(station)
        (age,) = [c for c in agreement.columns if c.name == "age"]
        scale = age.scale * 10.0**power
        for shift in (age.shift, age.shift + 9.0 * scale):
            told = bound(station, with_column(agreement, "age", scale=scale, shift=shift))
            assert told is (Failure.REFUSED if guarded else None)
    table("units so large that rows are rounding beside them", "sums of all bits", "refused")


def test_rare_categories_are_merged_whatever_the_message_says(path):
    """The three rows of 'north', as a category of their own, or by another's name."""
    station = Station("a", path, Guard(K))
    agreement = asked(station)
    (ward,) = [c for c in agreement.columns if c.name == "ward"]
    assert ward.other
    assert ward.reference == "east"
    named = {"levels": ("north", "west"), "other": False}
    assert bound(station, with_column(agreement, "ward", **named)) is Failure.REFUSED
    # Beside a category of all others it is let in, and merged all the same.
    both = with_column(agreement, "ward", levels=("north", "west", "other"))
    assert bound(station, both) is None
    X, _ = station.file.rows(both)
    assert X[:, both.features.index("ward=north")].sum() == 0.0
    assert X[:, both.features.index("ward=other")].sum() >= 3.0


def test_bindings_that_are_refused_are_counted(path, tmp_path):
    """Whether few rows rule a filled column depends on what it is filled with: no bisection."""
    lines = path.read_text().splitlines()
    for k in range(1, 301):
        age, dose, *rest = lines[k].split(",")
        lines[k] = ",".join([age, "" if k > 8 else f"{3 + 0.1 * k}", *rest])
    path.write_text("\n".join(lines) + "\n")
    guard = Guard(K, ledger=tmp_path / "ledger", bindings=3)
    station = Station("a", path, guard)
    agreement = asked(station, DataRequest("ill", missing="mean"))
    (dose,) = [c for c in agreement.columns if c.name == "dose"]
    for number in range(6):
        filled = with_column(agreement, "dose", fill=dose.fill + (5 + number) * dose.scale)
        bound(station, filled)
    assert station.ledger.count("binding") == 3


def test_columns_target_and_kinds_are_those_of_the_preflight(path):
    station = Station("a", path, Guard(K))
    agreement = asked(station)
    fewer = replace(agreement, columns=agreement.columns[1:])
    more = replace(agreement, columns=(*agreement.columns, Number("ill")))
    other = replace(agreement, target=replace(agreement.target, name="dose"))
    classes = replace(agreement, target=replace(agreement.target, classes=(0, 2)))
    scaled = replace(agreement, scale="none")
    for encoding in (fewer, more, other, classes, scaled):
        assert bound(station, encoding) is Failure.REFUSED


def test_whatever_depends_on_rows_has_one_code(path, tmp_path):
    """Which of the many things is wrong with a file would be an answer, too."""
    lines = path.read_text().splitlines(keepends=True)
    zeros, ones = ([line for line in lines[1:] if line.endswith(f",{y}\n")] for y in (0, 1))
    spoilt = {
        "a gap": [*lines[:5], ",1.0,east,1\n", *lines[6:]],
        "few rows": lines[:20],
        "a small class": [*lines[:1], *zeros, *ones[:3]],
        "no such column": [line.replace("ill", "sick") for line in lines],
    }
    message = Message("preflight", 0, {"request": DataRequest("ill").to_bytes()})
    codes = {}
    for k, (name, text) in enumerate(spoilt.items()):
        bad = tmp_path / f"{k}.csv"
        bad.write_text("".join(text))
        codes[name] = Failure.of(Station("a", bad, Guard(K)).answer(message))
    guard = Guard(K, ledger=tmp_path / "ledger")
    assert Failure.of(Station("a", path, guard).answer(message)) is None
    path.write_text("".join(lines[:-40]))
    codes["other rows than before"] = Failure.of(Station("a", path, guard).answer(message))
    assert set(codes.values()) == {Failure.REFUSED}, codes


# ---------------------------------------------------------------------------- the site's lists
def test_only_allowed_columns_targets_and_losses_are_asked(path):
    policy = Policy(allow_columns={"age", "dose"}, allow_targets={"ill"}, allow_losses={"hinge"})
    station = Station("a", path, policy=policy)
    agreement = asked(station)
    assert [c.name for c in agreement.columns] == ["age", "dose"]  # 'ward' is not even read
    assert bound(station, agreement, loss="logistic") is Failure.REFUSED
    assert bound(station, agreement) is None
    message = Message("preflight", 0, {"request": DataRequest("dose").to_bytes()})
    assert Failure.of(station.answer(message)) is Failure.REFUSED


def test_a_stricter_site_does_not_repeat_what_it_told(path, tmp_path):
    """The same request after the site has taken a column back is another question."""
    guard = Guard(K, ledger=tmp_path / "ledger")
    assert {c.name for c in asked(Station("a", path, guard)).columns} == {"age", "dose", "ward"}
    strict = Station("a", path, guard, policy=Policy(allow_columns={"age", "dose"}))
    assert {c.name for c in asked(strict).columns} == {"age", "dose"}


def model_of(agreement, loss="hinge"):
    """A model that says nothing, on what was agreed."""
    n = len(agreement.features)
    return Model(
        agreement.target,
        agreement.columns,
        agreement.scale,
        agreement.missing,
        np.zeros((1, n)),
        np.zeros(1),
        drfl.Problem(loss, drfl.Ball(0.01)),
        (ProofRecord(1.0, 1.0, 0.0, Status(StatusKind.CERTIFIED, "proved"), 1),),
        (),
        "0",
    )


def test_models_on_other_columns_are_not_evaluated(path):
    free = Station("a", path)
    message = evaluate_message(model_of(asked(free)), [0.0], 1, 0)
    assert free.answer(message).kind == "evaluate/reply"
    kept = Station("a", path, policy=Policy(allow_columns={"age"}))
    assert Failure.of(kept.answer(message)) is Failure.REFUSED


def test_a_guard_tells_one_blurred_number_of_a_model(path):
    """No area, no counts between thresholds, nothing under noise."""
    told = {}
    for guarded in (None, Guard(K)):
        station = Station("a", path, guarded)
        agreement = asked(station)
        assert bound(station, agreement, loss="logistic") is None
        message = evaluate_message(model_of(agreement, "logistic"), [0.0], 1, 0)
        told[guarded is not None] = set(station.answer(message).arrays)
        noisy = evaluate_message(model_of(agreement, "logistic"), [0.0, 0.1], 3, 0)
        assert (Failure.of(station.answer(noisy)) is Failure.REFUSED) is (guarded is not None)
    assert {"bins", "numbers", "auc"} <= told[False]
    assert told[True] == {"rows", "accuracy"}
