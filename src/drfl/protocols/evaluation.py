"""How good a model is on the rows of a client: what is asked, and the client's half."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Client, RefusedError
from drfl.defaults import FEW_ROWS
from drfl.metrics import METRICS, class_metrics, number_metrics
from drfl.metrics.counts import (
    ALL_CLIENTS,
    NUMBERS,
    Told,
    added,
    coarsened,
    edges_of,
    facts_of,
    told,
)
from drfl.models import Model
from drfl.models.calibration import keeps_intercept, located
from drfl.models.file_rows import FileRows
from drfl.models.judgement import grouped, told_outside
from drfl.models.plain import from_plain, to_plain
from drfl.one_vs_rest import against_the_rest
from drfl.privacy import SpentError, meaning_of, release_metric
from drfl.protocols.data_request import array_text, text_array
from drfl.protocols.federation import Federation
from drfl.tables.encoding import Category, units_of, unseen_sentences
from drfl.wire import Field, Message, Schema, WireError, reply_kind, validate

EVALUATE = "evaluate"
FAR = 3.0  # a row of a guarded client counts no more, in deviations of the target
REQUEST = {
    "model": Field("uint8", (None,)),
    "noise": Field("float64", ("L",)),
    "repeats": Field("int64"),
    "seed": Field("int64"),
    "thresholds": Field("float64", ("T",)),  # of the probability, where decisions are counted
    "by": Field("uint8", (None,)),  # columns and cuts that divide the rows into groups
}
REPLY = {
    "rows": Field("int64"),
    # Without a row of either class there is no AUC; a ledger that is used up gives no number.
    **{
        name: Field("float64", ("L",), finite=False, optional=True)
        for name in sum(METRICS.values(), ())
    },
    # Where there are probabilities, of the second of two classes, or of each of several against the
    # rest, one after the other: of all rows and of every group counts without small cells, and a
    # few numbers. The names of the groups, that of all rows being empty.
    "groups": Field("uint8", (None,), optional=True),
    "bins": Field("float64", ("G", "B", 3), optional=True),
    "known": Field("uint8", ("G", "E"), optional=True),
    "numbers": Field("float64", ("G", len(NUMBERS)), finite=False, optional=True),
    # Rows with a category that was not trained, for every column of categories; see `_unseen`.
    "unseen": Field("int64", ("C",), optional=True),
}
ALL_ROWS = ""
By = Sequence[tuple[str, Sequence[float]]]  # columns that divide rows into groups, with their cuts
Texts = Callable[[str], Sequence[str]]  # the texts of a column of a client's file, a row each


def evaluate_message(
    model: Model,
    noise: Sequence[float] = (0.0,),
    repeats: int = 1,
    seed: int = 0,
    thresholds: Sequence[float] = (),
    by: By = (),
) -> Message:
    """Ask for the metrics of a model, under noise of each of these deviations."""
    return Message(
        EVALUATE,
        0,
        {
            "model": model_array(model),
            "noise": np.array(noise, dtype=np.float64),
            "repeats": np.array(repeats),
            "seed": np.array(seed),
            "thresholds": np.array(thresholds, dtype=np.float64),
            "by": text_array([[column, list(cuts)] for column, cuts in by]),
        },
    )


def model_array(model: Model) -> NDArray[np.uint8]:
    """A model as it travels: without what is known of its clients."""
    return text_array({**to_plain(model), "clients": []})


def asked_model(message: Message, schema: Schema) -> Model:
    """The model that a message is about; WireError if the message is not of this form."""
    validate(message, message.kind, None, schema, {})
    try:
        return from_plain(array_text(message.arrays["model"]))
    except (ValueError, RecursionError):
        raise WireError("the model of a message cannot be read") from None


def answer(
    name: str, message: Message, model: Model, rows: FileRows, client: Client | None, texts: Texts
) -> Mapping[str, NDArray[Any]]:
    """The client's half.

    ``client`` has a guard, if the client has one; ``texts`` gives those of a column that divides
    the rows.
    """
    levels, repeats = message.arrays["noise"].tolist(), int(message.arrays["repeats"])
    if repeats < 1 or not all(level >= 0.0 for level in levels):
        raise WireError("noise must be deviations >= 0, drawn at least once")
    thresholds, by = tuple(message.arrays["thresholds"].tolist()), asked_groups(message)
    if not all(0.0 < threshold < 1.0 for threshold in thresholds):
        raise WireError("thresholds must be probabilities between 0 and 1")
    if client is not None and client.guard is not None:
        if any(levels):
            raise RefusedError("noise would ask a guarded client the same question many times")
        if by or thresholds:
            raise RefusedError("counts of some of the rows would pass the guard by")
        found = [guarded_metrics(model, client, rows) for _ in levels]
    else:
        model = model.at(name)
        found = [scored(model, rows, v, repeats, int(message.arrays["seed"])) for v in levels]
    values = {name: np.array([entry[name] for entry in found]) for name in found[0]}
    # Under a guard all categories were trained that k rows hold, and the others as one.
    more: dict[str, NDArray[Any]] = {}
    if client is None or client.guard is None:
        divided = {column: (texts(column), cuts) for column, cuts in by}
        more = {**_probabilities(model, rows, thresholds, divided), "unseen": _unseen(model, rows)}
    return {"rows": np.array(int(rows.keep.sum())), **values, **more}


def _categories(model: Model) -> list[str]:
    return [column.name for column in model.columns if isinstance(column, Category)]


def _unseen(model: Model, rows: FileRows) -> NDArray[np.int64]:
    """How many rows hold a category that was not trained; 1 stands for every count below 5."""
    counts = rows.unseen(model)
    told = [counts.get(name, 0) for name in _categories(model)]
    return np.array([1 if 0 < count < FEW_ROWS else count for count in told], dtype=np.int64)


def _unseen_sentences(model: Model, told: NDArray[Any]) -> list[str]:
    counts = dict(zip(_categories(model), told.tolist(), strict=True))
    found = {name: count if count >= FEW_ROWS else 0 for name, count in counts.items() if count > 0}
    return unseen_sentences(found, model.columns)


def asked_groups(message: Message) -> list[tuple[str, list[float]]]:
    """The columns that divide rows, and their cuts; WireError if they are not of this form."""
    try:
        found = [
            (column, list(map(float, cuts))) for column, cuts in array_text(message.arrays["by"])
        ]
        if all(isinstance(c, str) and sorted(cuts) == cuts for c, cuts in found):
            return found
    except (ValueError, TypeError, RecursionError):
        pass
    raise WireError("the groups that a message asks for cannot be read")


def _probabilities(
    model: Model,
    rows: FileRows,
    thresholds: Sequence[float],
    by: Mapping[str, tuple[Sequence[str], Sequence[float]]],
) -> Mapping[str, NDArray[Any]]:
    """What is told of probabilities, if the model has any; a guard lets nothing of it out."""
    if not model.judgeable or rows.y is None:
        return {}
    z, y = model.log_odds(model.scores(rows.X, rows.X)), rows.y
    groups = {ALL_ROWS: np.ones(len(z), dtype=bool)}
    for column, (texts, cuts) in by.items():
        labels = grouped(column, texts, cuts)
        groups |= told_outside({str(label): labels == label for label in np.unique(labels)})
    found = [
        _against_the_rest(z[:, column], y, k, at, thresholds)
        for column, k in enumerate(model.judged)
        for at in groups.values()
    ]
    return {
        "groups": text_array(list(groups)),
        "bins": np.array([each.bins for each in found]),
        "known": np.array([each.known for each in found], dtype=np.uint8),
        "numbers": np.array([each.numbers for each in found]),
    }


def _against_the_rest(
    z: Array, y: Array, k: int, at: NDArray[np.bool_], thresholds: Sequence[float]
) -> Told:
    """What is told of the k-th class in a group of rows.

    Nothing where any class has 1 to 4 rows there: of several classes the others would give it away.
    """
    counts = np.unique(y[at], return_counts=True)[1]
    some = at & bool((counts >= FEW_ROWS).all())
    return coarsened(told(z[some], y[some] == k, thresholds))


def client_scores(model: Model, client: Client) -> NDArray[np.float64]:
    """The scores of a client's rows (N, K), in scaled units."""
    pairs = zip(model.coef, model.intercept.tolist(), strict=True)
    return np.column_stack([model.problem.scores(client.rows, w, b) for w, b in pairs])


