"""Estimators that choose their own parameters."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from drfl.estimators.base import RobustModel
from drfl.selection.search import select

OWN = ("rule", "grid", "folds", "noise_scale")


class SelectingModel(RobustModel):
    """What they share: a fit is a selection. Abstract: parameters are added below."""

    _base: ClassVar[type[RobustModel]]
    """The estimator whose parameters are chosen."""

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> Self:
        """Choose parameters with `drfl.select`, then fit the model with them to all rows.

        Parameters
        ----------
        X, y, clients, sample_weight
            As for the estimator whose parameters are chosen.
        """
        params = self.get_params(deep=False)
        settings = {name: params.pop(name) for name in OWN}
        found = select(
            self._base(**params),
            X,
            y,
            clients,
            **settings,
            random_state=params["random_state"],
            verbose=params["verbose"],
            sample_weight=sample_weight,
        )
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of an earlier fit
        for name, value in vars(found.estimator).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self.selection_, self.best_params_ = found, found.best_params
        return self
