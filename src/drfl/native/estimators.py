"""The scikit-learn faces, two of every method: a constructor's parameters are its settings.

Examples
--------
>>> from drfl.native import FedAvgClassifier
>>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]
>>> FedAvgClassifier(local_steps=2).fit(X, y, clients=[1, 2, 1, 2]).predict([[3.0]])
array([1])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from drfl import defaults
from drfl.estimators.choices import Choices
from drfl.estimators.classifier import RobustClassifier
from drfl.estimators.client_table import ClientTable
from drfl.estimators.data_warnings import warn_of_data, warn_of_scale
from drfl.estimators.fitting import find_model
from drfl.estimators.parameters import constructor
from drfl.estimators.regressor import RobustRegressor
from drfl.named_problems import NAMED_PROBLEMS
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

NO_SOLVER = {"solver": "auto", "curvature": "auto", "tol": 1e-6}
"""Parameters of the general estimators that the methods' own iterations do not have."""


class NativeModel:
    """What the estimators share: settings become a solver, and `drfl.solve` runs it.

    A class names its ``method``; ``_open`` are parameters of its problem, with their defaults.
    """

    proves: ClassVar[bool] = False
    method: ClassVar[type[Native]]
    _fixed: ClassVar[Mapping[str, Any]]
    _open: ClassVar[Mapping[str, Any]] = {"mixture_center": defaults.MIXTURE_CENTER}
    _first: ClassVar[Mapping[str, Any]]
    _last: ClassVar[Mapping[str, Any]] = {}
    _rounds: ClassVar[int] = 200

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "method" in vars(cls):
            named = NAMED_PROBLEMS[cls.method.problem].fixed
            cls._fixed = {n: v for n, v in {**named, **NO_SOLVER}.items() if n not in cls._open}
            cls.__init__ = constructor(_parameters(cls))  # type: ignore[method-assign]

    def _solver(self, seed: int) -> Native:
        names = [field.name for field in fields(self.method) if field.name != "seed"]
        return self.method(**{name: getattr(self, name) for name in names}, seed=seed)

    def _fit(self: Any, choices: Choices, table: ClientTable, *, named: bool) -> None:
        solver = self._solver(choices.seed)
        problem = choices.problem(table.names.tolist(), table.totals, table.X.shape[1])
        warn_of_data(table, getattr(self, "feature_names_in_", None))
        warn_of_scale(table, getattr(self, "feature_names_in_", None))
        table = table.canonical()
        results = [
            find_model(problem, list(table.clients(target)), choices, solver)
            for target in self.model_targets(table.y)
        ]
        self.problem_, self.client_names_ = problem, table.names
        self._set_model(results)
        self._set_proof(problem, results)


def _parameters(cls: type[NativeModel]) -> dict[str, Any]:
    """The parameters of a constructor, with their defaults."""
    settings = {field.name: field.default for field in fields(cls.method) if field.name != "seed"}
    return {
        **cls._first,
        **cls._open,
        "intercept": "shared",
        **settings,
        "max_rounds": cls._rounds,
        "engine": None,
        **cls._last,
        "random_state": None,
        "verbose": 0,
    }


class NativeClassifier(NativeModel, RobustClassifier):
    """What classifiers share."""

    _first: ClassVar[Mapping[str, Any]] = {"loss": defaults.LOSSES["classification"]}
    _last: ClassVar[Mapping[str, Any]] = {"class_weight": None}


class NativeRegressor(NativeModel, RobustRegressor):
    """What regressors share."""

    _first: ClassVar[Mapping[str, Any]] = {
        "loss": defaults.LOSSES["regression"],
        "epsilon": None,
        "quantile": None,
    }


AGNOSTIC = {"mixture_center": "uniform", "mixture_radius": 0.2, "mixture_norm": 1}
WHOLE_SIMPLEX = {**AGNOSTIC, "mixture_radius": math.inf}
# The average of AFL forgets its beginning slowly.
LONG = 500
SHARED = """``random_state`` is the seed, ``max_rounds`` says when to stop, and the other
    parameters, methods and attributes are those of `drfl.DRFLClassifier` or `drfl.DRFLRegressor`
    that a problem without a radius has. The fit proves nothing: ``lower_bound_`` is 0.
    """


def _faces(
    method: type[Native], title: str, given: Mapping[str, Any] | None = None, rounds: int = 200
) -> tuple[type[NativeClassifier], type[NativeRegressor]]:
    """The two estimators of a method; ``given`` are the parameters of its problem."""
    inside: dict[str, Any] = {"method": method, "_rounds": rounds, "__module__": __name__}
    if given is not None:
        inside["_open"] = given
    classifier, regressor = (
        type(
            f"{method.__name__}{kind}",
            (base,),
            {
                **inside,
                "__doc__": f"A {kind.lower()} trained by {title}; settings are those of "
                f"`drfl.native.{method.__name__}`.\n\n    {SHARED}",
            },
        )
        for kind, base in (("Classifier", NativeClassifier), ("Regressor", NativeRegressor))
    )
    return classifier, regressor


FedAvgClassifier, FedAvgRegressor = _faces(FedAvg, "FedAvg")
FedProxClassifier, FedProxRegressor = _faces(FedProx, "FedProx")
ScaffoldClassifier, ScaffoldRegressor = _faces(Scaffold, "SCAFFOLD")
QFFLClassifier, QFFLRegressor = _faces(QFFL, "q-FFL")
AFLClassifier, AFLRegressor = _faces(AFL, "AFL", AGNOSTIC, LONG)
DRFAClassifier, DRFARegressor = _faces(DRFA, "DRFA", {})
WAFLClassifier, WAFLRegressor = _faces(WAFL, "WAFL, penalty form")
FedADMMClassifier, FedADMMRegressor = _faces(FedADMM, "FedADMM")
ScaffPDClassifier, ScaffPDRegressor = _faces(ScaffPD, "SCAFF-PD", WHOLE_SIMPLEX)
DualADMMClassifier, DualADMMRegressor = _faces(DualADMM, "dual ADMM", AGNOSTIC)
