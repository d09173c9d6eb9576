"""Look up a name; a typo is answered with the nearest known name. Installed packages add names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import TypeVar

T = TypeVar("T")

EXTENSIONS = "drfl.extensions"
"""The group of entry points under which a package names modules that register what they add."""


@cache
def load_extensions() -> None:
    """Import what installed packages add, once; the program, workers and sites begin with it.

    Nobody far away chooses what is imported: a site loads what is installed at that site.
    """
    from importlib.metadata import entry_points  # which takes longer than the rest of this

    for point in sorted(entry_points(group=EXTENSIONS)):
        try:
            point.load()
        except Exception as error:
            raise ImportError(
                f"the extension {point.name!r} ({point.value}) cannot be loaded "
                f"({type(error).__name__}: {error}): mend it, or uninstall its package"
            ) from error


def lookup(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Return ``known[name]``, or raise a sentence that names what exists.

    Parameters
    ----------
    kind : str
        What is looked up, for the sentence ("loss", "norm", ...).
    name : str
        The name asked for.
    known : mapping of str to object
        Everything that exists.

    Examples
    --------
    >>> lookup("norm", "l2", {"l1": 1, "l2": 2})
    2
    """
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be a name, one of {listed(known)}; got {type(name).__name__}")
    if name in known:
        return known[name]
    near = nearest(name, known)
    hint = f"did you mean {near!r}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}: {hint}known are {listed(known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is meant, whatever its case; empty if none is near.

    Examples
    --------
    >>> nearest("CHOL", ["age", "chol"])
    'chol'
    """
    folded = {other.casefold(): other for other in known}
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return folded[near[0]] if near else ""


def listed(names: Iterable[object]) -> str:
    """Join names for a sentence: ``'a', 'b'``."""
    return ", ".join(repr(name) for name in names)
