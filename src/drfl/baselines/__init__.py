"""The exact problems that DRFL is compared with, with the same interface and certificates.

They are the convex problems that the methods of these names stand for, not those methods' own
iterations.
"""

from drfl.baselines.afl import AFLClassifier, AFLRegressor
from drfl.baselines.drfa import DRFAClassifier, DRFARegressor
from drfl.baselines.erm import ERMClassifier, ERMRegressor
from drfl.baselines.wafl import WAFLClassifier, WAFLRegressor

__all__ = [
    "AFLClassifier",
    "AFLRegressor",
    "DRFAClassifier",
    "DRFARegressor",
    "ERMClassifier",
    "ERMRegressor",
    "WAFLClassifier",
    "WAFLRegressor",
]
