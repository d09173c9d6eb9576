"""A client as a coordinator reaches it: from its file to its answers, where the file is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from drfl.client import Client, Handler, Policy, RefusedError, Site, code_of
from drfl.models import Model
from drfl.preflight.agreement import Form
from drfl.preflight.desk import Desk
from drfl.privacy import Guard
from drfl.selection import scores
from drfl.selection.parts import PART, on_parts
from drfl.solvers import SOLVERS, solver_class
from drfl.tables import TableError
from drfl.training import evaluation, explanation
from drfl.training.binding import BIND, Binding
from drfl.training.files import FileRows, read_rows
from drfl.wire import Failure, Message, WireError

logger = logging.getLogger("drfl")

PREFLIGHT = "preflight"
"""A station that was started again and is told everything since the last one goes on as before."""


class Station:
    """Answers whatever a coordinator may ask of one client.

    First comes the preflight. A binding then places a client on a seat, for a form of rows and a
    problem; the rounds of every method follow. Models can be evaluated and explained at any time.

    Parameters
    ----------
    name : str
        Of the client.
    path : path
        Of its file.
    guard : Guard, optional
        Disclosure control.
    policy : Policy
        What else it allows.
    columns : mapping of str to str, optional
        What columns are called in its file, where that differs from what others call them.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        guard: Guard | None = None,
        *,
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self._desk_of = partial(Desk, name, path, guard, policy=policy, columns=columns)
        self.name, self.desk = name, self._desk_of()
        self._form: Form | None = None
        self._sites: dict[int, Site] = {}

    def answer(self, message: Message, seat: int = 0) -> Message:
        """Reply; whatever goes wrong becomes a code, and its sentence stays in the log here."""
        try:
            return self.handle(message, seat)
        except Exception as error:
            logger.error("%s: no answer to %r: %s", self.name, message.kind, error)
            return _code(error).message(message.round)

    def handle(self, message: Message, seat: int = 0) -> Message:
        """Reply; what is wrong with the file, the problem or the message raises."""
        if message.kind == PREFLIGHT:
            self.desk, self._form, self._sites = self._desk_of(), None, {}
            return self.desk.answer(message)
        if message.kind == BIND:
            self._bind(Binding.read(message), seat)
            return message.reply({})
        if message.kind == evaluation.EVALUATE:
            model = evaluation.asked_model(message, evaluation.REQUEST)
            guarded = self._guarded(model)
            return message.reply(evaluation.answer(message, model, self._rows(model), guarded))
        if message.kind == explanation.EXPLAIN:
            model = evaluation.asked_model(message, explanation.REQUEST)
            if self.desk.guard is not None:
                raise RefusedError("an explanation would pass the guard by")
            return message.reply(explanation.answer(self.name, model, self._rows(model)))
        if seat not in self._sites:
            raise WireError("a message came before its binding")
        return self._sites[seat].answer(message, handlers_of(message))

    def client(self, form: Form, positive: int | None, *, folds: bool) -> Client:
        """The client with its rows as agreed upon, or as a selection divides them."""
        self._form = form
        if not folds:
            return self.desk.client(form, positive)
        if self.desk.guard is not None:
            raise RefusedError("folds would pass the guard by")
        # A site that takes part in no selection does without scikit-learn.
        from drfl.estimators.table import Table
        from drfl.selection.roster import sorted_table

        X, y = self.desk.rows(form)
        ones, member = np.ones(len(y)), np.zeros(len(y), dtype=np.intp)
        rows = sorted_table(Table(X, y, ones, member, np.array([self.name])))
        shift, scale = self.desk.scaling(form)
        return Client(
            self.name,
            rows.X,
            rows.y if positive is None else np.where(rows.y == positive, 1.0, -1.0),
            sample_weight=None if bool((rows.weight == 1.0).all()) else rows.weight,
            shift=shift,
            scale=scale,
            policy=self.desk.policy,
        )

    def _bind(self, binding: Binding, seat: int) -> None:
        form, classes = binding.form, binding.form.target.classes
        if not hasattr(self.desk, "table"):
            raise WireError("a binding came before the preflight")
        if self.desk.guard is not None and classes is not None and len(classes) > 2:
            raise ValueError("a guard knows two classes or a numeric target")
        client = self.client(form, binding.positive, folds=binding.folds)
        if client.n_features != len(form.features):
            raise WireError("the form of a binding does not fit the file")
        self._sites[seat] = Site(client, binding.problem)

    def _rows(self, model: Model) -> FileRows:
        """The rows that a model needs, without reading the file again if they are at hand."""
        form = self._form
        if form is None or (form.target, form.columns) != (model.target, model.columns):
            return read_rows(model, self.desk.path, target=True, names=self.desk.columns)
        X, y = self.desk.rows(form)
        keep = self.desk.contents.keep
        keep = np.ones(self.desk.table.n_rows, dtype=bool) if keep is None else keep
        return FileRows(self.desk.table, X, keep, y)

    def _guarded(self, model: Model) -> Client | None:
        if self.desk.guard is None:
            return None
        form = self._form
        if form is None or (form.target, form.columns) != (model.target, model.columns):
            raise RefusedError("a guard knows the rows that it was opened for")
        return self.desk.client(form, None if model.target.classes is None else 1)


def _code(error: Exception) -> Failure:
    if isinstance(error, TableError):
        return Failure.FILE
    if isinstance(error, ValueError) and not isinstance(error, WireError):
        return Failure.UNFIT
    return code_of(error)


def handlers_of(message: Message) -> Mapping[str, Handler]:
    """The client halves that a message may ask for: of drfl's own methods, by kind."""
    return _on_parts() if PART in message.arrays else _whole()


@cache
def _whole() -> dict[str, Handler]:
    from drfl.native import METHODS

    kinds: list[Any] = [solver_class(name) for name in SOLVERS] + list(METHODS.values())
    return {kind: half for method in kinds for kind, half in method.handlers.items()}


@cache
def _on_parts() -> dict[str, Handler]:
    return {**on_parts(_whole()), **scores.HANDLERS}
