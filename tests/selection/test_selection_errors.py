"""Every sentence about wrong input of a selection, before any work."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from drfl import DRFLClassifier, DRFLClassifierCV, select
from drfl.engines import SerialEngine
from drfl.native import FedAvgClassifier
from drfl.wire import Failure, Message
from kit.paper import classifier

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2
CLIENTS = np.repeat(["a", "b"], 6)

WRONG = [
    ({"rule": "means"}, ValueError, "unknown rule 'means': did you mean 'mean'"),
    ({"rule": None}, TypeError, "rule must be a name, one of 'mean', 'one_se', 'worst_client', "),
    ({"rule": "noise"}, ValueError, "rule='noise' needs noise_scale: the standard deviation of"),
    ({"noise_scale": 1.0}, ValueError, "noise_scale is for rule='noise', not for rule='mean'"),
    ({"rule": "noise", "noise_scale": 0.0}, ValueError, "noise_scale must be a finite number > 0"),
    ({"rule": "noise", "noise_scale": math.inf}, ValueError, "noise_scale must be a finite number"),
    ({"rule": "noise", "noise_scale": "1"}, TypeError, "noise_scale must be a number, got '1'"),
    ({"folds": 1}, ValueError, "folds must be a whole number >= 2, got 1"),
    ({"folds": 2.5}, TypeError, "folds must be a whole number, got 2.5"),
    (
        {"folds": 7},
        ValueError,
        "client 'a' cannot split n_samples = 6 different rows into 7 folds: take fewer folds",
    ),
    (
        {"rule": "new_client", "clients": None},
        ValueError,
        "rule='new_client' leaves one client out: name at least two clients",
    ),
    ({"grid": [0.1]}, TypeError, "grid must be a mapping from parameters to the values to try"),
    ({"grid": {}}, TypeError, "grid must be a mapping from parameters to the values to try"),
    ({"grid": {"radius": 0.1}}, TypeError, "grid must give a list of values for 'radius', got 0.1"),
    ({"grid": {"norm": "l1"}}, TypeError, "grid must give a list of values for 'norm', got 'l1'"),
    ({"grid": {"radius": []}}, ValueError, "grid has no value for 'radius': give at least one"),
    (
        {"grid": {"class_weight": [None, "balanced"]}},
        ValueError,
        "class_weight cannot be in the grid: rows weigh in the scores as they do in the fit",
    ),
    ({"grid": {"rho": [0.1]}}, ValueError, "Invalid parameter 'rho' for estimator DRFLClassifier"),
    ({"grid": {"radius": [-1.0]}}, ValueError, "radius must be a finite number >= 0, got -1.0"),
    ({"verbose": "yes"}, TypeError, "verbose must be a whole number, got 'yes'"),
    ({"random_state": "seed"}, ValueError, "'seed' cannot be used to seed"),
    ({"y": np.zeros(12)}, ValueError, "y has one class only"),
    ({"clients": ["a"]}, ValueError, "inconsistent numbers of samples"),
    (
        {"estimator": LogisticRegression()},
        TypeError,
        "estimator must be a DRFLClassifier, a DRFLRegressor or one of drfl.baselines, got Logist",
    ),
    ({"estimator": DRFLClassifierCV()}, TypeError, "drfl.baselines, got DRFLClassifierCV"),
    ({"estimator": FedAvgClassifier()}, TypeError, "drfl.baselines, got FedAvgClassifier"),
    ({"estimator": DRFLClassifier}, TypeError, "drfl.baselines, got ABCMeta|got type"),
]


@pytest.mark.parametrize(("changes", "kind", "sentence"), WRONG, ids=lambda v: str(v)[:40])
def test_wrong_arguments(changes, kind, sentence):
    arguments = {"estimator": classifier(), "X": X, "y": Y, "clients": CLIENTS, "verbose": 0}
    with pytest.raises(kind, match=sentence):
        select(**{**arguments, **changes})


class Mute(SerialEngine):
    """A client that answers no question about scores, or answers it badly."""

    def __init__(self, bad):
        super().__init__()
        self.bad = bad

    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        for name in [name for name, m in messages.items() if m.kind == "select_score"]:
            del answers.replies[name]
            if self.bad:
                answers.replies[name] = Message("select_score/reply", 0, {"score": np.array(1.0)})
            else:
                answers.failures[name] = Failure.REFUSED
        return answers


@pytest.mark.parametrize(
    ("bad", "why"),
    [(False, "its policy, guard or rows do not"), (True, "array 'score' must have shape")],
)
def test_a_client_without_a_score_ends_the_selection(bad, why):
    model = classifier(engine=Mute(bad), tol=1e-2)
    with pytest.raises(RuntimeError, match=f"client 'a' gave no score: {why}"):
        select(model, X, Y, CLIENTS, folds=2, grid={"radius": [0.1]}, verbose=0)
