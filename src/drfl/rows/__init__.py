"""A client's data: the only owner of X and y."""

from drfl.rows.intake import feature_names, numbers
from drfl.rows.rows import Rows

__all__ = ["Rows", "feature_names", "numbers"]
