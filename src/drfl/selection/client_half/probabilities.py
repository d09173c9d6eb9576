"""What probabilities are worth on the rows that a part holds out: counts, told by the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Handler, Site
from drfl.metrics.counts import NUMBERS, Told, edges_of, told
from drfl.one_vs_rest import log_odds
from drfl.rows import Rows
from drfl.rows.parts import is_sparse
from drfl.selection.client_half.folds import PART, Part, held_out_rows
from drfl.wire import Field, Message, WireError, validate

KIND = "select_probabilities"
REQUEST = {
    PART: Field("int64", (3,)),
    "coef": Field("float64", ("K", None)),
    "intercept": Field("float64", ("K",)),
    "own": Field("int64"),  # the class of this client's +1 where each has a model of its own
    "thresholds": Field("float64", ("T",)),  # of the probability, where decisions are counted
    "groups": Field("int64"),  # how many
    "bounds": Field("float64", ("R", 4), finite=False),  # see `Group.bounds`, each with its group
}
REPLY = {  # of every class against the rest, one after the other: of all rows, and of every group
    "bins": Field("float64", ("G", "B", 3)),
    "numbers": Field("float64", ("G", len(NUMBERS)), finite=False),
}
MOST_GROUPS = 100


@dataclass(frozen=True)
class Group:
    """Rows whose features are within bounds."""

    label: str  # what they are called
    # Feature, least value, and the value that is too large, in the units of the file
    bounds: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Wanted:
    """What is to be counted: decisions at thresholds of the probability, and groups of rows."""

    thresholds: tuple[float, ...] = ()
    groups: tuple[Group, ...] = ()

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a message."""
        found = [(g, *bound) for g, group in enumerate(self.groups) for bound in group.bounds]
        return {
            "thresholds": np.array(self.thresholds, dtype=np.float64),
            "groups": np.array(len(self.groups)),
            "bounds": np.array(found, dtype=np.float64).reshape(-1, 4),
        }


def request(part: Part, coef: Array, intercept: Array, own: int, wanted: Wanted) -> Message:
    """Ask what the probabilities of a model are worth on the rows that a part holds out.

    ``coef`` (K, n) and ``intercept`` (K,) are one score, or one for each of several classes.
    """
    arrays = {PART: part.array, "coef": coef, "intercept": intercept, "own": np.array(own)}
    return Message(KIND, 0, {**arrays, **wanted.arrays})


def count(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    arrays = message.arrays
    rows = held_out_rows(site, message)
    times = _as_often(rows)
    whole = np.ones(rows.n_rows, dtype=bool)
    inside = [whole, *_groups(rows, int(arrays["groups"]), arrays["bounds"])]
    again = [np.repeat(some, times) for some in inside]
    thresholds = arrays["thresholds"].tolist()
    found = [
        told(np.repeat(z, times)[some], np.repeat(positive, times)[some], thresholds)
        for z, positive in _judged(site, rows, arrays)
        for some in again
    ]
    return {
        "bins": np.array([each.bins for each in found]),
        "numbers": np.array([each.numbers for each in found]),
    }


def _judged(
    site: Site, rows: Rows, arrays: Mapping[str, NDArray[Any]]
) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """Log-odds (N,) and who is positive (N,), for every class that this client tells of."""
    models, own = list(zip(arrays["coef"], arrays["intercept"], strict=True)), int(arrays["own"])
    joint = site.problem.classes is not None
    if not 0 <= own < len(models) or (joint and site.problem.classes != len(models)):
        raise WireError("the models are not those of the classes")
    z = np.stack([site.problem.scores(rows, w, float(b)) for w, b in models], axis=1)
    odds = log_odds(z, joint=joint)
    if joint:
        return ((odds[:, k], rows.y == k) for k in range(len(models)))
    return iter([(odds[:, own], rows.y > 0.0)])


def _groups(rows: Rows, count: int, bounds: Array) -> list[NDArray[np.bool_]]:
    """Which rows are in each of the groups."""
    wanted, features = bounds[:, 0], bounds[:, 1]
    whole = np.isin(wanted, np.arange(count)).all()
    if not (
        0 <= count <= MOST_GROUPS and whole and np.isin(features, np.arange(rows.n_features)).all()
    ):
        raise WireError("a group is of features that there are not")
    inside = [np.ones(rows.n_rows, dtype=bool) for _ in range(count)]
    for g, j, low, high in bounds.tolist():
        column = rows.X[:, [int(j)]]
        values = np.asarray(column.toarray() if is_sparse(column) else column).ravel()
        inside[int(g)] &= (values >= low) & (values < high)
    return inside


def _as_often(rows: Rows) -> NDArray[np.int64]:
    """Rows that were merged count as often as they were there; other weights are not counted."""
    if rows.p is None:
        return np.ones(rows.n_rows, dtype=np.int64)
    times = rows.p * rows.total
    whole = np.rint(times)
    if not np.allclose(times, whole, atol=1e-6) or (whole < 1.0).any():
        return np.ones(rows.n_rows, dtype=np.int64)
    return whole.astype(np.int64)


HANDLERS: Mapping[str, Handler] = {KIND: Checked(count, REQUEST, REPLY)}


def read(message: Message, wanted: Wanted, classes: int = 1) -> list[list[Told]]:
    """What a client told by class, of all rows and of every group."""
    edges, groups = len(edges_of(wanted.thresholds)), 1 + len(wanted.groups)
    sizes = {"G": classes * groups, "B": edges + 1}
    validate(message, f"{KIND}/reply", 0, REPLY, sizes)
    bins = np.array(message.arrays["bins"])
    if (bins < 0.0).any() or not np.allclose(bins[..., :2], np.round(bins[..., :2])):
        raise WireError("its counts are none")
    known = np.ones(edges, dtype=bool)
    every = [
        Told(counts, known, numbers, wanted.thresholds)
        for counts, numbers in zip(bins, np.array(message.arrays["numbers"]), strict=True)
    ]
    return [every[k : k + groups] for k in range(0, len(every), groups)]
