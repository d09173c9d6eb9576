"""Descent: Newton's steps, or those of gradients with their curvature, and what they prove."""

from drfl.solvers.local.descent.choice import descent, suits

__all__ = ["descent", "suits"]
