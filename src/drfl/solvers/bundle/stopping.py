"""When a run ends, and what may then be said of it."""

from __future__ import annotations

import numpy as np

from drfl.solvers.base import Status
from drfl.solvers.bundle.state import State

STALL_AFTER = 30  # rounds without a better bound


def judge(state: State) -> Status | None:
    """Why the run ends here; None if it goes on."""
    bounds, task, clients = state.bounds, state.task, state.clients
    over = state.round >= task.max_rounds
    if not state.begun:
        nobody = len(clients.lost()) == len(clients)
        return Status.failed(_silence(state)) if nobody or over else None
    if state.reached and (state.ties is None or state.ties.done or over):
        return _success(state)
    if state.only_centre and not _awaited(state):
        return Status.partial(_absence(state), bounds.gap)
    if over:
        return Status.max_rounds(bounds.gap, task.tol)
    if state.round - bounds.progress > STALL_AFTER:
        return _success(state) if state.reached else Status.stalled(bounds.gap, task.tol)
    return None


def _success(state: State) -> Status:
    gap = state.bounds.gap
    if len(state.clients) < len(state.task.names):
        return Status.partial(_absence(state), gap)
    if state.everywhere:
        return Status.certified(gap)
    assert state.bounds.region is not None
    return Status.local(gap, float(state.bounds.region.radius.max()))


def _silence(state: State) -> str:
    clients = state.clients
    names = [clients.names[s] for s in state.asked.requests if s not in clients.introductions]
    reasons = [f"{name}: {clients.rejected.get(name, 'no answer')}" for name in names]
    return f"no usable first answer from {'; '.join(reasons)}"


def _awaited(state: State) -> list[int]:
    """Clients who have not evaluated the centre but may still come back."""
    missing = np.flatnonzero(np.isnan(state.points.here.values))
    return [int(s) for s in missing if not state.clients.gone(int(s))]


def _absence(state: State) -> str:
    """Who is missing, and what the certificate then covers."""
    clients, parts = state.clients, []
    dropped = [name for name in state.task.names if name not in clients.names]
    if dropped:
        parts.append(
            f"{', '.join(dropped)} fell silent before it was known well enough and is left out: "
            "weights and bounds are those of the problem without it"
        )
    frozen = [name for s, name in enumerate(clients.names) if clients.gone(s)]
    if frozen:
        parts.append(
            f"{', '.join(frozen)} fell silent and is represented by its cuts: the lower bound "
            "covers everyone, the objective is that of the best model that everyone evaluated"
        )
    return "; ".join(parts)
