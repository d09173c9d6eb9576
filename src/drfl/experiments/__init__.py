"""The paper's experiments: settings go in, records come out, and records make tables and figures.

Run them with ``drfl reproduce NAME``; see ``docs/experiments.md``.
"""

from drfl.experiments.registry import NAMES, Experiment, find
from drfl.experiments.reproduce import Run, reproduce

__all__ = ["NAMES", "Experiment", "Run", "find", "reproduce"]
