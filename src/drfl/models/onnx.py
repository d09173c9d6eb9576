"""A model as an ONNX graph, from the original columns to the prediction (extra ``onnx``)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from drfl.files import write_bytes
from drfl.models.document import Model
from drfl.tables import OTHER, Number
from drfl.tables.reading import MISSING_TEXTS
from drfl.tables.table import GAP

OPSET = 20  # the first in which texts can be compared with patterns
BLANK = "[\\s\u00a0]"


def export_onnx(model: Model, path: str | os.PathLike[str]) -> None:
    """Write the whole pipeline: categories, filling, scaling, scores, prediction.

    The graph has an input of shape (N, 1) for every column, double or string, named like the
    column, and the outputs ``prediction`` and ``scores``. Texts are read as in a prediction: case
    and blanks do not matter, and an empty one is a gap. A graph cannot refuse or say anything: a
    text that the model does not know counts as in a prediction (and as the reference only where
    the model would refuse it), and NaN stays NaN.

    Parameters
    ----------
    model : Model
        As `drfl.models.read_model` gives it.
    path : path
        Where to.
    """
    if model.problem.network is not None:
        raise ValueError("a network has no graph here: write its module with torch.onnx")
    try:
        import onnx
    except ImportError:
        raise ImportError("an ONNX file needs onnx: pip install 'drfl[onnx]'") from None
    if model.scale == "per-client":
        raise ValueError("scale = 'per-client' depends on the file: such a model has no graph")
    if model.problem.own_intercepts and model.calibrated is None:
        raise ValueError(
            "every client of this model has an intercept of its own: a graph is of one client: "
            "write that of model.at(name)"
        )
    graph = _Graph(onnx).pipeline(model)
    made = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=9
    )
    onnx.checker.check_model(made, full_check=True)
    write_bytes(Path(path), made.SerializeToString())


def _pattern(level: str) -> str:
    """What matches the texts that are this level: case and blanks do not matter."""
    texts = [level, *(sorted(MISSING_TEXTS) if level == GAP else [])]
    words = [f"{BLANK}+".join(map(re.escape, text.split())) for text in texts]
    return f"(?i){BLANK}*(?:{'|'.join(words)}){BLANK}*"


class _Graph:
    """Collects nodes and constants."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def pipeline(self, model: Model) -> Any:
        inputs, features = [], []
        for column in model.columns:
            number = isinstance(column, Number)
            kind = self.onnx.TensorProto.DOUBLE if number else self.onnx.TensorProto.STRING
            inputs.append(self.onnx.helper.make_tensor_value_info(column.name, kind, [None, 1]))
            features += self._number(column) if number else self._category(column)
        x = self.node("Concat", *features, axis=1)
        scores = self._scores(model, x)
        prediction, kind = self._prediction(model, scores)
        self.node("Identity", scores, output="scores")
        self.node("Identity", prediction, output="prediction")
        info = self.onnx.helper.make_tensor_value_info
        outputs = [
            info("prediction", kind, [None]),
            info("scores", self.onnx.TensorProto.DOUBLE, [None, len(model.coef)]),
        ]
        return self.onnx.helper.make_graph(
            self.nodes, "drfl", inputs, outputs, initializer=self.constants
        )

    def _scores(self, model: Model, x: str) -> str:
        shift, scale = model.scaling(np.zeros((1, len(model.features))))
        # Folded into the coefficients: runtimes may fuse a division in single precision.
        curves, column = model.problem.curves, np.arange(len(model.features))
        if curves is not None:
            column = curves.column
            low, high, zero = (part * scale[column] for part in curves.pieces)
            shift, low, high = shift[column], low + shift[column], high + shift[column]
            x = self.node("Gather", x, self.constant(column.astype(np.int64)), axis=1)
            # Where a ramp does not end it is not clipped: constants are finite.
            most = np.finfo(np.float64).max
            x = self.node("Max", x, self.constant(np.maximum(low, -most)[None]))
            x = self.node("Min", x, self.constant(np.minimum(high, most)[None]))
            shift = shift + zero
        u = model.coef / scale[column]
        product = self.node("MatMul", x, self.constant(u.T))
        return self.node("Add", product, self.constant(model.intercept - u @ shift))

    def _number(self, column: Any) -> list[str]:
        if column.fill is None:
            return [str(column.name)]
        missing = self.node("IsNaN", column.name)
        filled = self.node("Where", missing, self.constant(np.array(column.fill)), column.name)
        if not column.indicator:
            return [filled]
        return [filled, self.node("Cast", missing, to=self.onnx.TensorProto.DOUBLE)]

    def _category(self, column: Any) -> list[str]:
        named = [level for level in column.levels if level != OTHER or not column.other]
        equal = [self._equals(column.name, level) for level in named]
        if not column.knows_others:
            return equal
        known = self.node("Sum", *equal, self._equals(column.name, column.reference))
        strange = self.node("Sub", self.constant(np.array(1.0)), known)
        if column.other:
            return [*equal, strange]
        shares = [self.node("Mul", strange, self.scalar(share)) for share in column.shares]
        return [self.node("Add", *pair) for pair in zip(equal, shares, strict=True)]

    def _equals(self, name: str, level: str) -> str:
        same = self.node("RegexFullMatch", name, pattern=_pattern(level))
        return self.node("Cast", same, to=self.onnx.TensorProto.DOUBLE)

    def _prediction(self, model: Model, scores: str) -> tuple[str, int]:
        classes = model.target.classes
        if classes is None:
            y = self.node("Mul", self._squeezed(scores), self.scalar(model.target.scale))
            return self.node(
                "Add", y, self.scalar(model.target.shift)
            ), self.onnx.TensorProto.DOUBLE
        if len(classes) == 2:
            above = self.node("Greater", self._squeezed(scores), self.scalar(0.0))
            place = self.node("Cast", above, to=self.onnx.TensorProto.INT64)
        else:
            place = self.node("ArgMax", scores, axis=1, keepdims=0)
        labels = np.array(classes)
        labels = labels.astype(object) if labels.dtype.kind == "U" else labels
        constant = self.constant(labels)
        return self.node("Gather", constant, place), self.constants[-1].data_type

    def _squeezed(self, scores: str) -> str:
        """The only column of (N, 1)."""
        return self.node("Squeeze", scores, self.constant(np.array([1], dtype=np.int64)))

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; the name of its output."""
        name = output or f"drfl:{len(self.nodes)}"
        made = self.onnx.helper.make_node(kind, list(inputs), [name], **attributes)
        self.nodes.append(made)
        return name

    def scalar(self, value: float) -> str:
        return self.constant(np.array(value))

    def constant(self, value: Any) -> str:
        """Add a constant; its name."""
        name = f"drfl:constant {len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(value, name))
        return name
