r"""How a column of a file becomes features.

A column of numbers is one feature, scaled as :math:`(x-\mathrm{shift})/\mathrm{scale}`; where its
gaps are marked there is another, 1 where there is no value. A column of text is a feature 0 or 1
for each of its levels but the reference.
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
    indicator : bool
        Whether a second feature says where a value is missing.
    """

    name: str
    shift: float = 0.0
    scale: float = 1.0
    fill: float | None = None
    indicator: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features.

        Examples
        --------
        >>> Number("ca", fill=0.7, indicator=True).features
        ('ca', 'ca=missing')
        """
        return (self.name, f"{self.name}={GAP}") if self.indicator else (self.name,)

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
    shares : tuple of float
        The shares of the levels in the training. Without a level `OTHER` a value that is none of
        these counts as the mean over all of them, which has these numbers as features, and is
        neither the reference nor another level. Empty: nobody knows, and it is refused.
    """

    name: str
    reference: str
    levels: tuple[str, ...]
    other: bool = False
    shares: tuple[float, ...] = ()

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
    def knows_others(self) -> bool:
        """Whether a value that is none of the levels has a meaning."""
        return self.other or bool(self.shares)

    @property
    def knows_gaps(self) -> bool:
        """Whether a missing value is a level of its own."""
        return GAP in (self.reference, *self.levels)


Column = Number | Category


def units_of(columns: Iterable[Column]) -> list[tuple[float, float, bool]]:
    """Shift and scale of every feature, and whether it is a number that was measured."""
    found = []
    for column in columns:
        marks = [(0.0, 1.0, False)] * len(column.features)
        if isinstance(column, Number):
            marks[0] = (column.shift, column.scale, True)
        found += marks
    return found


def feature_names(columns: Iterable[Column]) -> list[str]:
    """The features of all columns, in order."""
    return [feature for column in columns for feature in column.features]
