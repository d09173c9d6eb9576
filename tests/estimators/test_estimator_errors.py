"""Every sentence about wrong input, before any work."""

import math

import numpy as np
import pandas as pd
import pytest

from drfl import baselines
from drfl.estimators import DRFLClassifier, DRFLRegressor
from drfl.losses import Hinge, Huber
from drfl.supports import Box, Polyhedron

# Four rows are enough for a wrong word.
pytestmark = pytest.mark.filterwarnings("ignore::drfl.estimators.FewRowsWarning")

X = np.array([[-1.0, 0.5], [-0.5, -1.0], [1.0, 0.2], [0.6, 1.0]])
Y = [0, 0, 1, 1]
CLIENTS = ["a", "b", "a", "b"]

PARAMETERS = [
    ({"loss": "hing"}, ValueError, "unknown loss 'hing': did you mean 'hinge'"),
    ({"loss": "huber"}, ValueError, "known are 'hinge', 'smooth_hinge', 'logistic'"),
    ({"loss": Huber()}, ValueError, "huber is not a loss for classification: known are 'hinge'"),
    ({"loss": 3}, TypeError, "loss must be a name"),
    ({"radius": -0.1}, ValueError, "radius must be a finite number >= 0, got -0.1"),
    ({"radius": math.inf}, ValueError, "radius must be a finite number >= 0, got inf"),
    ({"radius": "large"}, TypeError, "radius must be 'auto', 'confidence', a number, or one"),
    ({"radius": None}, TypeError, "radius must be 'auto', 'confidence', a number, or one"),
    ({"radius": True}, TypeError, "radius must be 'auto', 'confidence', a number, or one"),
    ({"radius": [0.1, "b"]}, TypeError, "entry 1 of radius must be a number, got 'b'"),
    ({"radius": {"a": -1.0, "b": 0.0}}, ValueError, "the radius of 'a' must be a finite number"),
    ({"radius": {"a": 0.1}}, ValueError, "radius has no entry for client 'b': it has 'a'"),
    ({"radius": [0.1]}, ValueError, "radius has 1 entries, but there are 2 clients: give one num"),
    ({"label_cost": 0.0}, ValueError, "label_cost must be a number > 0 or inf"),
    ({"label_cost": "inf"}, TypeError, "label_cost must be a number, got 'inf'"),
    ({"norm": "l3"}, ValueError, "unknown norm 'l3'"),
    ({"support": (0, 1)}, TypeError, r"support must be None, a Box or a Polyhedron, got \(0, 1\)"),
    (
        {"support": Box(0.0, 1.0), "norm": "l1"},
        ValueError,
        "client 'a': 1 row lies outside the box",
    ),
    (
        {"support": Polyhedron([[1.0, 1.0]], [9.0]), "loss": "logistic"},
        ValueError,
        "logistic on a polyhedron is not solved",
    ),
    ({"mixture_radius": -1.0}, ValueError, "mixture_radius must be a number >= 0 or inf, got -1.0"),
    (
        {"mixture_radius": math.nan},
        ValueError,
        r"mixture_radius must be a number >= 0 or inf, got nan",
    ),
    ({"mixture_norm": 3}, ValueError, "mixture_norm must be 1, 2 or math.inf, got 3"),
    ({"mixture_norm": "l1"}, TypeError, "mixture_norm must be a number, got 'l1'"),
    ({"mixture_center": "centre"}, ValueError, "unknown center 'centre'"),
    ({"mixture_center": [0.5, 0.6]}, ValueError, "must sum to 1"),
    ({"mixture_center": [0.2, 0.3, 0.5]}, ValueError, "the mixture has 3 weights, but 2 clients"),
    ({"intercept": "own"}, ValueError, "unknown intercept"),
    ({"solver": "newton"}, ValueError, "unknown solver 'newton': .*known are 'auto', 'bundle'"),
    ({"solver": None}, TypeError, "solver must be a name"),
    ({"solver": "local", "engine": "serial"}, ValueError, "solver='local' takes no engine: leave"),
    ({"curvature": "always"}, ValueError, "curvature must be 'auto' or 'never', got 'always'"),
    ({"tol": 0.0}, ValueError, "tol must be a finite number > 0, got 0.0"),
    ({"tol": "small"}, TypeError, "tol must be a number, got 'small'"),
    ({"max_rounds": 0}, ValueError, "max_rounds must be a whole number >= 1, got 0"),
    ({"max_rounds": 1.5}, TypeError, "max_rounds must be a whole number, got 1.5"),
    ({"engine": "seriall"}, ValueError, "unknown engine 'seriall': did you mean 'serial'"),
    ({"engine": 3}, TypeError, "engine must be a name"),
    ({"class_weight": "even"}, ValueError, "class_weight must be None, 'balanced' or a dict, got"),
    ({"class_weight": {0: 0.0}}, ValueError, "class_weight must be positive: leave out the rows"),
    ({"class_weight": {7: 1.0}}, ValueError, "not in class_weight"),
    ({"random_state": "seed"}, ValueError, "'seed' cannot be used to seed"),
    ({"verbose": "yes"}, TypeError, "verbose must be a whole number, got 'yes'"),
]


