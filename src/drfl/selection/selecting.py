"""The choice of radius and other parameters, without seeing anyone's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from drfl.estimators.base import RobustModel
from drfl.estimators.choices import AUTO, OVR
from drfl.estimators.client_table import ClientTable
from drfl.estimators.parameters import seed_of
from drfl.selection.choice import Selection
from drfl.selection.clients import SelectionClients, sorted_table
from drfl.selection.cross_validation import checked_noise, choose
from drfl.selection.grid import with_params


def select(
    estimator: RobustModel | Pipeline,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    rule: str = "mean",
    grid: Mapping[str, Sequence[Any]] | None = None,
    folds: int = 5,
    noise_scale: float | None = None,
    scoring: str | None = None,
    random_state: Any = None,
    verbose: int = 1,
    sample_weight: Any = None,
) -> Selection:
    r"""Choose parameters of an estimator by what clients report of rows they held out.

    Every client splits its own rows into folds. Models are trained federatedly on the rest, and
    each client answers with its score of them. The path over the radii is warm-started, and grid
    points that cannot differ are solved once. In every fold a radius is the number that it is for
    all rows.

    Parameters
    ----------
    estimator : DRFLClassifier, DRFLRegressor or one of drfl.baselines, or a pipeline of one
        Its parameters hold where the grid says nothing. What a pipeline does before is fitted once,
        to all rows.
    X, y, clients, sample_weight
        As for its ``fit``.
    rule : {"mean", "one_se", "worst_client", "noise", "new_client"}
        The best mean score, the clients weighing as in the centre of the mixture; the largest
        radius within one standard error of it; the best score of the worst client; the best mean
        score on rows with noise; the best mean score on a client that was left out, in turn. In the
        default grid "mean" and "new_client" keep the radius :math:`0.2\sqrt{n/N}`, with certain
        weights, unless a point is better by more than one paired standard error; with a grid of
        your own "new_client" takes ERM if that is better.
    grid : mapping of str to sequence, optional
        Values to try by parameter, in all combinations; by default eight radii from 0 to
        :math:`2\sqrt{n/N}` with n columns and N rows; for "new_client" with each of the mixture
        radii 0, 0.2 and 1.
    folds : int
        Into how many folds clients split their rows; without effect for "new_client".
    noise_scale : float, optional
        For "noise": the standard deviation of the noise in every feature.
    scoring : {"log_loss", "accuracy", "loss", "squared_error"}, optional
        What counts on held-out rows: by default the log loss where the loss has probabilities, else
        the accuracy; for numbers the mean loss.
    random_state : None, int or RandomState
        Decides which rows are in which fold.
    verbose : int
        If positive, progress is shown on the standard error stream.

    Returns
    -------
    Selection
        The table, the choice with its reason, and the estimator fitted to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from drfl.estimators import DRFLRegressor
    >>> X, y = np.arange(12.0)[:, None] / 4.0, np.arange(12.0)
    >>> found = select(DRFLRegressor(), X, y, folds=3, grid={"radius": [0.0, 1.0]}, verbose=0)
    >>> found.best_params
    {'radius': 0.0}
    """
    given: dict[str, Any] = {
        "clients": clients,
        "rule": rule,
        "grid": grid,
        "folds": folds,
        "noise_scale": noise_scale,
        "scoring": scoring,
        "random_state": random_state,
        "verbose": verbose,
        "sample_weight": sample_weight,
    }
    if isinstance(estimator, Pipeline):
        return _select_last(estimator, X, y, given)
    _check_estimator(estimator)
    checked_noise(rule, noise_scale)
    reader = with_params(estimator, {})
    reader.checked_parameters()
    table = sorted_table(reader.read_rows(X, y, clients, sample_weight))
    if _may_lack_a_class(reader, table, rule):
        estimator = with_params(estimator, {"multiclass": OVR})
        reader.set_params(multiclass=OVR)
    taking_part = SelectionClients.of(
        table,
        reader.model_targets(table.y),
        named=clients is not None,
        curves=reader.curves_of(table),
        classes=reader.n_classes,
    )
    seed = seed_of(random_state)
    settings: dict[str, Any] = {
        "rule": rule,
        "folds": folds,
        "noise_scale": noise_scale,
        "scoring": scoring,
    }
    found = choose(
        estimator, taking_part, grid=grid, random_state=seed, verbose=verbose, **settings
    )
    chosen: Any = with_params(estimator, found.best_params)
    chosen.fit(X, y, clients=clients, sample_weight=sample_weight)
    settings["seed"] = seed
    return Selection(found.table, found.best_params, found.reason, chosen, settings)


def _may_lack_a_class(reader: Any, table: ClientTable, rule: str) -> bool:
    """Whether classes are told apart at once, and a training part may be without one of them.

    Rows are sorted by their labels: of three rows of a class at a client, two are in different
    folds. Where clients are left out, a class has to be at two of them.
    """
    classes = reader.n_classes
    if classes in (None, 2) or reader.get_params().get("multiclass") != AUTO:
        return False
    counts = np.zeros((len(table.names), classes))
    np.add.at(counts, (table.member, table.y.astype(np.intp)), 1)
    enough = (counts > 0).sum(axis=0) > 1 if rule == "new_client" else counts.max(axis=0) > 2
    return not bool(enough.all())


def _select_last(pipeline: Pipeline, X: Any, y: Any, given: dict[str, Any]) -> Selection:
    """The same of the last step of a pipeline; those before are fitted once, to all rows."""
    (name, last), before = pipeline.steps[-1], clone(pipeline[:-1])
    prefix = f"{name}__"
    grid = given["grid"]
    if grid is not None:
        given = {**given, "grid": {k.removeprefix(prefix): values for k, values in grid.items()}}
    found = select(last, before.fit_transform(X, y), y, **given)
    whole = Pipeline([*before.steps, (name, found.estimator)])
    return replace(found, estimator=whole)


def _check_estimator(estimator: Any) -> None:
    if not (isinstance(estimator, RobustModel) and estimator.proves):
        raise TypeError(
            "estimator must be a DRFLClassifier, a DRFLRegressor or one of drfl.baselines, got "
            f"{type(estimator).__name__}"
        )
