"""The solvers by name; a solver's module is imported when it is asked for."""

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, TypeVar

from drfl._registry import lookup
from drfl.solvers.base import (
    Assignment,
    Session,
    Solver,
    Standing,
    Status,
    StatusKind,
    crossed,
    gap_scale,
    relative_gap,
)

__all__ = [
    "SOLVERS",
    "Assignment",
    "Session",
    "Solver",
    "Standing",
    "Status",
    "StatusKind",
    "configured",
    "crossed",
    "gap_scale",
    "make_solver",
    "relative_gap",
    "settings_of",
    "solver_class",
]

S = TypeVar("S", bound=Solver)

SOLVERS: dict[str, str | type[Solver]] = {
    "bundle": "drfl.solvers.bundle:Bundle",
    "first_order": "drfl.solvers.first_order:FirstOrder",
    "ad_lpmm": "drfl.solvers.admm:AdLpmm",
    "admm": "drfl.solvers.admm:Admm",
    "local": "drfl.solvers.local:Local",
    "private": "drfl.solvers.private:Private",
}
"""Name to class, or to "module:class", so that `import drfl` need not import every method."""


def solver_class(name: str) -> type[Solver]:
    """The class of a registered solver."""
    found = lookup("solver", name, SOLVERS)
    if not isinstance(found, str):
        return found
    module, _, attribute = found.partition(":")
    kind: type[Solver] = getattr(import_module(module), attribute)
    return kind


def settings_of(kind: type[Solver]) -> set[str]:
    """What can be chosen of a solver."""
    return {field.name for field in fields(kind)} if is_dataclass(kind) else set()


def configured(kind: type[S], **wanted: Any) -> S:
    """A solver with those of the settings that it has."""
    known = settings_of(kind)
    return kind(**{name: value for name, value in wanted.items() if name in known})


def make_solver(solver: str | Solver) -> Solver:
    """Turn a name into a solver with its default settings; a Solver passes through."""
    return solver if isinstance(solver, Solver) else solver_class(solver)()
