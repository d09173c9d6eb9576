"""The paper's experiments: settings go in, records come out, and records make tables and figures.

Run them with ``drfl reproduce NAME``, or with `drfl.experiments.reproduce.reproduce`; see
``docs/experiments.md``.
"""

from drfl.experiments.names import NAMES

__all__ = ["NAMES"]
