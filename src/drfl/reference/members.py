"""The clients of the pooled problem: each with its settings, and all in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.reference.clients import ClientRows, make_client


def make_members(
    loss: Loss, clients: Sequence[tuple[ArrayLike, ArrayLike]], *settings: Any
) -> list[ClientRows]:
    """Every client with its own settings, each given once or once per client."""
    S = len(clients)
    if S == 0:
        raise ValueError("there is no client: give at least one pair (X, y)")
    each = []
    for setting in settings:
        if is_list(setting) and len(setting) != S:
            raise ValueError(f"a setting has {len(setting)} entries for {S} clients: give 1 or {S}")
        each.append(list(setting) if is_list(setting) else [setting] * S)
    members = [
        make_client(loss, X, y, *own)
        for (X, y), own in zip(clients, zip(*each, strict=True), strict=True)
    ]
    if len({client.X.shape[1] for client in members}) > 1:
        raise ValueError("the clients have different numbers of features: give all the same")
    return members


def is_list(setting: Any) -> bool:
    """Whether a setting is given once per client."""
    return isinstance(setting, list | tuple | np.ndarray)


def center_of(center: str | ArrayLike, members: list[ClientRows]) -> Array:
    """The centre of Q as weights, one per client."""
    if isinstance(center, str):
        if center not in ("uniform", "proportional"):
            raise ValueError(f"center must be 'uniform', 'proportional' or weights, got {center!r}")
        sizes = [client.size if center == "proportional" else 1.0 for client in members]
        return np.array(sizes) / sum(sizes)
    q = np.asarray(center, dtype=float)
    if q.shape != (len(members),) or not (q >= 0.0).all() or abs(q.sum() - 1.0) > 1e-9:
        raise ValueError("center must hold one weight >= 0 per client, and they must sum to 1")
    return q


def union_of(members: list[ClientRows], q: Array) -> ClientRows:
    """All rows in one ball: the mixture's empirical distribution."""
    return replace(
        members[0],
        X=np.vstack([client.X for client in members]),
        y=np.concatenate([client.y for client in members]),
        share=np.concatenate([q_s * client.share for q_s, client in zip(q, members, strict=True)]),
        size=sum(client.size for client in members),
    )


def unit_of(members: list[ClientRows]) -> float:
    """Return the unit of the features: solvers fail where w is far from 1.

    Neither a margin nor the price rho ||w||_* of robustness is far from 1 at a sensible w.
    """
    return max(max(float(np.abs(c.X).max()), c.radius) for c in members) or 1.0
