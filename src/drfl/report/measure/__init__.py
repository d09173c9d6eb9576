"""What is measured where the rows are at hand: records of aggregates, and of rows if asked for."""

from drfl.report.measure.measured import Plan, measured
from drfl.report.measure.sample import ClientSample

__all__ = ["ClientSample", "Plan", "measured"]
