"""When a run ends, and what may then be said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drfl.solvers.base import Status

if TYPE_CHECKING:
    from drfl.solvers.bundle.session import BundleSession

STALL_AFTER = 30  # rounds without a better bound


def verdict(run: BundleSession) -> Status | None:
    """Why the run ends here; None if it goes on."""
    reached = run.gap <= run.tol
    if run.centre < 0:
        nobody = len(run.roster.lost()) == len(run.roster.names)
        return Status.failed(_silence(run)) if nobody or run.round >= run.max_rounds else None
    if reached and (run.ties is None or run.ties.done or run.round >= run.max_rounds):
        return _success(run)
    if run.closing and not _awaited(run):
        return Status.partial(_absence(run), run.gap)
    if run.round >= run.max_rounds:
        return Status.max_rounds(run.gap, run.tol)
    if run.round - run.last_progress > STALL_AFTER:
        return _success(run) if reached else Status.stalled(run.gap, run.tol)
    return None


def _success(run: BundleSession) -> Status:
    if len(run.roster.names) < len(run.every_name):
        return Status.partial(_absence(run), run.gap)
    if run.bounded_everywhere:
        return Status.certified(run.gap)
    assert run.region is not None
    return Status.local(run.gap, float(run.region.radius.max()))


def _silence(run: BundleSession) -> str:
    names = [run.roster.names[s] for s in run.asked if s not in run.introductions]
    reasons = [f"{name}: {run.roster.rejected.get(name, 'no answer')}" for name in names]
    return f"no usable first answer from {'; '.join(reasons)}"


def _awaited(run: BundleSession) -> list[int]:
    """Clients who have not evaluated the centre but may still come back."""
    missing = np.flatnonzero(np.isnan(run.evaluated.points[run.centre].values))
    return [int(s) for s in missing if not run.roster.gone(int(s))]


def _absence(run: BundleSession) -> str:
    """Who is missing, and what the certificate then covers."""
    parts = []
    dropped = [name for name in run.every_name if name not in run.roster.names]
    if dropped:
        parts.append(
            f"{', '.join(dropped)} fell silent before it was known well enough and is left out: "
            "weights and bounds are those of the problem without it"
        )
    frozen = [name for s, name in enumerate(run.roster.names) if run.roster.gone(s)]
    if frozen:
        parts.append(
            f"{', '.join(frozen)} fell silent and is represented by its cuts: the lower bound "
            "covers everyone, the objective is that of the best model that everyone evaluated"
        )
    return "; ".join(parts)
