"""Groups of fewer than five rows are not told about, nor can they be found by subtraction.

A client with fewer rows is named, and nothing else of it is shown. The weights of all clients add
up to 1, their weighted losses to the objective, their scores to the means of a selection: where
only such clients, with fewer than five rows together, or one of them were left out, the next
smaller ones keep them company, and the losses, weights and scores of these are not told either.

A class with fewer rows at a client is not counted. As the others could be subtracted from the
client's rows, it gets company in the same way, and the metrics that depend on single classes are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from drfl.defaults import FEW_ROWS
from drfl.problem import Json
from drfl.report.blocks import MOST_MARKS as MANY
from drfl.report.evidence import Evidence, names, numbers, objects_of, vector, whole

T = TypeVar("T", str, int)

FEW = f"< {FEW_ROWS}"


class Groups:
    """How many rows there are, and what of it may be told.

    Parameters
    ----------
    evidence : Evidence
        Its preflight record says how many rows each client has, and of which class.

    Attributes
    ----------
    clients : list of str
        Every client, in order.
    classes : list of str
        The classes; none for a numeric target.
    shown : dict with str for keys
        The clients of which more than the name is told; if there are many, those with the largest
        worst-case loss come first, as a page has no room for all.
    small : list of str
        The other ones.
    company : list of str
        Those of the shown ones of which nothing is told that would give a small one away.
    """

    def __init__(self, evidence: Evidence) -> None:
        found = evidence.first("preflight")
        rows = objects_of(found.get("rows"))
        models = evidence.models
        weights = objects_of(models[0].get("weights")) if models else {}
        self.clients = [str(client) for client in rows or weights]
        self.classes = names(found.get("classes"))
        self._rows = {str(client): whole(value) for client, value in rows.items()}
        counts = objects_of(found.get("class_counts"))
        self._counts = {str(client): vector(value) for client, value in counts.items()}
        mixture = objects_of(evidence.first("problem").get("mixture"))
        self._proportional = mixture.get("center") == "proportional"
        losses = numbers(models[0].get("losses")) if models else {}
        known = [client for client in self.clients if not self.is_small(client)]
        if len(known) > MANY:
            known.sort(key=lambda client: -losses.get(client, 0.0))
        self.shown = dict.fromkeys(known)
        self.small = [client for client in self.clients if client not in self.shown]
        sizes = {client: self._rows.get(client) or 0 for client in self.clients}
        hidden = _with_company(self.small, sizes)
        self.company = [client for client in self.shown if client in hidden]
        self._thin = {client for client in self.shown if None in self.counts(client)}

    @property
    def weights_are_shown(self) -> bool:
        """Not if they give away how many rows a small client has."""
        return not (self._proportional and self.small)

    def is_small(self, client: str) -> bool:
        """Whether a client has too few rows; a client of unknown size counts as such."""
        rows = self._rows.get(client)
        return rows is None or rows < FEW_ROWS

    def tells_parts(self, client: str) -> bool:
        """Whether a client's part of a published total may be told."""
        return not self.is_small(client) and client not in self.company

    def rows(self, client: str) -> int | None:
        """The rows of a client, or None if they are not told."""
        return None if self.is_small(client) else self._rows[client]

    def total(self) -> int | None:
        """All rows, unless some of them would follow by subtraction."""
        return None if self.small else sum(n for n in self._rows.values() if n is not None)

    def balls(self, problem: Json) -> dict[str, Json]:
        """The balls of a problem by client, as far as they may be told: a radius may depend on N_s.

        One that all clients share has the name "".
        """
        if "ball" in problem:
            return {"": objects_of(problem["ball"])}
        known = objects_of(problem.get("balls")).items()
        return {str(c): objects_of(ball) for c, ball in known if str(c) in self.shown}

    def counts(self, client: str) -> list[int | None]:
        """The rows of every class at a client, with None for what is not told."""
        found = self._counts.get(client, [])
        if self.is_small(client) or len(found) != len(self.classes):
            return [None] * len(self.classes)
        sizes = {k: int(n) for k, n in enumerate(found)}
        hidden = _with_company([k for k, n in sizes.items() if n < FEW_ROWS], sizes)
        return [None if k in hidden else int(n) for k, n in enumerate(found)]

    def scores(self, client: str, value: object) -> dict[str, float]:
        """The metrics of a client that may be told."""
        if self.is_small(client):
            return {}
        by_class = ("balanced_accuracy", "auc") if client in self._thin else ()
        return {key: score for key, score in numbers(value).items() if key not in by_class}


def _with_company(few: Iterable[T], sizes: Mapping[T, int]) -> set[T]:
    """These groups, with as many of the next smaller ones as hide their size and their mean."""
    hidden = set(few)
    rest = sorted(set(sizes) - hidden, key=lambda group: (sizes[group], str(group)))
    for group in rest:
        if not hidden or (len(hidden) > 1 and sum(sizes[g] for g in hidden) >= FEW_ROWS):
            break
        hidden.add(group)
    return hidden


def without_small(counts: list[float]) -> list[float | None]:
    """The parts of a known total, None for those below five and for what would give them away.

    Examples
    --------
    >>> without_small([40.0, 2.0, 0.0, 9.0])
    [40.0, None, 0.0, None]
    """
    hidden = [k for k, n in enumerate(counts) if 0 < n < FEW_ROWS]
    others = sorted((n, k) for k, n in enumerate(counts) if n >= FEW_ROWS)
    if hidden and others and sum(counts[k] for k in hidden) < FEW_ROWS:
        hidden.append(others[0][1])
    return [None if k in hidden else n for k, n in enumerate(counts)]