@pytest.mark.parametrize(
    ("params", "kind", "sentence"), PARAMETERS, ids=lambda value: str(value)[:40]
)
def test_wrong_parameters(params, kind, sentence):
    with pytest.raises(kind, match=sentence):
        DRFLClassifier(**params).fit(X, Y, CLIENTS)


@pytest.mark.parametrize(
    ("params", "kind", "sentence"),
    [
        ({"loss": "hinge"}, ValueError, "known are 'huber', 'epsilon_insensitive', 'pinball'"),
        ({"loss": Hinge()}, ValueError, "hinge is not a loss for regression"),
        ({"epsilon": 0.0}, ValueError, "epsilon of huber must be a finite number > 0"),
        ({"epsilon": "a"}, TypeError, "epsilon must be a number, got 'a'"),
        (
            {"loss": "pinball", "quantile": 1.0},
            ValueError,
            "must be a finite number > 0 and < 1",
        ),
        ({"loss": "pinball", "epsilon": 1.0}, TypeError, "loss 'pinball' takes quantile, got eps"),
        ({"loss": Huber(), "epsilon": 1.0}, TypeError, "carries its own parameters; drop epsilon"),
    ],
    ids=str,
)
def test_wrong_parameters_of_a_regression(params, kind, sentence):
    with pytest.raises(kind, match=sentence):
        DRFLRegressor(**params).fit(X, Y, CLIENTS)


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"clients": ["a", "b", "a"]}, ValueError, r"inconsistent numbers of samples: \[4, 3\]"),
        ({"clients": ["a", None, "a", "b"]}, ValueError, "clients has no name in row 1: name the"),
        ({"clients": [1.0, 2.0, math.nan, 1.0]}, ValueError, "clients has no name in row 2"),
        (
            {"clients": pd.Series(["a", "b", "a", pd.NA], dtype="string")},
            ValueError,
            "clients has no name in row 3",
        ),
        (
            {"clients": np.array(["a", 1, "a", 1], dtype=object)},
            TypeError,
            "clients mixes names of different types: use strings alone",
        ),
        ({"clients": ["a", "", "a", "b"]}, ValueError, "the name of a client must not be empty"),
        (
            {"sample_weight": [1, -1, 1, 1]},
            ValueError,
            "sample_weight must not be negative, got -1",
        ),
        ({"sample_weight": [0, 0, 0, 0]}, ValueError, "zero"),
        ({"y": ["a", None, "b", "a"]}, TypeError, "y has labels of 'NoneType', 'str', which have"),
        ({"y": np.array(["a", 1, 2, 1], object)}, TypeError, "y has labels of 'int', 'str', which"),
        ({"y": [0, 0, 0, 0]}, ValueError, "y has one class only, 0: two are needed at least"),
        ({"sample_weight": [1, 1, 0, 0]}, ValueError, "y has one class only, 0: two are needed"),
        ({"y": [0.5, 1.2, 3.4, 2.1]}, ValueError, "Unknown label type: continuous"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_data(arguments, kind, sentence):
    with pytest.raises(kind, match=sentence):
        DRFLClassifier().fit(X, **{"y": Y, **arguments})


def test_wrong_data_for_the_worst_case():
    model = DRFLClassifier(radius=0.1).fit(X, Y, CLIENTS)
    with pytest.raises(ValueError, match="fitted to the clients 'a', 'b': name the client of each"):
        model.worst_case(X, Y)
    with pytest.raises(ValueError, match="client 'c' was not part of the fit: known are 'a', 'b'"):
        model.worst_case(X, Y, ["a", "b", "c", "a"])
    with pytest.raises(ValueError, match="y has the class 2, but the fit had 0, 1"):
        model.worst_case(X, [0, 1, 2, 0], CLIENTS)


def test_a_method_without_curvature_says_so(monkeypatch):
    class Plain:
        name = "plain"

    monkeypatch.setattr("drfl.estimators.fitting.solver_class", lambda name: Plain)
    with pytest.raises(ValueError, match="the solver 'bundle' uses no curvature: leave curvature="):
        DRFLClassifier(solver="bundle", curvature="never").fit(X, Y)


def test_a_baseline_has_only_its_own_parameters():
    with pytest.raises(TypeError, match="unexpected keyword argument 'radius'"):
        baselines.ERMClassifier(radius=0.1)
    with pytest.raises(ValueError, match="Invalid parameter 'mixture_radius'"):
        baselines.DRFARegressor().set_params(mixture_radius=0.1)
