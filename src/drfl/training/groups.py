"""Groups of rows that a validation judges, from what the user says and the agreed columns."""

from __future__ import annotations

import math
from itertools import pairwise

from drfl._registry import lookup
from drfl.models.judgement import between, read_by
from drfl.selection.client_half.probabilities import Group
from drfl.tables import Category, Number
from drfl.tables.encoding import Encoding
from drfl.training.settings import Settings


def wanted_groups(settings: Settings, encoding: Encoding) -> tuple[Group, ...]:
    """The groups of the setting ``by``: levels of a category, or numbers between cuts.

    Rows are divided by what the model knows of them, so that only its own columns can divide them.
    """
    first, found = 0, list[Group]()
    places = {}
    for column in encoding.columns:
        places[column.name] = (column, first)
        first += len(column.features)
    for text in settings["by"]:
        name, cuts = read_by(text)
        column, j = lookup("column of the model", name, places)
        found += _levels(column, j) if isinstance(column, Category) else _cut(column, j, cuts)
    return tuple(found)


def _levels(column: Category, first: int) -> list[Group]:
    marks = range(first, first + len(column.levels))
    at = {level: ((j, 0.5, math.inf),) for level, j in zip(column.levels, marks, strict=True)}
    none = tuple((j, -math.inf, 0.5) for j in marks)
    return [
        Group(f"{column.name} = {level}", bounds)
        for level, bounds in {column.reference: none, **at}.items()
    ]


def _cut(column: Number, j: int, cuts: list[float]) -> list[Group]:
    if not cuts:
        raise ValueError(
            f"by: column {column.name!r} holds numbers, so say where to divide them, like "
            f"{column.name}:50,65"
        )
    there = ((j + 1, -math.inf, 0.5),) if column.indicator else ()
    ends = pairwise([-math.inf, *cuts, math.inf])
    found = [Group(between(column.name, *end), ((j, *end), *there)) for end in ends]
    gaps = [Group(f"{column.name} missing", ((j + 1, 0.5, math.inf),))] if column.indicator else []
    return found + gaps
