"""The five rules on tables written by hand, and the sentences they give."""

import pandas as pd
import pytest

from drfl.selection import RULES, GridPoint, Selection
from drfl.selection.rules import GridEvidence


def point(radius, mean, error=0.01, worst=0.5, note="", scores=()):
    clients = {"north": mean + 0.1, "south": worst}
    return GridPoint({"radius": radius}, mean, error, clients, "south", worst, 7, note, scores)


def choose(rule, points, **more):
    evidence = GridEvidence(points, [p.params["radius"] for p in points], **more)
    return RULES[rule](evidence)


TABLE = [
    point(0.0, 0.80, worst=0.60),
    point(0.1, 0.84, error=0.03, worst=0.66),
    point(0.2, 0.82, worst=0.71),
    point(0.3, 0.81, worst=0.70),
    point(0.4, 0.79, worst=0.55),
]


@pytest.mark.parametrize(
    ("rule", "chosen", "reason"),
    [
        (
            "mean",
            1,
            "of 5 grid points radius=0.1 has the best mean score, 0.84 (standard error 0.03)",
        ),
        (
            "one_se",
            3,
            "of 5 grid points radius=0.3 has the largest radius within one standard error of the "
            "best mean score, 0.81 (standard error 0.01) against 0.84 (standard error 0.03) of "
            "radius=0.1",
        ),
        (
            "worst_client",
            2,
            "of 5 grid points radius=0.2 has the best worst client: 'south' scores 0.71",
        ),
    ],
)
def test_the_rule_decides(rule, chosen, reason):
    assert choose(rule, TABLE) == (chosen, reason)


@pytest.mark.parametrize("rule", ["mean", "new_client"])
def test_the_anchor_is_kept_unless_a_point_is_clearly_better(rule):
    # Paired differences 0.01, 0.02, 0.03: mean 0.02, standard error 0.01 / sqrt(3) = 0.0058.
    anchor = point(0.1, 0.80, scores=(0.70, 0.80, 0.90))
    better = point(0.2, 0.82, scores=(0.71, 0.82, 0.93))
    k, reason = choose(rule, [anchor, better], anchor=0)
    assert k == 1
    assert "better than radius=0.1 by 0.02, more than one standard error (0.0058)" in reason
    # Differences -0.03, 0.03, 0.06: mean 0.02, standard error 0.026.
    unsure = point(0.2, 0.82, scores=(0.67, 0.83, 0.96))
    k, reason = choose(rule, [anchor, unsure], anchor=0)
    assert k == 0
    assert reason.startswith("radius=0.1 is kept: radius=0.2 has the best mean score")
    assert "is better by 0.02 only, within one standard error (0.026)" in reason
    assert choose(rule, [better, point(0.3, 0.7)], anchor=0)[0] == 0


def test_noise_is_named_in_the_reason():
    assert choose("noise", TABLE, noise=0.5) == (
        1,
        "of 5 grid points radius=0.1 has the best mean score, 0.84 (standard error 0.03), on rows "
        "with noise of standard deviation 0.5 in every feature",
    )


def test_a_new_client_is_reported_beside_erm():
    assert choose("new_client", TABLE, erm=0) == (
        1,
        "of 5 grid points radius=0.1 has the best mean score on clients left out of the training, "
        "0.84 (standard error 0.03); ERM scores 0.8 (standard error 0.01)",
    )


def test_erm_is_taken_where_robust_training_is_worse():
    points = [point(0.1, 0.7), point(0.0, 0.71), point(0.3, 0.69)]
    assert choose("new_client", points, erm=1) == (
        1,
        "on clients left out of the training ERM scores 0.71 (standard error 0.01) and the best "
        "robust point, radius=0.1, 0.7 (standard error 0.01): ERM is taken",
    )


def test_erm_alone_is_taken():
    assert choose("new_client", [point(0.0, 0.7)], erm=0)[0] == 0


def test_the_first_of_equal_points_is_taken():
    points = [point(0.2, 0.8), point(0.1, 0.8), point(0.3, 0.7)]
    assert choose("mean", points)[0] == 0
    assert choose("worst_client", points)[0] == 0
    assert choose("one_se", [point(0.1, 0.8, error=0.0), point(0.3, 0.8)])[0] == 1


def test_the_mean_decides_between_equal_worst_clients():
    assert choose("worst_client", [point(0.1, 0.7), point(0.2, 0.8)])[0] == 1


@pytest.fixture
def selection():
    table = (point(0.0, 0.8), point(0.125, 0.84, note="as radius=0: they state the same problem"))
    return Selection(table, {"radius": 0.125}, "because.", None)


def test_a_selection_prints_its_table(selection):
    lines = str(selection).splitlines()
    assert lines[0].split() == [
        *("parameters", "mean", "std.", "err.", "worst", "client", "rounds"),
    ]
    assert lines[1].split() == ["radius=0", "0.8000", "0.0100", "south", "0.5000", "7"]
    assert "*" in lines[2]
    assert lines[2].endswith("7  as radius=0: they state the same problem")
    assert lines[-1] == "because."
    assert len(lines) == 5


def test_a_selection_is_a_frame(selection):
    frame = selection.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["radius"].tolist() == [0.0, 0.125]
    assert frame["worst_client"].tolist() == ["south", "south"]
    assert set(frame) >= {"mean", "standard_error", "worst_score", "rounds", "note"}