def scored(model: Model, rows: FileRows, level: float, repeats: int, seed: int) -> dict[str, float]:
    """The metrics of a file, under noise their means over some draws."""
    y = rows.y
    assert y is not None
    if model.target.classes is None:
        y = model.target.shift + model.target.scale * y
    return under_noise(
        model, rows.X, level, repeats, seed, lambda X: measured(model, model.scores(X, X), y)
    )


def under_noise(
    model: Model,
    X: Any,
    level: float,
    repeats: int,
    seed: int,
    judge: Callable[[Any], dict[str, float]],
) -> dict[str, float]:
    """What is found of rows with noise in their columns of numbers: means over some draws.

    ``level`` is its deviation in units of the scaled columns; without noise there is one draw.
    """
    if level == 0.0:
        return judge(X)
    if not isinstance(X, np.ndarray):
        raise ValueError("noise on every entry makes sparse rows dense: leave --noise out")
    _, scale = model.scaling(X)
    step = level * scale * np.array([measured for _, _, measured in units_of(model.columns)])
    rng = np.random.default_rng(seed)
    draws = [judge(X + step * rng.normal(size=X.shape)) for _ in range(repeats)]
    return {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}


def evaluate(
    federation: Federation,
    model: Model,
    *,
    noise: Sequence[float] = (0.0,),
    repeats: int = 1,
    seed: int = 0,
    partial: bool = False,
    warn: Callable[[str], object] | None = None,
) -> dict[str, list[dict[str, float]]]:
    """The metrics of a model at every client, one entry for each deviation of the noise.

    If ``partial``, clients that do not answer are left out. ``warn`` is told of rows with
    categories that were not trained.
    """
    message = evaluate_message(model, noise, repeats, seed)
    replies = federation.ask(dict.fromkeys(federation.names, message), partial=partial)
    found = {}
    for name, reply in replies.items():
        _validate(reply, model, len(noise), len(edges_of(())))
        if warn is not None and "unseen" in reply.arrays:
            for sentence in _unseen_sentences(model, reply.arrays["unseen"]):
                warn(f"{name}: {sentence}")
        told = {key: reply.arrays[key] for key in METRICS[model.target.task] if key in reply.arrays}
        if not told or int(reply.arrays["rows"]) < 1:
            raise WireError(f"client {name!r} told no metric of the model")
        found[name] = [
            {key: float(values[k]) for key, values in told.items()} for k in range(len(noise))
        ]
    return found


