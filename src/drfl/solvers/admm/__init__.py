"""The ADMMs: the paper's Algorithm 1, and consensus ADMM with the exact prox of h."""

from drfl.solvers.admm.ad_lpmm import AdLpmm
from drfl.solvers.admm.consensus import Admm

__all__ = ["AdLpmm", "Admm"]
