"""A trained model: the linear part, how a file becomes rows, and what was proved.

What is wrong with a model file, in one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.one_vs_rest import decided, is_nothing, margin_target, positives, probabilities
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import Status
from drfl.tables import Column, feature_names
from drfl.tables.encoding import Encoding, Target


class ModelError(ValueError):
    """A model file that cannot be used."""


@dataclass(frozen=True)
class ProofRecord:
    """What was proved of one linear model; see `drfl.Result`."""

    objective: float
    lower_bound: float
    gap: float
    status: Status
    rounds: int


@dataclass(frozen=True)
class ClientPart:
    """What a client had to do with it: rows, and worst weight and loss of every linear model."""

    name: str
    rows: int
    weights: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """Everything that a model file holds.

    Attributes
    ----------
    target : Target
        What is predicted.
    columns : tuple of Column
        What the features are made of.
    scale, missing : str
        How numbers were scaled, and what was done about missing values.
    coef, intercept : arrays of shape (K, n) and (K,)
        One linear model, or with more than two classes one for each against the rest; of scaled
        features. With curves in the problem, slopes (K, n').
    problem : Problem
        What was minimised.
    certificates : tuple of ProofRecord
        What was proved, for each linear model.
    clients : tuple of ClientPart
        Who took part.
    version : str
        Of drfl.
    """

    target: Target
    columns: tuple[Column, ...]
    scale: str
    missing: str
    coef: Array
    intercept: Array
    problem: Problem
    certificates: tuple[ProofRecord, ...]
    clients: tuple[ClientPart, ...]
    version: str

    @property
    def encoding(self) -> Encoding:
        """How files become rows."""
        return Encoding(self.target, self.columns, self.scale, self.missing)

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return feature_names(self.columns)

    @property
    def coefficients(self) -> list[str]:
        """The names of the coefficients: features, and pieces of their curves."""
        curves = self.problem.curves
        return self.features if curves is None else curves.names(self.features)

    def scaling(self, X: Any) -> tuple[Array, Array]:
        """Shift and scale of every feature, for rows of one client in the units of its file."""
        return self.encoding.scaling(X)

    def scores(self, X: Any, scale_from: Any = None) -> Array:
        """The scores of rows in the units of their file, (N, K); numbers in the target's units.

        Parameters
        ----------
        X : array of shape (N, n)
            The rows.
        scale_from : array of shape (M, n), optional
            Of a model whose clients scaled their rows by themselves: all rows of the client that X
            belong to. Without them a row would have another score in every other company.
        """
        if self.scale == "per-client" and scale_from is None:
            raise ValueError(
                "every client of this model scaled its rows by itself, so a row alone has no "
                "score: say whose rows to scale by (--scale-from FILE, or scale_from)"
            )
        scores = self.raw_scores(X, self.coef, self.intercept, self.scaling(scale_from))
        if self.target.classes is None:
            scores = self.target.shift + self.target.scale * scores
        return np.asarray(scores)

    def raw_scores(
        self, X: Any, coef: Array, intercept: Array, scaling: tuple[Array, Array]
    ) -> Array:
        """The scores (N, K) of models like this one, for rows in the units of their file."""
        shift, scale = scaling
        curves = self.problem.curves
        if curves is None:
            u = coef / scale
            return np.asarray(X @ u.T) + (intercept - u @ shift)
        rows = Rows(X, np.zeros(X.shape[0]), shift=shift, scale=scale).ramped(curves)
        models = zip(coef, intercept.tolist(), strict=True)
        return np.stack([rows.scores(w, b) for w, b in models], axis=1)

    def positions(self, scores: Array) -> NDArray[np.intp]:
        """The predicted classes, as positions among the classes (N,)."""
        return decided(scores)

    def target_of(self, k: int, y: Array) -> Array:
        """The target of the k-th linear model, from positions of classes or scaled numbers (N,)."""
        classes = self.target.classes
        return y if classes is None else margin_target(y, positives(len(classes))[k])

    @property
    def predicts_nothing(self) -> bool:
        """Whether all coefficients are zero, to the digits that a certificate speaks of."""
        return is_nothing(self.coef)

    @property
    def probabilistic(self) -> bool:
        """Whether scores are log-odds."""
        return self.problem.loss.name == "logistic"

    def probabilities(self, scores: Array) -> Array:
        """Of the classes (N, K), as those of `drfl.DRFLClassifier`."""
        return probabilities(scores)
