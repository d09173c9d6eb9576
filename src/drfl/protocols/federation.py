"""Whom a training talks to, and how a client far away is told of which rows and which problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Party, RemoteClient
from drfl.engines import Engine
from drfl.models import Model
from drfl.models.plain import encoding_from_plain, encoding_to_plain, from_plain
from drfl.problem import Problem
from drfl.protocols.data_request import array_text, text_array
from drfl.selection.client_half.folds import copy_name
from drfl.tables.encoding import Encoding
from drfl.wire import Failure, Field, Message, WireError, validate

BIND = "bind"
REQUEST = {
    "encoding": Field("uint8", (None,)),
    "problem": Field("uint8", (None,)),
    "positive": Field("int64"),  # the class that is +1; -1: a number, or classes by their numbers
    "folds": Field("int64"),  # 1: the rows in the order in which a selection divides them
    "scores_of": Field("uint8", (None,), optional=True),  # a model: its scores are the columns
}


@dataclass(frozen=True)
class Binding:
    """What a client is bound to: how its file becomes rows, and what the rounds are about.

    ``positive`` is the class that is +1, all others being -1; None for a numeric target, and for a
    problem that knows the classes by their numbers. ``folds``: a selection will divide the rows.
    ``scores_of`` is a model whose scores are the columns of the rows, as for a calibration: that of
    one class, or of all where they are in one problem.
    """

    encoding: Encoding
    problem: Problem
    positive: int | None
    folds: bool
    scores_of: Model | None = None

    @classmethod
    def read(cls, message: Message) -> Binding:
        """Read what `bind_message` wrote; WireError says what is wrong with it."""
        validate(message, BIND, None, REQUEST, {})
        arrays = message.arrays
        positive, folds = int(arrays["positive"]), int(arrays["folds"])
        try:
            encoding = encoding_from_plain(array_text(arrays["encoding"]))
            problem = Problem.from_dict(array_text(arrays["problem"]))
            asked = arrays.get("scores_of")
            scores_of = None if asked is None else from_plain(array_text(asked))
        except (ValueError, TypeError, RecursionError, ImportError):
            raise WireError("the encoding or the problem of a binding cannot be read") from None
        classes = 0 if encoding.target.classes is None else len(encoding.target.classes)
        several = problem.network is not None or problem.classes == classes
        coded = positive >= 0 or classes == 0 or several
        if not (-1 <= positive < classes and coded and folds in (0, 1)):
            raise WireError("a binding names a class that there is not")
        if scores_of is not None:
            _require_scores(scores_of, problem, positive)
        return cls(encoding, problem, None if positive < 0 else positive, bool(folds), scores_of)


def _require_scores(model: Model, problem: Problem, positive: int) -> None:
    """Refuse a model that does not have the scores that are asked for."""
    one = positive >= 0 and not model.joint and problem.classes is None
    every = positive < 0 and model.joint and problem.classes == model.problem.classes
    if model.problem.network is not None or not (one or every):
        raise WireError("a model of a binding does not have the scores of the problem")


def binding_of(encoding: Encoding, positive: int | None, *, folds: bool) -> dict[str, NDArray[Any]]:
    """What a `RemoteClient` keeps until the problem is known."""
    return {
        "encoding": text_array(encoding_to_plain(encoding)),
        "positive": np.array(-1 if positive is None else positive),
        "folds": np.array(int(folds)),
    }


def bind_message(client: RemoteClient, problem: Problem) -> Message:
    """What binds a client to its encoding and a problem."""
    return Message(BIND, 0, {**client.binding, "problem": text_array(problem.to_dict())})


class Federation(ABC):
    """The clients of a training, in the order of all sums, and what carries the rounds."""

    names: tuple[str, ...]
    engine: str | Engine

    @abstractmethod
    def ask(self, messages: Mapping[str, Message], *, partial: bool = False) -> dict[str, Message]:
        """Carry one message to each of these clients.

        One that does not answer is a ValueError, or if ``partial`` is missing from the answers.
        """

    @abstractmethod
    def place(
        self,
        encoding: Encoding,
        positive: int | None,
        *,
        folds: bool = False,
        copy: int | None = None,
    ) -> Sequence[Party]:
        """The clients of one linear model, for a solver.

        ``positive`` is the class that is +1, all others being -1; None for a numeric target. With
        ``folds`` a selection will divide the rows. Where several models are trained in turns,
        ``copy`` says which of them the clients are for; they are called after it.
        """

    def check(self, encoding: Encoding, positive: int | None, problem: Problem) -> None:
        """Refuse what can be refused before anything is written; clients elsewhere do it there."""
        del encoding, positive, problem


class Remote(Federation):
    """Clients that an engine reaches; its ``map`` works before its ``start``.

    The names are those of sites, each the client of the same name, with ``deadline`` seconds for an
    answer.
    """

    def __init__(self, engine: Engine, names: Sequence[str], deadline: float | None = None) -> None:
        self.engine: Engine = engine
        self.names, self.deadline = tuple(names), deadline

    def ask(self, messages: Mapping[str, Message], *, partial: bool = False) -> dict[str, Message]:
        answers = self.engine.map(messages, self.deadline)
        for name, code in answers.failures.items() if not partial else ():
            raise ValueError(f"client {name!r} did not answer: {Failure(code).sentence}")
        return answers.replies

    def place(
        self,
        encoding: Encoding,
        positive: int | None,
        *,
        folds: bool = False,
        copy: int | None = None,
    ) -> Sequence[Party]:
        binding, columns = binding_of(encoding, positive, folds=folds), tuple(encoding.features)
        return [
            RemoteClient(copy_name(name, copy), columns, name, copy or 0, binding)
            for name in self.names
        ]
