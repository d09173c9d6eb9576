"""Standard errors, intervals and tests for the unpenalised model that a robust fit leads to."""

from drfl.inference.estimate import (
    KINDS,
    NO_TRUE_SLOPES,
    Estimate,
    InferenceError,
    ModelPieces,
    confidence_radius,
    corrected,
    require_curved,
)
from drfl.inference.protocol import HANDLERS, Inquiry
from drfl.inference.table import CLUSTERS, FewClustersWarning, Inference, Wald, file_units

__all__ = [
    "CLUSTERS",
    "HANDLERS",
    "KINDS",
    "NO_TRUE_SLOPES",
    "Estimate",
    "FewClustersWarning",
    "Inference",
    "InferenceError",
    "Inquiry",
    "ModelPieces",
    "Wald",
    "confidence_radius",
    "corrected",
    "file_units",
    "require_curved",
]
