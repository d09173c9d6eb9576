"""What a guarded client refuses before it answers the preflight."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfl.privacy.preflight import require_counts
from drfl.tables import TableError


def require_sizes(path: Path, facts: Mapping[str, Any], k: int) -> None:
    """Refuse a file with too few rows, or too few of a class, for a guard of k.

    Parameters
    ----------
    path : Path
        Of the file, for the sentence.
    facts : mapping
        What the client is about to answer.
    k : int
        Of the guard.
    """
    classes = [count for _, count in facts["target"]["values"] or ()]
    try:
        require_counts(facts["rows"], classes, k)
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
