"""Distributionally robust federated learning: linear models, exact solutions, proven bounds."""

from drfl import datasets
from drfl.ball import Ball
from drfl.client import Client, Policy
from drfl.mixture import Mixture
from drfl.problem import Problem
from drfl.result import Result
from drfl.run import solve
from drfl.supports import Box, Polyhedron
from drfl.worst_case import worst_case_loss

__version__ = "0.1.0"

__all__ = [
    "Ball",
    "Box",
    "Client",
    "Mixture",
    "Policy",
    "Polyhedron",
    "Problem",
    "Result",
    "__version__",
    "datasets",
    "solve",
    "worst_case_loss",
]
