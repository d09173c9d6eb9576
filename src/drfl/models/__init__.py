"""The model file: JSON that holds everything a prediction needs, and nothing that runs."""

from drfl.models.document import ClientPart, Model, ProofRecord
from drfl.models.errors import ModelError
from drfl.models.files import load, save
from drfl.models.onnx import export_onnx
from drfl.models.store import read_model, write_model

__all__ = [
    "ClientPart",
    "Model",
    "ModelError",
    "ProofRecord",
    "export_onnx",
    "load",
    "read_model",
    "save",
    "write_model",
]
