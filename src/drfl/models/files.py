"""`drfl.load` and `drfl.save`: between model files and fitted estimators."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from drfl.models.store import read_model, write_model

if TYPE_CHECKING:
    from drfl.models.estimator import LoadedModel


def load(path: str | os.PathLike[str]) -> LoadedModel:
    """Read a model file, as `drfl train` or `drfl.save` wrote it.

    Parameters
    ----------
    path : path
        Of the file. Every field is checked, and nothing in it is executed.

    Returns
    -------
    LoadedClassifier or LoadedRegressor
        A fitted estimator; its ``predict`` takes the original columns: a DataFrame or a mapping
        with columns of these names, or an array with the columns in their order.
    """
    found: LoadedModel = estimators().loaded(read_model(path))
    return found


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a model file, at once or not at all.

    Parameters
    ----------
    estimator : estimator
        A fitted `drfl.DRFLClassifier`, `drfl.DRFLRegressor`, one of `drfl.baselines` or
        `drfl.native`, a pipeline of a StandardScaler and one of these, or what `drfl.load` gave.
    path : path
        Where to.
    """
    write_model(estimators().model_of(estimator), path)


def estimators() -> Any:
    """The estimators, which need scikit-learn."""
    return import_module("drfl.models.estimator")
