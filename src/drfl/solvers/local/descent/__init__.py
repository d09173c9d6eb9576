"""Descent for the l2 norm: Newton's steps, or those of gradients with their curvature."""

from drfl.solvers.local.descent.search import DescentSearch, suits

__all__ = ["DescentSearch", "suits"]
