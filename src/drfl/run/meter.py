"""What a run costs, counted as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter

import numpy as np

from drfl.arrays import Array
from drfl.engines import Answers
from drfl.run.result import Record, Result
from drfl.solvers import Session, Status
from drfl.wire import Message, Tally


class Meter:
    """Counts messages, bytes and seconds, and writes records."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.up, self.down = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
        self.seconds_clients = self.seconds_server = 0.0
        self.tally = Tally()

    @contextmanager
    def server(self) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds_server += perf_counter() - start

    def count(self, messages: Mapping[str, Message], answers: Answers) -> None:
        for name, message in messages.items():
            self.down[name] += message.nbytes
        for name, reply in answers.replies.items():
            self.up[name] += reply.nbytes
        self.tally.add(answers.replies)
        self.seconds_clients += sum(answers.seconds.values())

    def record(self, round: int, session: Session, failures: Mapping[str, str]) -> Record:
        return Record(
            round=round,
            objective=float(session.objective),
            lower_bound=float(session.lower_bound),
            gap=float(session.gap),
            worst_client=self._worst(session.client_losses),
            bytes_up=dict(self.up),
            bytes_down=dict(self.down),
            seconds_clients=self.seconds_clients,
            seconds_server=self.seconds_server,
            failures={**failures, **session.rejected},
            info=dict(session.info),
        )

    def _worst(self, losses: Array) -> str | None:
        return None if np.isnan(losses).all() else self.names[int(np.nanargmax(losses))]

    def result(
        self,
        session: Session,
        status: Status,
        history: tuple[Record, ...],
        intercepts: Mapping[str, float],
    ) -> Result:
        return Result(
            coef=np.array(session.coef, dtype=np.float64),
            intercept=session.intercept,
            objective=float(session.objective),
            lower_bound=float(session.lower_bound),
            gap=float(session.gap),
            status=status,
            weights=self._by_name(session.weights),
            client_losses=self._by_name(session.client_losses),
            client_multipliers=self._by_name(session.client_multipliers),
            rounds=len(history),
            bytes_up=dict(self.up),
            bytes_down=dict(self.down),
            seconds_clients=self.seconds_clients,
            seconds_server=self.seconds_server,
            history=history,
            sent=self.tally.sent,
            intercepts=dict(intercepts),
        )

    def _by_name(self, values: Array) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))
