"""What a guarded client refuses before it answers the preflight."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfl.preflight.moments import Moments
from drfl.privacy.refusals import require_columns, require_counts, require_two
from drfl.tables import TableError


def require_sizes(path: Path, facts: Mapping[str, Any], moments: Moments, k: int) -> None:
    """Refuse a file with too few rows, of a class or for its columns, or with many classes.

    What is the same in all rows may not become a parameter, so it does not count yet.

    Parameters
    ----------
    path : Path
        Of the file, for the sentence.
    facts : mapping
        What the client is about to answer.
    moments : Moments
        Of its columns of numbers.
    k : int
        Of the guard.
    """
    classes = [count for _, count in facts["target"]["values"] or ()]
    levels = [len(text["values"]) + text["other"] for text in facts["texts"].values()]
    n_features = int((moments.deviation > 0.0).sum()) + sum(max(n - 1, 0) for n in levels)
    try:
        require_counts(facts["rows"], classes, k)
        require_two(classes)
        require_columns(facts["rows"], n_features, k)
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
