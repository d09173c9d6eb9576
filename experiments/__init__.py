"""The paper's experiments: settings go in, records come out, and records make tables and figures.

Run them in a checkout with ``python -m experiments NAME``; see ``docs/experiments.md``.
"""

from experiments.names import NAMES

__all__ = ["NAMES"]
