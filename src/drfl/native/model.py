"""What the scikit-learn faces share: the parameters of a constructor are a method's settings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from drfl.arrays import Array
from drfl.estimators.choices import Choices
from drfl.estimators.classification import RobustClassifier
from drfl.estimators.path import find_model
from drfl.estimators.regression import RobustRegressor
from drfl.estimators.scale import warn_of_scale
from drfl.estimators.table import Table
from drfl.native.settings import Native

TRUST_ROWS = {
    "radius": 0.0,
    "label_cost": math.inf,
    "norm": "l1",
    "support": None,
    "shared_ball": False,
    "solver": "auto",
    "curvature": "auto",
    "tol": 1e-6,
}
"""What the problems of all methods have in common."""
CERTAIN = {**TRUST_ROWS, "mixture_radius": 0.0, "mixture_norm": 1}


class NativeModel:
    """What the estimators share: settings become a solver, and `drfl.solve` runs it.

    A class names its ``method``; ``_open`` are parameters of its problem, with their defaults.
    """

    method: ClassVar[type[Native]]
    _fixed: ClassVar[Mapping[str, Any]] = CERTAIN
    _open: ClassVar[Mapping[str, Any]] = {"mixture_center": "uniform"}
    _first: ClassVar[Mapping[str, Any]]
    _last: ClassVar[Mapping[str, Any]] = {}
    _rounds: ClassVar[int] = 200

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "method" in vars(cls):
            cls.__init__ = _constructor(_parameters(cls))  # type: ignore[method-assign]

    def _solver(self, seed: int) -> Native:
        names = [field.name for field in fields(self.method) if field.name != "seed"]
        return self.method(**{name: getattr(self, name) for name in names}, seed=seed)

    def _fit(
        self: Any,
        choices: Choices,
        table: Table,
        targets: Callable[[Array], list[Array]],
        named: bool,
    ) -> None:
        solver = self._solver(choices.seed)
        problem = choices.problem(table.names.tolist(), table.totals)
        warn_of_scale(table.X, table.weight, getattr(self, "feature_names_in_", None))
        table = table.canonical()
        results = [
            find_model(problem, list(table.clients(target)), choices, solver)
            for target in targets(table.y)
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
        "fit_intercept": True,
        **settings,
        "max_rounds": cls._rounds,
        "engine": None,
        **cls._last,
        "random_state": None,
        "verbose": 0,
    }


def _constructor(parameters: Mapping[str, Any]) -> Callable[..., None]:
    """A constructor that stores its parameters; all but the loss are given by name."""
    kinds = inspect.Parameter
    signature = inspect.Signature(
        [
            kinds("self", kinds.POSITIONAL_OR_KEYWORD),
            *(
                kinds(
                    name,
                    kinds.POSITIONAL_OR_KEYWORD if name == "loss" else kinds.KEYWORD_ONLY,
                    default=default,
                )
                for name, default in parameters.items()
            ),
        ]
    )

    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        self = given.arguments.pop("self")
        for name, value in given.arguments.items():
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


class NativeClassifier(NativeModel, RobustClassifier):
    """What classifiers share."""

    _first: ClassVar[Mapping[str, Any]] = {"loss": "hinge"}
    _last: ClassVar[Mapping[str, Any]] = {"class_weight": None}


class NativeRegressor(NativeModel, RobustRegressor):
    """What regressors share."""

    _first: ClassVar[Mapping[str, Any]] = {"loss": "huber", "epsilon": None, "quantile": None}
