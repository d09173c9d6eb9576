"""The choice of radius, label cost and mixture radius, without seeing anyone's data."""

from drfl.selection.classifier import DRFLClassifierCV
from drfl.selection.regressor import DRFLRegressorCV
from drfl.selection.rules import RULES
from drfl.selection.select import select
from drfl.selection.table import GridPoint, Selection

__all__ = ["RULES", "DRFLClassifierCV", "DRFLRegressorCV", "GridPoint", "Selection", "select"]
