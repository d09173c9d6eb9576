"""Where data may live."""

from drfl.supports.base import Support, WholeSpace
from drfl.supports.box import Box
from drfl.supports.polyhedron import Polyhedron

__all__ = ["Box", "Polyhedron", "Support", "WholeSpace"]
