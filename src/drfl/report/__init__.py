"""From the records of a run, or a fitted estimator, to a page that explains it.

``drfl.report(estimator, path)`` writes the page of an estimator, `write` that of a run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from drfl.report.measure import ClientSample, Plan
from drfl.report.page import write

__all__ = ["ClientSample", "Plan", "report", "write"]


def report(
    estimator: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    clients: Any = None,
    *,
    plan: Plan = Plan(),  # noqa: B008  (frozen)
) -> Path:
    """Write a page about a fitted estimator: one HTML file that works offline.

    Without rows it shows what the estimator knows: the proof, the coefficients, the rounds. With
    the rows of the fit it also shows whom the model serves, what it is protected against, how other
    methods do, and intervals of coefficients. It holds aggregates only; nothing is told of groups
    of fewer than five rows.

    Parameters
    ----------
    estimator : estimator, pipeline or Selection
        One of drfl's, fitted; scalers, imputers, a OneHotEncoder or a ColumnTransformer of these
        before it; what `drfl.select` or `drfl.load` gave.
    path : path
        The file.
    X, y, clients : arrays, optional
        The rows of the fit, as they were given to it.
    plan : drfl.report.Plan
        What is computed from the rows; by default some dozens of refits.

    Returns
    -------
    Path
        The file.
    """
    from drfl.report.estimator import records_of  # here, as it needs scikit-learn
    from drfl.report.page import write_page

    return write_page(records_of(estimator, X, y, clients, plan), Path(path))


class _Callable(ModuleType):
    """The package is found under the name of its main function: so it can be called."""

    def __call__(self, *args: Any, **options: Any) -> Path:
        return report(*args, **options)


sys.modules[__name__].__class__ = _Callable
