"""A trained model: the linear part, how a file becomes rows, and what was proved.

What is wrong with a model file, in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.one_vs_rest import decided, is_nothing, log_odds, margin_target, positives, probabilities
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.run.result import Result
from drfl.solvers.base import Status
from drfl.tables.encoding import Encoding


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

    @classmethod
    def of(cls, result: Result) -> ProofRecord:
        """What a result has proved."""
        return cls(result.objective, result.lower_bound, result.gap, result.status, result.rounds)


@dataclass(frozen=True)
class ClientPart:
    """What a client had to do with it: rows, and worst weight and loss of every linear model."""

    name: str
    rows: int
    weights: tuple[float, ...]
    losses: tuple[float, ...]


EVERYONE = "*"  # the name under which a calibration is for every client that has none of its own
CALIBRATIONS = ("training", "intercept", "slope", "prevalence")
"""Where a calibration comes from; with "slope" scores become log-odds, whatever the loss."""


@dataclass(frozen=True)
class Calibration:
    r"""What the scores of a client become: :math:`a\,z+c`, for each of the K linear models.

    ``kind`` is one of `CALIBRATIONS`, ``slope`` and ``intercept`` are the K values of a and c.
    """

    kind: str
    slope: tuple[float, ...]
    intercept: tuple[float, ...]

    @classmethod
    def trained(cls, intercepts: Iterable[float]) -> Calibration:
        """A client's own intercepts, as they come out of a training."""
        own = tuple(float(b) for b in intercepts)
        return cls("training", (1.0,) * len(own), own)


@dataclass(frozen=True, eq=False)
class Model(Encoding):
    """Everything that a model file holds: how files become rows, and what was learned."""

    # (K, n) and (K,): one score, or with more than two classes one for each: against the rest,
    # or all in one problem. Of scaled features; with curves in the problem, slopes (K, n');
    # with a network its parameters (1, d), and the intercept 0
    coef: Array
    intercept: Array
    problem: Problem  # what was minimised
    certificates: tuple[ProofRecord, ...]  # what was proved, for each problem that was solved
    clients: tuple[ClientPart, ...]  # who took part
    version: str  # of drfl
    # by client, what is done to its scores: its own intercepts, where every client has one, or
    # what `drfl calibrate` found
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    # the kind of the calibration that coef and intercept contain; see `at`
    calibrated: str | None = None

    def at(self, client: str | None) -> Model:
        """The model of one client: with its calibration, where it has one.

        Where every client has an intercept of its own, a client without one is refused.
        """
        found = self.calibrations.get(str(client), self.calibrations.get(EVERYONE))
        if found is None:
            self._require_intercept(client)
            return self
        slope, shift = np.array(found.slope), np.array(found.intercept)
        return replace(
            self,
            coef=slope[:, None] * self.coef,
            intercept=slope * self.intercept + shift,
            calibrations={},
            calibrated=found.kind,
        )

    def _require_intercept(self, client: str | None) -> None:
        if not self.problem.own_intercepts or self.calibrated is not None:
            return
        whose = "these rows are of nobody" if client is None else f"{client!r} has none"
        raise ModelError(
            f"every client of this model has an intercept of its own, and {whose}: name one of "
            f"{listed(self.calibrations)} (--client, or clients=), or give a new one its own with "
            "`drfl calibrate MODEL NAME=FILE`"
        )

    @property
    def coefficients(self) -> list[str]:
        """The names of the coefficients: features, and pieces of their curves."""
        curves = self.problem.curves
        return self.features if curves is None else curves.names(self.features)

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
        self._require_intercept(None)
        scores = self.raw_scores(X, self.coef, self.intercept, self.scaling(scale_from))
        if self.target.classes is None:
            scores = self.target.shift + self.target.scale * scores
        return np.asarray(scores)

    def raw_scores(
        self, X: Any, coef: Array, intercept: Array, scaling: tuple[Array, Array]
    ) -> Array:
        """The scores (N, K) of models like this one, for rows in the units of their file."""
        shift, scale = scaling
        curves, network = self.problem.curves, self.problem.network
        if network is not None:
            rows = Rows(X, np.zeros(X.shape[0]), shift=shift, scale=scale)
            return network.scores(coef[0], rows.take(slice(None)))
        if curves is None:
            u = coef / scale
            return np.asarray(X @ u.T) + (intercept - u @ shift)
        rows = Rows(X, np.zeros(X.shape[0]), shift=shift, scale=scale).ramped(curves)
        models = zip(coef, intercept.tolist(), strict=True)
        return np.stack([rows.scores(w, b) for w, b in models], axis=1)

    @property
    def joint(self) -> bool:
        """Whether all classes are in one problem."""
        return self.problem.classes is not None

    @property
    def n_problems(self) -> int:
        """How many problems were solved: one for each class against the rest, or one in all."""
        return 1 if self.joint else len(self.coef)

    def linear(self, k: int) -> tuple[Array, Any]:
        """The model of the k-th problem: (n,) and a number, or (K, n) and (K,)."""
        if self.joint:
            return self.coef, self.intercept
        return self.coef[k], float(self.intercept[k])

    def positions(self, scores: Array) -> NDArray[np.intp]:
        """The predicted classes, as positions among the classes (N,)."""
        return decided(scores)

    def target_of(self, k: int, y: Array) -> Array:
        """The target of the k-th problem, from positions of classes or scaled numbers (N,)."""
        classes, network = self.target.classes, self.problem.network
        if classes is None or self.joint or (network is not None and not network.signed):
            return y
        return margin_target(y, positives(len(classes))[k])

    @property
    def predicts_nothing(self) -> bool:
        """Whether all coefficients are zero, to the digits that a certificate speaks of."""
        return is_nothing(self.coef)

    @property
    def probabilistic(self) -> bool:
        """Whether scores are log-odds."""
        network = self.problem.network
        if network is not None:
            return network.task == "classification"
        return self.problem.loss.probabilistic or self.calibrated == "slope"

    @property
    def judgeable(self) -> bool:
        """Whether scores are log-odds of classes, so that probabilities can be judged."""
        return self.probabilistic and self.target.classes is not None

    @property
    def judged(self) -> dict[int, object]:
        """The classes that are judged against the rest: the second of two, or each of several."""
        classes = self.target.classes or ()
        return {k: classes[k] for k in positives(len(classes))}

    def log_odds(self, scores: Array) -> Array:
        """Of those classes, from scores (N, K)."""
        return log_odds(scores, joint=self.joint)

    def probabilities(self, scores: Array) -> Array:
        """Of the classes (N, K), as those of `drfl.DRFLClassifier`."""
        return probabilities(scores, joint=self.joint)
