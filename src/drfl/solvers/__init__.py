"""The solvers by name; a solver's module is imported when it is asked for."""

from drfl.solvers.base import Session, Solver, Status, StatusKind, crossed, relative_gap
from drfl.solvers.registry import SOLVERS, make_solver, solver_class

__all__ = [
    "SOLVERS",
    "Session",
    "Solver",
    "Status",
    "StatusKind",
    "crossed",
    "make_solver",
    "relative_gap",
    "solver_class",
]
