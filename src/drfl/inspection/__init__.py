"""Table 1: what every client's columns look like, and what looks wrong in them.

A certificate proves that the optimisation is right, not that the data are.
"""

from drfl.inspection.in_memory import array_table, row_sentences
from drfl.inspection.suspicion import column_ends
from drfl.inspection.table_one import Cell, TableOne

__all__ = ["Cell", "TableOne", "array_table", "column_ends", "row_sentences"]