def _validate(reply: Message, model: Model, levels: int, edges: int) -> None:
    sizes = {"L": levels, "C": len(_categories(model)), "E": edges, "B": edges + 1}
    validate(reply, reply_kind(EVALUATE), 0, REPLY, sizes)


def probabilities(
    federation: Federation, model: Model, thresholds: Sequence[float] = (), by: By = ()
) -> dict[str, dict[str, Any]]:
    """What a model's probabilities are worth at all clients, at each, and in groups of their rows.

    See `facts_of`. Decisions are counted at thresholds of the probability; ``by`` are columns that
    divide the rows into groups, with cuts for those of numbers. Empty for models without
    probabilities, and of clients whose guard lets nothing of it out.
    """
    message = evaluate_message(model, thresholds=thresholds, by=by)
    replies = federation.ask(dict.fromkeys(federation.names, message), partial=True)
    told = {name: _read_groups(name, reply, model, thresholds) for name, reply in replies.items()}
    found: dict[str, dict[str, Any]] = {}
    for column, label in enumerate(model.judged.values()):
        of_class = {name: groups[column] for name, groups in told.items() if groups}
        for name, each in _together(of_class).items():
            known = name if len(model.judged) == 1 else against_the_rest(name, label)
            found[known] = facts_of(each)
    return found


