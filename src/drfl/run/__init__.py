"""A run: the loop, what it costs, what it gives back, and what survives if it is cut off."""

from drfl.run.loop import solve
from drfl.run.result import Linear, Record, Result

__all__ = ["Linear", "Record", "Result", "solve"]
