"""What a check says of the stored rows that it left out: a file was not given, or a section."""

from __future__ import annotations

from collections.abc import Iterable


def unchecked(stored: Iterable[str], checked: Iterable[str]) -> str:
    """A line that names the stored rows that were not checked."""
    left = sorted({*stored} - {*checked})
    return f"{len(left)} stored rows not checked{': ' if left else ''}{'; '.join(left)}"
