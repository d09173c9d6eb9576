r"""scikit-learn on the same rows: not robust, no proof, but fast.

With the l2 norm the robust problem :math:`\min\ \text{mean loss}+\rho\|w\|_2` has the solution of
:math:`\min\ \text{mean loss}+\|w\|_2^2/(2CN)` for :math:`C=\|w^*\|_2/(\rho N)`, since the gradients
of the two penalties agree at :math:`w^*`. The pinball loss with the linf norm is, up to the factor
of the radius, the very problem of QuantileRegressor. Every rival gets the loosest tolerance of a
ladder that brings it within 1e-4 of its own optimum: what it needs is not known beforehand, so this
is generous. No intercepts: LinearSVC would penalise them.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, QuantileRegressor, SGDClassifier
from sklearn.svm import LinearSVC

import drfl
from benchmarks.suite.problems import RADIUS, TALL, TOL, solved, targets, two_classes
from benchmarks.suite.race import race
from benchmarks.suite.row import Row
from drfl.losses import make_loss

SECTION = "yardsticks"
LADDER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
QUANTILE_ROWS, QUANTILE = (10_000, 20), 0.3
EPOCHS = 50

Fit = Callable[[], Any]


class Ridge:
    """The problem with half the squared norm whose solution is that of the robust one."""

    def __init__(self, loss: str) -> None:
        self.X, self.y = two_classes(*TALL)
        self.loss, N = make_loss(loss), len(self.y)
        self.problem = drfl.Problem(loss, drfl.Ball(RADIUS, "l2"), intercept="none")
        w = solved(self.problem, self.X, self.y, tol=1e-9).coef
        self.C = float(np.linalg.norm(w)) / (RADIUS * N)
        self.best = self.objective(w)

    def objective(self, w: np.ndarray) -> float:
        mean = float(self.loss.value(self.y * (self.X @ w)).mean())
        return mean + float(w @ w) / (2.0 * self.C * len(self.y))

    def excess(self, model: Any) -> float:
        return self.objective(np.asarray(model.coef_).ravel()) / self.best - 1.0

    def loosest(self, make: Callable[[float], Any]) -> tuple[Any, float]:
        """The model with the largest tolerance that is good enough, and its excess."""
        for tol in LADDER:
            model = make(tol)
            excess = self.excess(_quiet(model, self.X, self.y))
            if excess <= TOL:
                break
        return model, excess


def rows(options: argparse.Namespace) -> Iterator[Row]:
    yield from _beside(
        "hinge",
        "LinearSVC",
        lambda C, tol: LinearSVC(
            loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=100_000, random_state=0
        ),
        at_least=1.0,
    )
    yield from _beside(
        "logistic",
        "LogisticRegression (lbfgs)",
        lambda C, tol: LogisticRegression(C=C, tol=tol, fit_intercept=False, max_iter=10_000),
        at_least=0.5,
    )
    yield _sgd()
    yield _quantile()


def _beside(
    loss: str, name: str, make: Callable[[float, float], Any], at_least: float
) -> Iterator[Row]:
    ridge = Ridge(loss)
    rival, excess = ridge.loosest(lambda tol: make(ridge.C, tol))
    yield _row(f"{loss}, {name}", ridge, rival, f"within {excess:.1e}", at_least=at_least)


def _sgd() -> Row:
    """SGD does not come near 1e-4: it gets its default tolerance and says how far it is."""
    ridge = Ridge("hinge")
    alpha = 1.0 / (ridge.C * len(ridge.y))
    rival = SGDClassifier(alpha=alpha, fit_intercept=False, max_iter=EPOCHS, random_state=0)
    excess = ridge.excess(_quiet(rival, ridge.X, ridge.y))
    detail = f"its default stop, {rival.n_iter_} epochs, ends {excess:.1e} above its optimum"
    return _row("hinge, SGDClassifier", ridge, rival, detail)


def _row(name: str, ridge: Ridge, rival: Any, quality: str, at_least: float | None = None) -> Row:
    lanes = race(
        {
            "drfl": lambda: solved(ridge.problem, ridge.X, ridge.y),
            "rival": lambda: _quiet(rival, ridge.X, ridge.y),
        }
    )
    return _timed(name, lanes, f"{TALL[0]:,} x {TALL[1]}, rival {quality}", at_least)


def _quantile() -> Row:
    X, y = targets(*QUANTILE_ROWS)
    problem = drfl.Problem(
        "pinball", drfl.Ball(RADIUS, "linf"), intercept="none", quantile=QUANTILE
    )
    alpha = RADIUS * max(QUANTILE, 1.0 - QUANTILE)
    rival = QuantileRegressor(quantile=QUANTILE, alpha=alpha, fit_intercept=False, solver="highs")
    lanes = race(
        {"drfl": lambda: solved(problem, X, y), "rival": lambda: _quiet(rival, X, y)}, repeats=3
    )
    theirs = float(make_loss("pinball", quantile=QUANTILE).value(X @ rival.coef_ - y).mean())
    theirs += alpha * float(np.abs(rival.coef_).sum())
    excess = lanes["drfl"].answer.objective / theirs - 1.0
    size = f"{QUANTILE_ROWS[0]:,} x {QUANTILE_ROWS[1]}"
    detail = f"{size}, objectives differ by {excess:.1e}"
    return _timed("pinball, QuantileRegressor (HiGHS)", lanes, detail, 10.0)


def _timed(name: str, lanes: dict[str, Any], detail: str, at_least: float | None) -> Row:
    ours, theirs = lanes["drfl"].seconds, lanes["rival"].seconds
    said = f"{theirs:.3g} s against {ours:.3g} s; {detail}"
    facts = {"drfl": ours, "rival": theirs, "gap": lanes["drfl"].answer.gap}
    return Row(SECTION, name, theirs / ours, at_least=at_least, detail=said, facts=facts)


def _quiet(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)
