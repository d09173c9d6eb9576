"""The problem that is solved, as a frozen specification without data."""

from drfl.problem.plain import SUPPORTS, Json, from_json, to_json
from drfl.problem.specification import INTERCEPTS, Problem, intercept_of

__all__ = ["INTERCEPTS", "SUPPORTS", "Json", "Problem", "from_json", "intercept_of", "to_json"]
