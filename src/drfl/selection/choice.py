"""What a selection gives back: a table from scores and fits, the choice, the reason, the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from drfl.arrays import Array
from drfl.selection.clients import SelectionClients
from drfl.selection.grid import Candidate
from drfl.selection.path import Fit

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
        Of the scores over the folds, or over the clients left out; larger is better, see
        `drfl.selection.client_half.scores.SCORES`.
    client_scores : dict of str to float
        The mean score of every client.
    worst_client, worst_score : str, float
        The client with the smallest of them.
    rounds : int
        How many rounds its fits took; 0 if they were known already.
    note : str
        Why it was not solved, or not to its tolerance; empty otherwise.
    scores : tuple of float
        Of every fold, or of every client that was left out.
    """

    params: dict[str, Any]
    mean: float
    standard_error: float
    client_scores: dict[str, float]
    worst_client: str
    worst_score: float
    rounds: int
    note: str = ""
    scores: tuple[float, ...] = ()

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

    @property
    def best(self) -> GridPoint:
        """The row of the table that was chosen."""
        return next(point for point in self.table if point.params == self.best_params)

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

    estimator: Any
    settings: dict[str, Any] = field(default_factory=dict)


def summarise(
    candidates: Sequence[Candidate],
    clients: SelectionClients,
    scores: Array,
    fits: Sequence[Sequence[Fit]],
    names: Mapping[int, str],
) -> list[GridPoint]:
    """A row for every grid point.

    ``scores`` (points, splits, clients) are NaN where a client was not scored, ``fits`` those of
    every point, of all splits and models, and ``names`` say what some of the points are called.
    """
    return [
        _point(candidate, clients, scores[k], fits[k], _note(k, candidates, fits[k], names))
        for k, candidate in enumerate(candidates)
    ]


def _point(
    candidate: Candidate, clients: SelectionClients, scores: Array, fits: Sequence[Fit], note: str
) -> GridPoint:
    q = candidate.problem.mixture.resolve(clients.totals).weights
    scored = ~np.isnan(scores)
    # A score of every fold; or of every client, which a split left out.
    each = scores @ q if scored.all() else scores[scored]
    by_client = np.nanmean(scores, axis=0)
    worst = int(np.argmin(by_client))
    return GridPoint(
        params=candidate.params,
        mean=float(each.mean()),
        standard_error=float(each.std(ddof=1) / np.sqrt(len(each))),
        client_scores=dict(zip(clients.labels, by_client.tolist(), strict=True)),
        worst_client=clients.labels[worst],
        worst_score=float(by_client[worst]),
        rounds=sum(fit.rounds for fit in fits),
        note=note,
        scores=tuple(each.tolist()),
    )


def _note(
    k: int, candidates: Sequence[Candidate], fits: Sequence[Fit], names: Mapping[int, str]
) -> str:
    notes = [names[k]] if k in names else []
    sources = {fit.source for fit in fits}
    if k not in sources:
        reasons = " or ".join(sorted({fit.reason for fit in fits}))
        notes.append(f"as {_describe(candidates, sources)}: {reasons}")
    short = [fit for fit in fits if fit.short]
    if short:
        gap = max(fit.result.gap for fit in short)
        notes.append(f"{len(short)} of {len(fits)} fits short of tol, largest proved gap {gap:.1e}")
    return "; ".join(notes)


def _describe(candidates: Sequence[Candidate], numbers: set[int]) -> str:
    return " and ".join(describe(candidates[k].params) for k in sorted(numbers))
