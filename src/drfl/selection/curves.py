"""Lines or curves: curves only if they are better by a standard error on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drfl.curves import rules_of_lines
from drfl.estimators.base import RobustModel
from drfl.estimators.choices import Additive
from drfl.estimators.parameters import seed_of
from drfl.problem.multiclass import AT_ONCE, OVR
from drfl.selection.choice import Choice
from drfl.selection.clients import SelectionClients
from drfl.selection.cross_validation import choose
from drfl.selection.grid import with_params
from drfl.selection.selecting import read_clients


@dataclass(frozen=True)
class LinesOrCurves:
    """What a rule chooses of lines and of curves, on the same folds of every client.

    Attributes
    ----------
    lines, curves : Choice
        Among the radii of each: the table, the choice and the reason.
    gain, error : float
        By how much the curves' score is better, and the standard error of the differences in the
        folds.
    """

    lines: Choice
    curves: Choice
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

    def __str__(self) -> str:
        return "\n".join(
            ["lines", str(self.lines), "", "curves", str(self.curves), "", self.reason]
        )


@dataclass(frozen=True)
class CurveSelection(LinesOrCurves):
    """The outcome of `select_curves`.

    Attributes
    ----------
    lines, curves, gain, error
        What was tried and found, see `LinesOrCurves`.
    estimator : estimator
        With what is taken, lines or curves and their radius, fitted to all rows.
    """

    estimator: Any


def select_curves(
    estimator: RobustModel,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    rule: str = "one_se",
    radii: Sequence[float] | None = None,
    folds: int = 5,
    noise_scale: float | None = None,
    random_state: Any = None,
    verbose: int = 1,
    sample_weight: Any = None,
) -> CurveSelection:
    """Compare an additive model with the linear one, each at the radius that a rule chooses.

    It is what ``drfl train --additive auto`` does: `drfl.select` for lines and for curves, on the
    same folds of every client. Curves are taken only if they score better by a standard error.

    Parameters
    ----------
    estimator : DRFLClassifier or DRFLRegressor
        With ``additive`` set.
    X, y, clients, sample_weight
        As for its `fit`.
    rule : {"one_se", "mean", "worst_client", "noise", "new_client"}
        How to choose a radius, as of `drfl.select`. One that is best on clean rows can make curves
        worse than lines once features are noisy: "one_se" is cautious, and "noise" counts it.
    radii : sequence of float, optional
        What is tried; by default the grid of `drfl.select`.
    folds : int
        Into how many folds clients split their rows.
    noise_scale : float, optional
        For "noise": the standard deviation of the noise in every feature.
    random_state : None, int or RandomState
        Decides which rows are in which fold.
    verbose : int
        If positive, progress is shown on the standard error stream.

    Returns
    -------
    CurveSelection
        Print it.
    """
    grid = None if radii is None else {"radius": list(radii)}
    estimator, taking_part = read_clients(estimator, X, y, clients, sample_weight, rule)
    additive = estimator.checked_parameters().additive
    if additive is None:
        raise ValueError("additive is not set: say which columns may have curves")
    if taking_part.classes not in (None, 2):
        # Lines alone might be another kind of problem, which says nothing about curves.
        several = taking_part.classes_at_once is not None
        estimator = with_params(estimator, {"multiclass": AT_ONCE if several else OVR})
    found = choose_curves(
        estimator,
        taking_part,
        rule=rule,
        grid=grid,
        folds=folds,
        noise_scale=noise_scale,
        random_state=seed_of(random_state),
        verbose=verbose,
    )
    own = found.choice.best_params | ({} if found.taken else _as_lines(additive))
    chosen: Any = with_params(estimator, own)
    chosen.fit(X, y, clients=clients, sample_weight=sample_weight)
    return CurveSelection(found.lines, found.curves, found.gain, found.error, chosen)


def choose_curves(estimator: RobustModel, clients: SelectionClients, **how: Any) -> LinesOrCurves:
    """`drfl.selection.cross_validation.choose` for lines and for curves, and which are better.

    Lines are curves without knots, so that they follow the rules that curves are to follow. The
    estimator has the norm of the curves; folds depend on ``random_state``, which is needed here.
    """
    assert clients.curves is not None
    straight = clients.curves.straight()
    lines = choose(estimator, replace(clients, curves=straight), **how)
    curves = choose(estimator, clients, **how)
    apart = np.array(curves.best.scores) - np.array(lines.best.scores)
    error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
    return LinesOrCurves(lines, curves, float(apart.mean()), error)


def _as_lines(additive: Additive) -> dict[str, Any]:
    """The parameters of `Curves.straight`: lines that follow those rules that a line can."""
    rules = {key: rules_of_lines(own) for key, own in additive.shapes.items()}
    if not any(rules.values()):
        return {"additive": None, "shapes": None}
    return {"knots": 0, "shapes": rules}
