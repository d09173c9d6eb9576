"""Distributionally robust federated learning: linear models, exact solutions, proven bounds."""

from importlib import import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drfl import baselines, datasets
    from drfl.client import Client, Policy
    from drfl.estimators import (
        DataWarning,
        DRFLClassifier,
        DRFLRegressor,
        ScaleWarning,
        inspect,
        merge_labels,
    )
    from drfl.models import calibrate, load, save
    from drfl.problem import Problem
    from drfl.report import report
    from drfl.run import Result, solve
    from drfl.selection import DRFLClassifierCV, DRFLRegressorCV, Selection, select
    from drfl.supports import Box, Polyhedron
    from drfl.uncertainty import Ball, Mixture
    from drfl.worst_case import worst_case_loss

__version__ = "0.1.0"

__all__ = [
    "Ball",
    "Box",
    "Client",
    "DRFLClassifier",
    "DRFLClassifierCV",
    "DRFLRegressor",
    "DRFLRegressorCV",
    "DataWarning",
    "Mixture",
    "Policy",
    "Polyhedron",
    "Problem",
    "Result",
    "ScaleWarning",
    "Selection",
    "__version__",
    "baselines",
    "calibrate",
    "datasets",
    "inspect",
    "load",
    "merge_labels",
    "report",
    "save",
    "select",
    "solve",
    "worst_case_loss",
]

# Everything is imported when it is first used: the program answers at once, and what needs
# scikit-learn costs only those who use it.
_LATER = {
    "Ball": "drfl.uncertainty",
    "Box": "drfl.supports",
    "Client": "drfl.client",
    "DRFLClassifier": "drfl.estimators",
    "DRFLClassifierCV": "drfl.selection",
    "DRFLRegressor": "drfl.estimators",
    "DRFLRegressorCV": "drfl.selection",
    "DataWarning": "drfl.estimators",
    "Mixture": "drfl.uncertainty",
    "Policy": "drfl.client",
    "Polyhedron": "drfl.supports",
    "Problem": "drfl.problem",
    "Result": "drfl.run",
    "ScaleWarning": "drfl.estimators",
    "Selection": "drfl.selection",
    "calibrate": "drfl.models",
    "inspect": "drfl.estimators",
    "load": "drfl.models",
    "merge_labels": "drfl.estimators",
    "save": "drfl.models",
    "select": "drfl.selection",
    "solve": "drfl.run",
    "worst_case_loss": "drfl.worst_case",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if not name.startswith("_") and _find_spec(f"drfl.{name}") is not None:
        return import_module(f"drfl.{name}")
    raise AttributeError(f"module 'drfl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
