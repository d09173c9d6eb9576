"""Why a run of these methods ends: they prove nothing, so they cannot tell that they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drfl.solvers.base import Status, StatusKind


def used_up(method: str, *, worse: bool) -> Status:
    """All rounds were made; ``worse``: and the zero model was better."""
    advice = "allow more rounds, or compare with solver='bundle'"
    told = f"how far the optimum is, {method} cannot tell: {advice}"
    if worse:
        told = "the model is worse than the zero model: take shorter steps"
    return Status(StatusKind.MAX_ROUNDS, f"all rounds were made; {told}")


def settled(method: str, change: float, rounds: int) -> Status:
    """The objective hardly changes any more."""
    return Status(
        StatusKind.STOPPED,
        f"the objective changed by less than {change:.1e} (relative) in {rounds} rounds; how far "
        f"the optimum is, {method} cannot tell",
    )


def diverged(factor: float) -> Status:
    """The model became ever worse."""
    return Status.failed(
        f"the objective is {factor:.1e} times that of the zero model: take shorter steps"
    )


def unintroduced(missing: Sequence[str], rejected: Mapping[str, str]) -> Status:
    """Some clients gave no usable first answer."""
    reasons = [f"{name}: {rejected.get(name, 'no answer')}" for name in missing]
    return Status.failed(f"no usable first answer from {'; '.join(reasons)}")


def silent(rounds: int, rejected: Mapping[str, str]) -> Status:
    """Nobody gives a usable answer any more."""
    reasons = "".join(f"; {name}: {reason}" for name, reason in rejected.items())
    return Status.failed(f"no usable answer in {rounds} rounds{reasons}")
