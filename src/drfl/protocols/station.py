"""A client as a coordinator reaches it: from its file to its answers, where the file is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Client, Handler, Policy, RefusedError, Site, code_of
from drfl.curves import Curves
from drfl.inference import HANDLERS as INFERENCE
from drfl.models import Model
from drfl.models.calibration import Labelled, score_columns
from drfl.models.file_rows import FileRows, column_texts, read_rows
from drfl.models.plain import encoding_to_plain
from drfl.one_vs_rest import margin_target
from drfl.privacy import (
    Guard,
    Ledger,
    SpentError,
    count_refused,
    file_key,
    file_prints,
    meaning_of,
    release_sums,
    require_sums_left,
)
from drfl.privacy.columns import require_many
from drfl.privacy.dp import DifferentialPrivacy
from drfl.privacy.ramps import keep_knots, require_coarse
from drfl.privacy.refusals import require_answerable, require_enough, require_two
from drfl.problem import Problem
from drfl.protocols import evaluation, explanation
from drfl.protocols.client_file import ClientFile, require_sizes
from drfl.protocols.curve_rows import PIECES, asked_pieces, told_pieces
from drfl.protocols.data_request import DataRequest, text_array
from drfl.protocols.federation import BIND, Binding
from drfl.protocols.others import OTHERS, asked_others, told_others
from drfl.protocols.public_file import PublicFile
from drfl.rows import Rows
from drfl.selection.client_half import alone, probabilities, scores
from drfl.selection.client_half.folds import PART, on_parts
from drfl.solvers import SOLVERS, solver_class
from drfl.tables import Reading, TableError
from drfl.tables.encoding import Encoding
from drfl.wire import Failure, Field, Message, WireError, validate

logger = logging.getLogger("drfl")

PREFLIGHT = "preflight"
"""A station that was started again and is told everything since the last one goes on as before."""
REQUEST = {"request": Field("uint8", (None,))}
UNTOLD = (evaluation.EVALUATE, explanation.EXPLAIN, PIECES, OTHERS)
"""What a client with differential privacy does not answer."""


class Station:
    """Answers whatever a coordinator may ask of one client, where the client's file is.

    First comes the preflight. A binding then places a client on a seat, for an encoding of the rows
    and a problem; the rounds of every method follow. Models can be evaluated and explained at any
    time.

    ``reading`` says what columns are called in its file, where that differs from what others call
    them, and which rows of it are the client's. It has a guard (whose ledger is there from the
    preflight on), or noise for differential privacy, or neither. ``file`` is as the last preflight
    asked for it.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        guard: Guard | None = None,
        *,
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        reading: Reading = Reading(),  # noqa: B008  (frozen)
        privacy: DifferentialPrivacy | None = None,
    ) -> None:
        self.name, self.path, self.guard, self.privacy = name, Path(path), guard, privacy
        self.policy, self.reading = policy, reading
        self._forget()

    def _forget(self) -> None:
        self.file: ClientFile | None = None
        self.ledger: Ledger | None = None
        self._encoding: Encoding | None = None
        self._sites: dict[int, Site] = {}

    def answer(self, message: Message, seat: int = 0) -> Message:
        """Reply; whatever goes wrong becomes a code, and its sentence stays in the log here."""
        try:
            return self.handle(message, seat)
        except Exception as error:
            logger.error("%s: no answer to %r: %s", self.name, message.kind, error)
            return self._code(error).message(message.round)

    def handle(self, message: Message, seat: int = 0) -> Message:
        """Reply; what is wrong with the file, the problem or the message raises."""
        if message.kind == PREFLIGHT:
            validate(message, PREFLIGHT, None, REQUEST, {})
            return message.reply(self.look(DataRequest.from_bytes(message.arrays["request"])))
        if message.kind == BIND:
            self._bind(Binding.read(message), seat)
            return message.reply({})
        if self.privacy is not None and message.kind in UNTOLD:
            raise RefusedError("what is not noisy would break the promise")
        if message.kind == PIECES:
            return message.reply(self._pieces(*asked_pieces(message)))
        if message.kind == OTHERS:
            return message.reply(self._others(asked_others(message)))
        if message.kind == evaluation.EVALUATE:
            model = evaluation.asked_model(message, evaluation.REQUEST)
            return message.reply(self._evaluated(message, model))
        if message.kind == explanation.EXPLAIN:
            model = evaluation.asked_model(message, explanation.REQUEST)
            if self.guard is not None:
                raise RefusedError("an explanation would pass the guard by")
            return message.reply(explanation.answer(self.name, model, self._rows(model)))
        if seat not in self._sites:
            raise WireError("a message came before its binding")
        return self._sites[seat].answer(message, handlers_of(message))

    def _evaluated(self, message: Message, model: Model) -> Mapping[str, NDArray[Any]]:
        guarded = self._guarded(model)  # first: it may refuse before any row is looked at
        rows = self._rows(model)

        def texts(column: str) -> list[str]:
            self.policy.require(columns=[column])
            return column_texts(self.path, column, self.reading, rows)

        return evaluation.answer(self.name, message, model, rows, guarded, texts)

    def look(self, request: DataRequest) -> Mapping[str, NDArray[Any]]:
        """Read the file and sum it up; ``docs/command-line.md`` says what crosses.

        With a guard the answer is in its ledger before it leaves.
        """
        self._forget()
        self.policy.require(target=request.target)
        if self.guard is None:
            self.file = self._opened(request)
            return _told(self.file)
        # What the site itself lets be read, and calls its columns, can change between two jobs.
        allowed = self.policy.allow_columns
        own = (None if allowed is None else sorted(allowed), sorted(self.reading.names.items()))
        question = request.to_bytes().tobytes() + repr(own).encode()
        require_sums_left(self.guard, PREFLIGHT, question)
        try:
            return self._look_guarded(self.guard, request, question)
        except SpentError:
            raise
        except Exception:
            count_refused(self.guard, PREFLIGHT, question)
            raise

    def _opened(self, request: DataRequest) -> ClientFile:
        k = 0 if self.guard is None else self.guard.k
        how = self.reading, self.policy.allow_columns
        if self.privacy is None:
            return ClientFile(self.path, request, k, *how)
        return PublicFile(self.path, request, *how)

    def _look_guarded(
        self, guard: Guard, request: DataRequest, question: bytes
    ) -> Mapping[str, NDArray[Any]]:
        file = self._opened(request)
        require_sizes(self.path, file.facts(), file.moments, guard.k)
        file.require_many()
        self.ledger = guard.begin(
            file_key(self.path, file.used), file.n_rows, file_prints(self.path, self.reading.where)
        )
        for name in (*file.names, request.target):
            # Two counts of one label, as it is and with other spellings, differ by these.
            text = "text, spellings merged" if request.merge_labels else "text"
            self.ledger.read_as(name, text if file.table.is_text(name) else "number")
        told = release_sums(self.ledger, PREFLIGHT, question, _told(file), guard.preflights)
        self.file = file  # from here on the preflight is accepted, and a binding may come
        return told

    def client(self, encoding: Encoding, positive: int | None, *, folds: bool = False) -> Client:
        """The client with its rows as agreed upon, or as a selection divides them.

        ``positive`` is the class that is +1, all others being -1; None for a numeric target.
        """
        file = self._looked()
        self._encoding = encoding
        X, y = file.rows(encoding)
        weight = None
        if folds:
            if self.guard is not None or self.privacy is not None:
                raise RefusedError("folds would pass the guard by")
            X, y, weight = _sorted(self.name, X, y)
        shift, scale = file.scaling(encoding)
        return Client(
            self.name,
            X,
            y if positive is None else margin_target(y, positive),
            sample_weight=weight,
            shift=shift,
            scale=scale,
            policy=self.policy,
            guard=self.guard,
            ledger=self.ledger,
            privacy=self.privacy,
            columns=encoding.features,
            reading=repr((encoding_to_plain(encoding), positive)).encode(),
        )

    def check_guard(self, encoding: Encoding, positive: int | None, problem: Problem) -> None:
        """Refuse rows that are too few for the guard or tell of few, and what it cannot answer."""
        if self.guard is not None:
            X, y = self._looked().rows(encoding)
            y = y if positive is None else margin_target(y, positive)
            try:
                require_enough(Rows(X, y), self.guard.k)
                require_many(Rows(X, y).take(slice(None)), y, self.guard.k, encoding.features)
                require_answerable(problem, self.name, Rows(X, y))
            except ValueError as error:
                raise ValueError(f"client {self.name!r}: {error}") from error

    def _others(self, encoding: Encoding) -> Mapping[str, NDArray[Any]]:
        """Which columns have rows in their level `other`; what a guard merges always has."""
        if self.guard is not None:
            raise RefusedError("what rare values are here is no matter of a guard")
        file = self._looked()
        file.require_agreed(encoding)
        return told_others(file.others(encoding), encoding)

    def _pieces(self, encoding: Encoding, curves: Curves) -> Mapping[str, NDArray[Any]]:
        """How many rows are in the pieces of curves; under a guard it counts as a preflight."""
        file = self._looked()
        file.require_agreed(encoding)
        (X, y), (shift, scale) = file.rows(encoding), file.scaling(encoding)
        rows = Rows(X, y, shift=shift, scale=scale)
        if self.guard is None:
            return told_pieces(rows, curves, 0)
        assert self.ledger is not None
        question = meaning_of(rows) + repr((encoding.features, curves.knots)).encode()
        require_sums_left(self.guard, PIECES, question)
        require_coarse(rows, curves, self.guard.k)
        keep_knots(rows, curves, self.ledger, encoding.features)
        told = told_pieces(rows, curves, self.guard.k)
        return release_sums(self.ledger, PIECES, question, told, self.guard.preflights)

    def _looked(self) -> ClientFile:
        if self.file is None:
            raise WireError("a binding came before the preflight")
        return self.file

    def _bind(self, binding: Binding, seat: int) -> None:
        encoding, classes = binding.encoding, binding.encoding.target.classes
        self.policy.require(loss=binding.problem.loss.name)
        if binding.scores_of is not None:
            self._sites[seat] = Site(self._scored(binding.scores_of, binding), binding.problem)
            return
        self._looked().require_agreed(encoding)
        if self.guard is not None or self.privacy is not None:
            require_two(len(classes or ()))
        client = self.client(encoding, binding.positive, folds=binding.folds)
        if client.n_features != len(encoding.features):
            raise RefusedError("the encoding of a binding does not fit the file")
        self._sites[seat] = Site(client, binding.problem)

    def _scored(self, model: Model, binding: Binding) -> Client:
        """The client whose columns are the scores of a model without any calibration."""
        if self.guard is not None or self.privacy is not None:
            raise RefusedError("whoever chooses the model chooses whose rows a fit to it tells of")
        file = self._rows(model)
        k = None if model.joint else 0 if len(model.coef) == 1 else binding.positive
        z, y = score_columns(model, k, Labelled(file.X, file.y))
        return Client(self.name, z, y, policy=self.policy)

    def _knows(self, model: Model) -> bool:
        """Whether the rows at hand are those that a model speaks of."""
        mine = self._encoding
        return mine is not None and (mine.target, mine.columns) == (model.target, model.columns)

    def _rows(self, model: Model) -> FileRows:
        """The rows that a model needs, without reading the file again if they are at hand."""
        names = [column.name for column in model.columns]
        loss = model.problem.loss.name
        self.policy.require(target=model.target.name, columns=names, loss=loss)
        if not self._knows(model):
            decimal = "." if self.file is None else self.file.request.decimal
            reading = replace(self.reading, decimal=decimal)
            return read_rows(model, self.path, target=True, reading=reading)
        file = self._looked()
        X, y = file.rows(model)
        keep = np.ones(file.table.n_rows, dtype=bool) if file.keep is None else file.keep
        return FileRows(file.table, X, keep, y)

    def _code(self, error: Exception) -> Failure:
        guarded = self.guard is not None or self.privacy is not None
        if not guarded and isinstance(error, TableError):
            return Failure.FILE
        if not guarded and isinstance(error, ValueError) and not isinstance(error, WireError):
            return Failure.UNFIT
        return code_of(error, guarded=guarded)

    def _guarded(self, model: Model) -> Client | None:
        if self.guard is None:
            return None
        if not self._knows(model):
            raise RefusedError("a guard knows the rows that it was opened for")
        assert self._encoding is not None
        return self.client(self._encoding, None if model.target.classes is None else 1)


