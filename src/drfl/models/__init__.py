"""The model file: JSON that holds everything a prediction needs, and nothing that runs."""

from drfl.models.document import ClientPart, Model, ModelError, ProofRecord
from drfl.models.model_files import calibrate, load, read_model, save, write_model
from drfl.models.onnx import export_onnx

__all__ = [
    "ClientPart",
    "Model",
    "ModelError",
    "ProofRecord",
    "calibrate",
    "export_onnx",
    "load",
    "read_model",
    "save",
    "write_model",
]
