r"""What is taken where nothing is said, and what a purpose in plain words stands for.

One radius for all clients, :math:`c\sqrt{n/N}` with n columns of standardised features and the rows
of all clients, N: an average of them is off by about :math:`\sqrt{n/N}` in the Euclidean norm.
With c = 0.1, the logistic (Huber) loss, weights in proportion to the rows and no doubt about them,
the model was worse than ``LogisticRegression(C=1)`` by more than a point of accuracy in none of the
36 cells of ``docs/usefulness.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drfl._registry import lookup

LOSSES: Mapping[str, str] = {"classification": "logistic", "regression": "huber"}
NORM = "l2"
MIXTURE_CENTER = "proportional"
ANCHOR = 0.2
"""The factor of the radius that a selection keeps unless another is clearly better."""
CROWDED = 0.25
"""With more columns per row than this the default radius is too small."""
FEW_ROWS = 5
"""Of what fewer rows hold nothing is told: no value, no count, no metric."""


@dataclass(frozen=True)
class Purpose:
    r"""What a model is for: two settings, why, and at what price.

    Attributes
    ----------
    factor : float
        c of the radius :math:`c\sqrt{n/N}`.
    mixture_radius : float
        How far the clients' weights may be from their centre.
    text, price : str
        What it does, and what it costs.
    """

    factor: float
    mixture_radius: float
    text: str
    price: str


THESE_CLIENTS = "these clients"
PURPOSES: Mapping[str, Purpose] = {
    THESE_CLIENTS: Purpose(
        0.1,
        0.0,
        "more rows of the same clients, in the same shares",
        "none was found against logistic regression; nobody is protected in particular",
    ),
    "new client": Purpose(
        0.2,
        1.0,
        "a client that was not there: the weights of those that were may shift by half",
        "up to 1.4 points at the clients themselves, up to 4.7 where one of them has wrong labels",
    ),
    "worst client": Purpose(
        0.1,
        math.inf,
        "the client with the largest loss counts alone",
        "2.5 points in the mean; a client with wrong labels decides the model",
    ),
    "noisy measurements": Purpose(
        1.0,
        0.0,
        "features that will be measured less precisely than here",
        "up to 4 points where they are not, far more with few rows",
    ),
}


def purpose_of(name: Any) -> Purpose:
    """The purpose of a name; a hyphen is as good as a blank."""
    return lookup("purpose", name.replace("-", " ") if isinstance(name, str) else name, PURPOSES)


AT_ONCE = 2000
"""Classes times columns of one problem: beyond, its curvature is large, and each class is a problem
of its own unless the user wants them together."""


def radius_of(factor: float, n_features: int, rows: float) -> float:
    r"""The radius :math:`c\sqrt{n/N}`.

    Examples
    --------
    >>> radius_of(0.5, 4, 100.0)
    0.1
    """
    return factor * math.sqrt(n_features / rows)


def crowded(n_features: int, rows: float) -> str | None:
    """A sentence with advice where there are too few rows for the default radius."""
    if n_features <= CROWDED * rows:
        return None
    return (
        f"{n_features} columns for {rows:g} rows is more than one for four: the default radius can "
        "be far too small here, so choose it over held-out rows (drfl.select, --select mean), or "
        "leave columns out"
    )
