"""What looks wrong in the data of a fit, and is said before the training."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import NDArray

from drfl.estimators.client_table import ClientTable
from drfl.mixture import Mixture
from drfl.tables.table import folded

FEW = 10
"""A client with fewer rows should not weigh as much as the others."""


class DataWarning(UserWarning):
    """The data look as if something were wrong with them; a certificate does not see it."""


def warn_of_variants(classes: NDArray[Any]) -> None:
    """Issue a `DataWarning` if two classes differ in case or blanks alone."""
    known: dict[str, list[str]] = {}
    for label in classes.tolist():
        if isinstance(label, str):
            known.setdefault(folded(label), []).append(label)
    twice = [" and ".join(map(repr, labels)) for labels in known.values() if len(labels) > 1]
    if twice:
        warnings.warn(
            f"y has the classes {', '.join(twice)}: if they are the same, write them in one way",
            DataWarning,
            stacklevel=4,  # the line that calls fit
        )


def warn_of_small_clients(table: ClientTable, mixture: Mixture) -> None:
    """Issue a `DataWarning` if clients of hardly any rows weigh as much as the others."""
    if mixture.center != "uniform" or len(table.names) < 2:
        return
    small = [
        f"{name!r} ({rows:g})"
        for name, rows in zip(table.names.tolist(), table.totals.tolist(), strict=True)
        if rows < FEW
    ]
    if small:
        warnings.warn(
            f"clients with hardly any rows weigh as much as the others: {', '.join(small)}; take "
            "mixture_center='proportional', or leave them out",
            DataWarning,
            stacklevel=4,  # the line that calls fit
        )
