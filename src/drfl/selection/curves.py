"""Lines or curves: curves only if they are better by a standard error on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from drfl.arrays import Array
from drfl.checks import number, whole
from drfl.defaults import radius_of
from drfl.estimators.base import RobustModel
from drfl.estimators.client_table import ClientTable
from drfl.estimators.data_warnings import FewRowsWarning, ScaleWarning
from drfl.rows.parts import is_sparse
from drfl.selection.choice import Choice, GridPoint
from drfl.selection.clients import SelectionClients
from drfl.selection.cross_validation import choose

FACTORS = (0.03, 0.1, 0.3, 1.0)  # of the root of columns over rows
TOL = 1e-4  # of the fits to a part of the rows


@dataclass(frozen=True)
class Curve:
    """One radius of lines or of curves: the mean loss on held-out rows."""

    curves: bool
    radius: float
    loss: float


@dataclass(frozen=True)
class CurveSelection:
    """What was chosen, and why.

    Attributes
    ----------
    estimator : RobustModel
        With the chosen parameters, fitted to all rows.
    table : tuple of Curve
        Everything that was tried.
    gain, error : float
        By how much the best curves are better than the best lines on held-out rows, and the
        standard error of that difference.
    """

    estimator: Any
    table: tuple[Curve, ...]
    gain: float
    error: float

    @property
    def curves(self) -> bool:
        """Whether curves were taken."""
        return self.gain > self.error

    def __str__(self) -> str:
        taken = "curves" if self.curves else "lines"
        return (
            f"{taken}: curves change the held-out loss by {-self.gain:+.4f}, "
            f"standard error {self.error:.4f}"
        )


def select_curves(
    estimator: RobustModel,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    radii: Sequence[float] | None = None,
    folds: int = 5,
    noise_scale: float = 0.0,
    random_state: Any = None,
    sample_weight: Any = None,
) -> CurveSelection:
    """Compare an additive model with the linear one, each at its best radius.

    Every client divides its rows into folds. The loss of held-out rows decides; a radius that is
    chosen on clean rows makes curves worse than lines once features are noisy, so say in
    ``noise_scale`` what noise is to be feared.

    Parameters
    ----------
    estimator : DRFLClassifier or DRFLRegressor
        With ``additive`` set; more than two classes in one problem.
    X, y, clients, sample_weight
        As for its `fit`.
    radii : sequence of float, optional
        What is tried; by default four multiples of the root of columns over rows.
    folds : int
        How many.
    noise_scale : float
        The standard deviation of noise that is added to held-out rows.
    random_state : None, int or RandomState
        Decides which rows are in which fold, and draws the noise.

    Returns
    -------
    CurveSelection
        Print it.
    """
    if estimator.checked_parameters().additive is None:
        raise ValueError("additive is not set: say which columns may have curves")
    rng, noise = check_random_state(random_state), number("noise_scale", noise_scale, least=0.0)
    table = clone(estimator).read_rows(X, y, clients, sample_weight)
    if is_classifier(estimator):
        _require_at_once(estimator, len(np.unique(table.y)), table.X.shape[1])
    n = table.X.shape[1]
    tried = (
        [radius_of(f, n, float(table.totals.sum())) for f in FACTORS] if radii is None else radii
    )
    parts = list(_parts(table, whole("folds", folds, least=2), rng))
    held = [_noisy(table.X[out], noise, rng) for _, out in parts]
    found: dict[tuple[bool, float], Array] = {}
    for curves in (False, True):
        for radius in tried:
            losses = np.zeros(len(table.y))
            for (kept, out), rows in zip(parts, held, strict=True):
                model = _with(estimator, curves, float(radius), TOL)
                _fit(model, table, kept)
                losses[out] = _losses(model, rows, table.y[out])
            found[curves, float(radius)] = losses
    mass = table.weight / table.weight.sum()
    tally = tuple(Curve(c, r, float(mass @ losses)) for (c, r), losses in found.items())
    line, curve = (min((t for t in tally if t.curves == c), key=lambda t: t.loss) for c in (0, 1))
    gains = found[False, line.radius] - found[True, curve.radius]
    gain = float(mass @ gains)
    error = float(np.sqrt((mass**2) @ (gains - gain) ** 2))
    chosen = curve if gain > error else line
    final = _with(estimator, chosen.curves, chosen.radius, estimator.get_params()["tol"])
    final.fit(X, y, clients=clients, sample_weight=sample_weight)
    return CurveSelection(final, tally, gain, error)


def _require_at_once(estimator: RobustModel, classes: int, columns: int) -> None:
    """One loss of a row is compared: more than two classes have to be in one problem."""
    if classes > 2 and estimator.checked_parameters().at_once(classes, columns) is None:
        raise ValueError(
            "lines and curves are compared for a number, two classes, or more in one problem: take "
            "norm='l1', no shapes and no multiclass='ovr'"
        )


@dataclass(frozen=True)
class LinesOrCurves:
    """What a rule chooses of lines and of curves, on the same folds of every client."""

    # lines, curves: among the radii of each
    lines: Choice
    curves: Choice
    # gain, error: by how much the curves' score is better, and the standard error of the
    # differences in the folds
    gain: float
    error: float

    @property
    def taken(self) -> bool:
        """Whether curves are: only if they are better by more than a standard error."""
        return self.gain > self.error

    @property
    def choice(self) -> Choice:
        """That of what is taken."""
        return self.curves if self.taken else self.lines

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        word, apart = ("better", self.gain) if self.gain >= 0.0 else ("worse", -self.gain)
        told = (
            f"on held-out rows curves score {word} by {apart:.2g}, standard error {self.error:.2g}"
        )
        return f"{told}: {'curves' if self.taken else 'lines'} are taken"


def choose_curves(estimator: RobustModel, clients: SelectionClients, **how: Any) -> LinesOrCurves:
    """`drfl.selection.cross_validation.choose` for lines and for curves, and which are better.

    Lines are curves without knots, so that they follow the rules that curves are to follow. The
    estimator has the norm of the curves; folds depend on ``random_state``, which is needed here.
    """
    assert clients.curves is not None
    straight = clients.curves.straight()
    lines = choose(estimator, replace(clients, curves=straight), **how)
    curves = choose(estimator, clients, **how)
    apart = np.array(_chosen(curves).scores) - np.array(_chosen(lines).scores)
    error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
    return LinesOrCurves(lines, curves, float(apart.mean()), error)


def _chosen(choice: Choice) -> GridPoint:
    return next(point for point in choice.table if point.params == choice.best_params)


def _parts(
    table: ClientTable, folds: int, rng: Any
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to fit and rows to judge, by fold; every client divides its own."""
    fold = np.zeros(len(table.y), dtype=np.intp)
    for s in range(len(table.names)):
        own = np.flatnonzero(table.member == s)
        if len(own) < folds:
            raise ValueError(
                f"client {table.names[s]!r} has {len(own)} rows, fewer than {folds} folds"
            )
        fold[rng.permutation(own)] = np.arange(len(own)) % folds
    for k in range(folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def _noisy(X: Any, noise: float, rng: Any) -> Any:
    if noise == 0.0:
        return X
    dense = X.toarray() if is_sparse(X) else X
    return dense + noise * rng.normal(size=dense.shape)


def _with(estimator: RobustModel, curves: bool, radius: float, tol: float) -> RobustModel:
    own: dict[str, Any] = {"radius": radius, "tol": tol}
    if not curves:
        own |= {"additive": None, "shapes": None}
    fresh: RobustModel = clone(estimator).set_params(**own)
    return fresh


def _fit(model: RobustModel, table: ClientTable, kept: NDArray[np.intp]) -> None:
    clients = table.names[table.member[kept]]
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, FewRowsWarning, ScaleWarning):
            warnings.simplefilter("ignore", kind)
        model.fit(table.X[kept], table.y[kept], clients=clients, sample_weight=table.weight[kept])


def _losses(model: RobustModel, X: Any, y: Array) -> Array:
    """The loss of every row; classes are 0 to K - 1."""
    score = model.decision_function if is_classifier(model) else model.predict
    z, loss, joint = score(X), model.problem_.loss, model.problem_.joint
    if joint is not None:
        known = np.searchsorted(model.classes_, y)
        if not np.isin(y, model.classes_).all():
            raise ValueError("a class has so few rows that a fold is without it: take fewer folds")
        return joint.value(np.ascontiguousarray(z.T), known)
    return loss.value((2.0 * y - 1.0) * z if loss.task == "classification" else z - y)
