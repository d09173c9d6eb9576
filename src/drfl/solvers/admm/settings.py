"""Checks of settings, which name the setting and what it must be."""

from __future__ import annotations

import math
from numbers import Real


def require_positive(name: str, value: object, *, below: float = math.inf) -> None:
    """A number strictly between 0 and ``below``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0.0 < float(value) < below:
        limit = "be a finite number > 0" if below == math.inf else f"lie between 0 and {below:g}"
        raise ValueError(f"{name} must {limit}, got {value!r}")


def require_count(name: str, value: object, *, least: int = 1) -> None:
    """A whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
