"""Model files on the disk; `drfl.load` and `drfl.save` are between them and fitted estimators."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drfl.files import write_json
from drfl.models.document import Model, ModelError
from drfl.models.plain import from_plain, to_plain

if TYPE_CHECKING:
    from drfl.models.estimator import LoadedModel


LARGEST = 1_000_000_000  # a larger file is not read


def write_model(model: Model, path: str | os.PathLike[str], *, mode: int | None = None) -> None:
    """Write a model file; whoever reads it sees the old one or the whole new one."""
    write_json(Path(path), to_plain(model), mode=mode)


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file and check every field; nothing in it is ever executed."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise ModelError("it is too large for a model")
        data = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=_once, parse_constant=_no_constant
        )
        return from_plain(data)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: name a model file, like RUN/model.json") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
    except ModelError as error:
        raise ModelError(f"{path} cannot be used: {error}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ModelError(f"{path} is no JSON, or was cut off or edited ({where})") from None
    except (ValueError, RecursionError):  # not UTF-8; a number or a nesting beyond all limits
        raise ModelError(f"{path} is not a model file of drfl, or a damaged one") from None


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ModelError(f"the field {key[:40]!r} is there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ModelError(f"{name} is not JSON")


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
        `drfl.native`, a pipeline of scalers, imputers, a OneHotEncoder or a ColumnTransformer of
        these and one of them, or what `drfl.load` gave.
    path : path
        Where to.
    """
    write_model(estimators().model_of(estimator), path)


def calibrate(
    estimator: Any,
    X: Any,
    y: Any = None,
    clients: Any = "new",
    *,
    kind: str = "intercept",
    prevalence: float | None = None,
) -> LoadedModel:
    """Fit an intercept, or a slope as well, on the rows of one place.

    A new client of a model whose clients have intercepts of their own needs one; and with a slope
    any model of two classes has probabilities.

    Parameters
    ----------
    estimator : estimator
        Fitted, as `save` takes it, or what `load` gave.
    X, y
        Rows in the original columns, and their classes or targets.
    clients : str or array of shape (N,)
        Whose rows these are. One client gets a calibration of its own; several fit one together,
        for everyone who has none.
    kind : {"intercept", "slope"}
        What is fitted.
    prevalence : float, optional
        A known share of the second class, in place of y.

    Returns
    -------
    LoadedClassifier or LoadedRegressor
        The model with the calibration, which its ``predict(X, clients=...)`` uses.
    """
    given: LoadedModel = estimators().calibrated(estimator, X, y, clients, kind, prevalence)
    return given


def estimators() -> Any:
    """The estimators, which need scikit-learn."""
    return import_module("drfl.models.estimator")
