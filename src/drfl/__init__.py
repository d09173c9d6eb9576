"""Distributionally robust federated learning: linear models, exact solutions, proven bounds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from drfl import datasets
from drfl.ball import Ball
from drfl.client import Client, Policy
from drfl.mixture import Mixture
from drfl.problem import Problem
from drfl.result import Result
from drfl.run import solve
from drfl.supports import Box, Polyhedron
from drfl.worst_case import worst_case_loss

if TYPE_CHECKING:
    from drfl import baselines
    from drfl.estimators import DRFLClassifier, DRFLRegressor, ScaleWarning
    from drfl.selection import DRFLClassifierCV, DRFLRegressorCV, Selection, select

__version__ = "0.1.0"

__all__ = [
    "Ball",
    "Box",
    "Client",
    "DRFLClassifier",
    "DRFLClassifierCV",
    "DRFLRegressor",
    "DRFLRegressorCV",
    "Mixture",
    "Policy",
    "Polyhedron",
    "Problem",
    "Result",
    "ScaleWarning",
    "Selection",
    "__version__",
    "baselines",
    "datasets",
    "select",
    "solve",
    "worst_case_loss",
]

# What needs scikit-learn is imported when it is first used: `import drfl` stays light.
_LATER = {
    "DRFLClassifier": "drfl.estimators",
    "DRFLRegressor": "drfl.estimators",
    "ScaleWarning": "drfl.estimators",
    "DRFLClassifierCV": "drfl.selection",
    "DRFLRegressorCV": "drfl.selection",
    "Selection": "drfl.selection",
    "select": "drfl.selection",
}


def __getattr__(name: str) -> Any:
    if name == "baselines":
        return import_module("drfl.baselines")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'drfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
