"""Tables in files: columns of numbers and of text, read in blocks, and their encoding as rows."""

from drfl.tables.encoding import OTHER, Category, Column, Number, encoded, feature_names
from drfl.tables.read import Reading, read_table
from drfl.tables.reading import TableError
from drfl.tables.table import Table

__all__ = [
    "OTHER",
    "Category",
    "Column",
    "Number",
    "Reading",
    "Table",
    "TableError",
    "encoded",
    "feature_names",
    "read_table",
]
