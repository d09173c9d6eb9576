"""Checks of single settings: what a number may be, and the one sentence if it is not.

Each returns the value, so that what was checked is what is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

LARGEST = 2**63
"""Whole numbers stay below: they have to fit into an array."""


def is_number(value: object) -> bool:
    """Whether it is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_whole(value: object) -> bool:
    """Whether it is a whole number by its type; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def number(
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    infinite: bool = False,
) -> float:
    """A number within bounds; inf is one only where it has a meaning, NaN never.

    Examples
    --------
    >>> number("radius", 1, least=0.0)
    1.0
    >>> number("radius", -1.0, least=0.0)
    Traceback (most recent call last):
    ...
    ValueError: radius must be a finite number >= 0, got -1.0
    """
    if not is_number(value):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        found = float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large a number") from None
    within = least <= found <= most and (above < found or above == -math.inf)
    within = within and (found < below or below == math.inf)
    if not within or (math.isinf(found) and not infinite):
        raise ValueError(
            f"{name} must be {_described(least, above, most, below, infinite)}, got {value!r}"
        )
    return found


def whole(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
    """A whole number within bounds.

    Examples
    --------
    >>> whole("rounds", 0, least=1)
    Traceback (most recent call last):
    ...
    ValueError: rounds must be a whole number >= 1, got 0
    """
    bounds = [f"{sign} {b}" for sign, b in ((">=", least), ("<=", most)) if b is not None]
    wanted = " ".join(["a whole number", " and ".join(bounds)]).strip()
    if not is_whole(value):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    low, high = -LARGEST if least is None else least, LARGEST - 1 if most is None else most
    if not low <= value <= high:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def optional(check: Callable[..., Any], name: str, value: Any, **bounds: Any) -> Any:
    """None, or what a check of this module lets pass."""
    if value is None:
        return None
    try:
        return check(name, value, **bounds)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace(" must be ", " must be None or ", 1)) from None


def fits(value: Any, form: Any) -> bool:
    """Whether what came as JSON is of a form.

    A form is a type, which must be met exactly; a list of one form, that of all entries; a tuple
    of forms, one for each entry; a dict of forms by name, all of them and no others, or under the
    key ``str`` that of all entries, whatever their names; or anything that says yes or no.

    Examples
    --------
    >>> fits({"rows": 3, "ends": [0.0, 1.0]}, {"rows": int, "ends": (float, float)})
    True
    >>> fits({"rows": True}, {"rows": int})
    False
    """
    if isinstance(form, type):
        return type(value) is form
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(entry, form[0]) for entry in value)
    if isinstance(form, tuple):
        same = isinstance(value, list) and len(value) == len(form)
        return same and all(map(fits, value, form))
    if isinstance(form, dict):
        if not isinstance(value, dict) or (str not in form and value.keys() != form.keys()):
            return False
        return all(fits(entry, form.get(key, form.get(str))) for key, entry in value.items())
    return bool(form(value))


def _described(least: float, above: float, most: float, below: float, infinite: bool) -> str:
    bounds = [
        f"{sign} {bound:g}"
        for sign, bound in ((">", above), (">=", least), ("<", below), ("<=", most))
        if math.isfinite(bound)
    ]
    kind = "a number" if infinite else "a finite number"
    return " ".join([kind, " and ".join(bounds)]).strip() + (" or inf" if infinite else "")