def _together(told: Mapping[str, Mapping[str, Told]]) -> dict[str, Told]:
    """What is told of all clients, of each, and of groups of their rows."""
    clients = {name: groups[ALL_ROWS] for name, groups in told.items()}
    parts: dict[str, list[Told]] = {}
    for groups in told.values():
        for group, found in groups.items():
            if group != ALL_ROWS:
                parts.setdefault(group, []).append(found)
    everyone = {ALL_CLIENTS: added(list(clients.values()))} if len(clients) > 1 else {}
    return {**everyone, **clients, **{group: added(parts[group]) for group in sorted(parts)}}


def _read_groups(
    name: str, reply: Message, model: Model, thresholds: Sequence[float]
) -> list[dict[str, Told]]:
    """What a client tells of its groups, by class; WireError if it cannot be."""
    _validate(reply, model, 1, len(edges_of(thresholds)))
    if "groups" not in reply.arrays:
        return []
    arrays = reply.arrays
    try:
        names = [str(group) for group in array_text(arrays["groups"])]
    except (ValueError, TypeError, RecursionError):
        names = []
    bins, known = np.array(arrays["bins"]), arrays["known"] == 1
    if (bins < 0.0).any() or len(names) * len(model.judged) != len(bins):
        raise WireError(f"client {name!r} told counts that are none")
    if names[:1] != [ALL_ROWS]:
        raise WireError(f"client {name!r} told groups that are none")
    every = [
        Told(counts, exact, numbers, tuple(thresholds))
        for counts, exact, numbers in zip(bins, known, np.array(arrays["numbers"]), strict=True)
    ]
    starts = range(0, len(every), len(names))
    return [dict(zip(names, every[k : k + len(names)], strict=True)) for k in starts]


def guarded_metrics(model: Model, client: Client, rows: FileRows) -> dict[str, float]:
    """How good predictions are, as counted scalars; NaN if the ledger gives no more.

    Nothing is computed then, not even an intercept of the client's own, which never left it. Of a
    numeric target nothing is told at such an intercept that is a single row's residual, as that of
    a quantile is: errors of all rows would tell of that one.
    """
    guard, ledger, y = client.guard, client.ledger, rows.y
    assert guard is not None
    assert ledger is not None
    assert y is not None
    kept = keeps_intercept(model, client.name)
    if kept and model.target.classes is None and model.problem.loss.kinks:
        return {"mse": math.nan, "mae": math.nan}
    asked = model if kept else model.at(client.name)
    sha = hashlib.sha256(meaning_of(client.rows) + (b"own" if kept else b""))
    sha.update(asked.coef.tobytes() + asked.intercept.tobytes())
    sha.update(text_array(model.problem.to_dict()).tobytes())  # loss, ball, curves
    question = sha.digest()

    @cache
    def scores() -> Array:
        return client_scores(located(model, client.name, rows.X, y), client)

    def told(name: str, per_row: Callable[[], Array], largest: float = 1.0) -> float:
        try:
            most = guard.scalars
            return max(release_metric(ledger, name, question, per_row, most, largest), 0.0)
        except SpentError:
            return math.nan

    if model.target.classes is not None:
        right = told("accuracy", lambda: (model.positions(scores()) == y).astype(float))
        return {"accuracy": min(right, 1.0)}
    # In scaled units, in which three deviations are the most that a row's error counts.
    scale = model.target.scale
    return {
        "mse": scale**2 * told("mse", lambda: np.square(scores()[:, 0] - y), FAR**2),
        "mae": scale * told("mae", lambda: np.abs(scores()[:, 0] - y), FAR),
    }


def measured(model: Model, scores: Array, y: Array) -> dict[str, float]:
    """Of scores (N, K) for positions of classes, or for targets in their own units (N,)."""
    if model.target.classes is None:
        return number_metrics(scores[:, 0] - y)
    return class_metrics(scores, y)
