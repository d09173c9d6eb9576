"""Classes from which nobody derives."""

from __future__ import annotations

from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def sealed(kind: C) -> C:
    """What the library knows of the class would be taken for granted of what derives from it."""

    def refuse(cls: Any) -> None:
        raise TypeError(
            f"{cls.__name__} cannot derive from {kind.__name__}, whose closed forms would be taken "
            f"for its own: derive it from {kind.__mro__[1].__name__}"
        )

    kind.__init_subclass__ = classmethod(refuse)  # type: ignore[assignment]
    return kind
