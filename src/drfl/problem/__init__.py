"""The problem that is solved, as a frozen specification without data."""

from drfl.problem.plain import SUPPORTS, from_json, to_json
from drfl.problem.specification import Problem

__all__ = ["SUPPORTS", "Problem", "from_json", "to_json"]
