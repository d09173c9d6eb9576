"""What went wrong at a site, in words: for the people there, and for nobody else."""

from __future__ import annotations

import logging
from pathlib import Path

TROUBLES = logging.getLogger("drfl")
"""Whoever turns an error into a code says here what it was."""


def keep_troubles(state: Path) -> None:
    """Let this process write them to ``errors.log``, in a folder of the site; it is never sent."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = logging.FileHandler(state / "errors.log", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    TROUBLES.addHandler(handler)
    TROUBLES.propagate = False
