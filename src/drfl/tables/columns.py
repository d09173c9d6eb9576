r"""How a column of a file becomes features.

A column of numbers is one feature, scaled as :math:`(x-\mathrm{shift})/\mathrm{scale}`. A column of
text is a feature 0 or 1 for each of its levels but the reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OTHER = "other"
"""The level of values that are too rare to be named."""


GAP = "missing"
"""The level of rows without a value, where these count as a category of their own."""


@dataclass(frozen=True)
class Number:
    """A column of numbers.

    Attributes
    ----------
    name : str
        In the files.
    shift, scale : float
        What the number is scaled by.
    fill : float or None
        What a missing value stands for; None: it is an error.
    """

    name: str
    shift: float = 0.0
    scale: float = 1.0
    fill: float | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        return (self.name,)

    @property
    def knows_gaps(self) -> bool:
        """Whether something stands in for a missing value."""
        return self.fill is not None


@dataclass(frozen=True)
class Category:
    """A column of text.

    Attributes
    ----------
    name : str
        In the files.
    reference : str
        The value that is 0 in all features.
    levels : tuple of str
        The values with a feature of their own.
    other : bool
        Whether values that are none of these count as the last level, `OTHER`.
    """

    name: str
    reference: str
    levels: tuple[str, ...]
    other: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features.

        Examples
        --------
        >>> Category("sex", "m", ("f",)).features
        ('sex=f',)
        """
        return tuple(f"{self.name}={level}" for level in self.levels)

    @property
    def knows_gaps(self) -> bool:
        """Whether a missing value is a level of its own."""
        return GAP in (self.reference, *self.levels)


Column = Number | Category


def feature_names(columns: Iterable[Column]) -> list[str]:
    """The features of all columns, in order."""
    return [feature for column in columns for feature in column.features]
