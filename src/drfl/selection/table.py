"""What a selection gives back: a table, the choice, the reason, the fitted estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from drfl.estimators.base import RobustModel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GridPoint:
    """A row of the table.

    Attributes
    ----------
    params : dict
        The parameters that were tried.
    mean, standard_error : float
        Of the scores over the folds, or over the clients left out. A score is the share of rows
        whose class is predicted, or minus the mean loss.
    client_scores : dict of str to float
        The mean score of every client.
    worst_client, worst_score : str, float
        The client with the smallest of them.
    rounds : int
        How many rounds its fits took; 0 if they were known already.
    note : str
        Why it was not solved, or not to its tolerance; empty otherwise.
    """

    params: dict[str, Any]
    mean: float
    standard_error: float
    client_scores: dict[str, float]
    worst_client: str
    worst_score: float
    rounds: int
    note: str = ""

    def describe(self) -> str:
        """The parameters, for a sentence."""
        return describe(self.params)


def describe(params: Mapping[str, Any]) -> str:
    """Parameters for a sentence.

    Examples
    --------
    >>> describe({"radius": 0.1, "norm": "l2"})
    'radius=0.1, norm=l2'
    """
    return ", ".join(f"{name}={_short(value)}" for name, value in params.items())


def _short(value: Any) -> str:
    plain = isinstance(value, Real) and not isinstance(value, bool)
    return f"{float(value):.4g}" if plain else str(value)


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes
    ----------
    table : tuple of GridPoint
        One row per grid point.
    best_params : dict
        The parameters that were chosen.
    reason : str
        Why, in one sentence.
    """

    table: tuple[GridPoint, ...]
    best_params: dict[str, Any]
    reason: str

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a DataFrame with a column for every parameter."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas") from None
        names = ("mean", "standard_error", "worst_client", "worst_score", "rounds", "note")
        return pd.DataFrame(
            [{**p.params, **{name: getattr(p, name) for name in names}} for p in self.table]
        )

    def __str__(self) -> str:
        shown = [p.describe() for p in self.table]
        width = max(len("parameters"), *map(len, shown))
        client = max(len("worst client"), *(len(p.worst_client) + 9 for p in self.table))
        lines = [
            f"{'parameters':{width}}  {'mean':>9}  {'std. err.':>9}  {'worst client':>{client}}  "
            f"{'rounds':>6}"
        ]
        for point, params in zip(self.table, shown, strict=True):
            worst = f"{point.worst_client} {point.worst_score:8.4f}"
            mark = "*" if point.params == self.best_params else " "
            lines.append(
                f"{params:{width}} {mark}{point.mean:9.4f}  {point.standard_error:9.4f}  "
                f"{worst:>{client}}  {point.rounds:6d}  {point.note}".rstrip()
            )
        return "\n".join([*lines, "", self.reason])


@dataclass(frozen=True)
class Selection(Choice):
    """The outcome of `drfl.select`.

    Attributes
    ----------
    table, best_params, reason
        One row per grid point, the parameters that were chosen, and why.
    estimator : estimator
        Fitted with them to all rows.
    settings : dict
        How it was chosen: ``rule``, ``folds``, ``noise_scale``, ``seed``.
    """

    estimator: RobustModel
    settings: dict[str, Any] = field(default_factory=dict)
