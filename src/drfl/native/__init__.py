"""The federated methods that the field knows, on the same clients, engines, loop and records.

Each is a solver for `drfl.solve`, say ``solver=FedAvg(local_steps=10)``, and has two scikit-learn
faces, say `FedAvgClassifier` and `FedAvgRegressor`. They prove nothing: the lower bound of their
results is 0, and the model is the last one whose objective was asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from drfl.native.methods.afl import AFL
from drfl.native.methods.drfa import DRFA
from drfl.native.methods.dual_admm import DualADMM
from drfl.native.methods.fedadmm import FedADMM
from drfl.native.methods.fedavg import FedAvg
from drfl.native.methods.fedprox import FedProx
from drfl.native.methods.qffl import QFFL
from drfl.native.methods.scaff_pd import ScaffPD
from drfl.native.methods.scaffold import Scaffold
from drfl.native.methods.wafl import WAFL
from drfl.native.settings import Native

if TYPE_CHECKING:
    from drfl.native.estimators import (
        AFLClassifier,
        AFLRegressor,
        DRFAClassifier,
        DRFARegressor,
        DualADMMClassifier,
        DualADMMRegressor,
        FedADMMClassifier,
        FedADMMRegressor,
        FedAvgClassifier,
        FedAvgRegressor,
        FedProxClassifier,
        FedProxRegressor,
        QFFLClassifier,
        QFFLRegressor,
        ScaffoldClassifier,
        ScaffoldRegressor,
        ScaffPDClassifier,
        ScaffPDRegressor,
        WAFLClassifier,
        WAFLRegressor,
    )

METHODS: dict[str, type[Native]] = {
    method.name: method
    for method in (FedAvg, FedProx, Scaffold, QFFL, AFL, DRFA, WAFL, FedADMM, ScaffPD, DualADMM)
}
"""All of them by name."""

__all__ = [
    "AFL",
    "DRFA",
    "METHODS",
    "QFFL",
    "WAFL",
    "AFLClassifier",
    "AFLRegressor",
    "DRFAClassifier",
    "DRFARegressor",
    "DualADMM",
    "DualADMMClassifier",
    "DualADMMRegressor",
    "FedADMM",
    "FedADMMClassifier",
    "FedADMMRegressor",
    "FedAvg",
    "FedAvgClassifier",
    "FedAvgRegressor",
    "FedProx",
    "FedProxClassifier",
    "FedProxRegressor",
    "QFFLClassifier",
    "QFFLRegressor",
    "ScaffPD",
    "ScaffPDClassifier",
    "ScaffPDRegressor",
    "Scaffold",
    "ScaffoldClassifier",
    "ScaffoldRegressor",
    "WAFLClassifier",
    "WAFLRegressor",
]


def __getattr__(name: str) -> Any:
    # The estimators need scikit-learn, which the worker of a client should not have to load.
    if name in __all__:
        return getattr(import_module("drfl.native.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