def _told(file: ClientFile) -> dict[str, NDArray[Any]]:
    """What a preflight tells of a file."""
    m = file.moments
    return {"facts": text_array(file.facts()), "count": m.count, "sum": m.sum, "squares": m.squares}


def _sorted(name: str, X: Any, y: Array) -> tuple[Any, Array, Array | None]:
    """Rows in the order in which a selection divides them, equal ones as one with a weight."""
    # A site that takes part in no selection does without scikit-learn.
    from drfl.estimators.client_table import ClientTable
    from drfl.selection.clients import sorted_table

    ones, member = np.ones(len(y)), np.zeros(len(y), dtype=np.intp)
    rows = sorted_table(ClientTable(X, y, ones, member, np.array([name])))
    return rows.X, rows.y, None if bool((rows.weight == 1.0).all()) else rows.weight


def handlers_of(message: Message) -> Mapping[str, Handler]:
    """The client halves that a message may ask for: of drfl's own methods, by kind."""
    return _on_parts() if PART in message.arrays else _whole()


@cache
def _whole() -> dict[str, Handler]:
    from drfl.native import METHODS

    kinds: list[Any] = [solver_class(name) for name in SOLVERS] + list(METHODS.values())
    halves = {kind: half for method in kinds for kind, half in method.handlers.items()}
    return {**halves, **INFERENCE}


@cache
def _on_parts() -> dict[str, Handler]:
    halves = {**on_parts(_whole()), **scores.HANDLERS, **alone.HANDLERS}
    return {**halves, **probabilities.HANDLERS}
