"""Whom a training talks to: clients whose files are here, or clients far away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from drfl.client import Party, RemoteClient
from drfl.engines import Engine
from drfl.protocols.binding import binding_of
from drfl.selection.client_half.folds import copy_name
from drfl.tables.encoding import Encoding
from drfl.wire import Failure, Message


class Federation(ABC):
    """The clients of a training.

    Attributes
    ----------
    names : tuple of str
        In the order of all sums and results.
    engine : str or Engine
        What carries the rounds of a method.
    """

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

        Parameters
        ----------
        encoding : Encoding
            How their files become rows.
        positive : int or None
            The class that is +1, all others being -1; None for a numeric target.
        folds : bool
            Whether a selection will divide their rows.
        copy : int, optional
            Where several models are trained in turns, which of them the clients are for; they are
            called after it.
        """

    def check(self, encoding: Encoding, positive: int | None) -> None:
        """Refuse what can be refused before anything is written; clients elsewhere do it there."""
        del encoding, positive


class Remote(Federation):
    """Clients that an engine reaches; its ``map`` works before its ``start``.

    Parameters
    ----------
    engine : Engine
        Whose clients are `RemoteClient`.
    names : sequence of str
        The sites, each the client of the same name.
    deadline : float, optional
        Seconds that a site has for an answer.
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
