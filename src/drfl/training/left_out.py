"""What every client does to the others: their losses with it and without it.

With weight q of a client, a model that gives it up entirely cannot have less than about (1 - q) of
the others' losses where all speak of the same thing: a larger change is not explained by the
weight.
"""

from __future__ import annotations

from collections.abc import Mapping

from drfl.problem import Problem

KIND = "left_out"
LITTLE = 0.1  # a relative change that says nothing, whatever the weight
FEWEST = 3  # clients: of two the other one alone would be left


def without(problem: Problem, rows: Mapping[str, int], name: str) -> Problem:
    """The problem of all clients but one; ``rows`` says how many each has, in their order."""
    return problem.among(rows, {other: other for other in rows if other != name})


def unexplained(client: str, weight: float, before: float, after: float) -> str | None:
    """A sentence where the others' loss changes by more than a client's weight explains.

    Examples
    --------
    >>> unexplained("south", 0.4, 0.50, 0.45) is None
    True
    >>> unexplained("south", 0.4, 0.50, 0.25)[:68]
    'Without south the model would have 50 % less loss at the others, whi'
    """
    change = (after - before) / before
    if abs(change) <= max(weight, LITTLE):
        return None
    return (
        f"Without {client} the model would have {100.0 * abs(change):.0f} % "
        f"{'less' if change < 0 else 'more'} loss at the others, while its weight is "
        f"{100.0 * weight:.0f} %: its rows say something else than theirs, or are wrong. Look at "
        "them before you use the model."
    )
