"""scikit-learn estimators: a fit with a proof of how good it is."""

from drfl.estimators.classifier import DRFLClassifier
from drfl.estimators.data_warnings import (
    DataWarning,
    FewRowsWarning,
    NothingLearnedWarning,
    ScaleWarning,
    inspect,
    merge_labels,
)
from drfl.estimators.regressor import DRFLRegressor

__all__ = [
    "DRFLClassifier",
    "DRFLRegressor",
    "DataWarning",
    "FewRowsWarning",
    "NothingLearnedWarning",
    "ScaleWarning",
    "inspect",
    "merge_labels",
]
