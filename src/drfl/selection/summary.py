"""From scores and fits to the rows of the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drfl.arrays import Array
from drfl.selection.grid import Candidate
from drfl.selection.path import Fit
from drfl.selection.roster import Roster
from drfl.selection.table import GridPoint, describe


def summarise(
    candidates: Sequence[Candidate],
    roster: Roster,
    scores: Array,
    fits: Sequence[Sequence[Fit]],
    erm: int,
) -> list[GridPoint]:
    """A row for every grid point.

    Parameters
    ----------
    candidates : sequence of Candidate
        The grid points.
    roster : Roster
        Who the clients are.
    scores : array of shape (points, trials, clients)
        NaN where a client was not scored.
    fits : sequence of sequences of Fit
        Those of every point, of all trials and models.
    erm : int
        The point that is ERM; -1: none is called so.
    """
    return [
        _point(candidate, roster, scores[k], fits[k], _note(k, candidates, fits[k], erm))
        for k, candidate in enumerate(candidates)
    ]


def _point(
    candidate: Candidate, roster: Roster, scores: Array, fits: Sequence[Fit], note: str
) -> GridPoint:
    q = candidate.problem.mixture.resolve(roster.totals).weights
    scored = ~np.isnan(scores)
    # A score of every fold; or of every client, which a trial left out.
    each = scores @ q if scored.all() else scores[scored]
    by_client = np.nanmean(scores, axis=0)
    worst = int(np.argmin(by_client))
    return GridPoint(
        params=candidate.params,
        mean=float(each.mean()),
        standard_error=float(each.std(ddof=1) / np.sqrt(len(each))),
        client_scores=dict(zip(roster.labels, by_client.tolist(), strict=True)),
        worst_client=roster.labels[worst],
        worst_score=float(by_client[worst]),
        rounds=sum(fit.rounds for fit in fits),
        note=note,
    )


def _note(k: int, candidates: Sequence[Candidate], fits: Sequence[Fit], erm: int) -> str:
    notes = ["ERM"] if k == erm else []
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
