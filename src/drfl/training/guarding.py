"""`drfl train --guard`: what it refuses, where its ledgers are, and what it lets out at the end."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import numpy as np

from drfl.arrays import Array
from drfl.client import Client
from drfl.models import Model
from drfl.privacy import Guard, SpentError, guard_line, meaning_of, release_metric
from drfl.training.run_folder import RunFolder
from drfl.training.settings import Settings

COMPARED = ("erm", "afl", "drfa")
"""Methods that ask guarded clients nothing but what their ledgers allow."""


def check_guard(settings: Settings) -> None:
    """Refuse, before any file is read, what a guard does not know."""
    if settings["guard"] is None:
        return
    Guard(k=settings["guard"])
    if settings["solver"] != "bundle":
        raise ValueError(
            f"a guard does not know the solver {settings['solver']!r}: take bundle, or no guard"
        )
    if settings["support"]:
        raise ValueError("a guard does not know a support: leave out the support, or the guard")
    if settings["select"]:
        raise ValueError(
            "a guard does not go with --select, whose folds would pass it by: give --radius, or "
            "leave out the guard"
        )
    for name in settings["compare"]:
        if name not in COMPARED:
            raise ValueError(
                f"a guard does not let {name!r} be compared, it knows {', '.join(COMPARED)}: "
                "compare these, or leave out the guard"
            )


def guards(settings: Settings, folder: RunFolder) -> dict[str, Guard | None]:
    """The guard of every client, with its ledger in the folder of the run."""
    if settings["guard"] is None:
        return dict.fromkeys(settings.clients)
    found: dict[str, Guard | None] = {}
    for name in settings.clients:
        ledger = folder.ledgers / f"{quote(name, safe=' ')}.ledger"
        # All ledgers are begun before the first round, and no round may be without.
        if (folder.checkpoint / "model-0").exists() and not ledger.exists():
            raise ValueError(
                f"the ledger {ledger} of client {name!r} is gone: put it back, a run cannot go on "
                "with a new one"
            )
        found[name] = Guard(k=settings["guard"], ledger=ledger)
    return found


def guards_line(found: Mapping[str, int], settings: Settings, folder: RunFolder) -> str:
    """Which guards the clients have, in one line for the records.

    Parameters
    ----------
    found : mapping of str to int
        k by client, as the clients say; 0: none.
    settings, folder
        Of the run; for clients here the folder stands for their ledgers.
    """
    if settings["guard"] is not None:
        return guard_line(Guard(k=settings["guard"], ledger=folder.ledgers))
    if not any(found.values()):
        return guard_line(None)
    said = [f"{name} k = {k}" if k else f"{name} none" for name, k in found.items()]
    return f"guard: {', '.join(said)}; ledgers at the clients"


def guarded_metrics(model: Model, client: Client, scores: Array, y: Array) -> dict[str, float]:
    """How good predictions are, as counted scalars; NaN if the ledger gives no more.

    Parameters
    ----------
    model : Model
        What has been learned.
    client : Client
        With a guard.
    scores, y : (N, K), (N,)
        Scores, and positions of classes or scaled targets.
    """
    guard, ledger = client.guard, client.ledger
    assert guard is not None
    assert ledger is not None
    sha = hashlib.sha256(meaning_of(client.rows))
    sha.update(model.coef.tobytes() + model.intercept.tobytes())
    question = sha.digest()

    def told(name: str, per_row: Any) -> float:
        try:
            return max(release_metric(ledger, name, question, per_row, guard.scalars), 0.0)
        except SpentError:
            return math.nan

    if model.target.classes is not None:
        return {"accuracy": min(told("accuracy", model.positions(scores) == y), 1.0)}
    # Rounded in scaled units, which the grid is made for.
    error, scale = scores[:, 0] - y, model.target.scale
    return {
        "mse": scale**2 * told("mse", np.square(error)),
        "mae": scale * told("mae", np.abs(error)),
    }
