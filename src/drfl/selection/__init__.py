"""The choice of radius, label cost and mixture radius, without seeing anyone's data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drfl.selection.choice import GridPoint, Selection
    from drfl.selection.curves import CurveSelection, select_curves
    from drfl.selection.rules import RULES
    from drfl.selection.selecting import DRFLClassifierCV, DRFLRegressorCV, select

__all__ = [
    "RULES",
    "CurveSelection",
    "DRFLClassifierCV",
    "DRFLRegressorCV",
    "GridPoint",
    "Selection",
    "select",
    "select_curves",
]

_HOMES = {
    "RULES": "rules",
    "CurveSelection": "curves",
    "DRFLClassifierCV": "selecting",
    "DRFLRegressorCV": "selecting",
    "GridPoint": "choice",
    "Selection": "choice",
    "select": "selecting",
    "select_curves": "curves",
}


def __getattr__(name: str) -> Any:
    # Most of it needs scikit-learn, which a client that divides its rows should not have to load.
    if name in _HOMES:
        return getattr(import_module(f"drfl.selection.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
