"""What a run gives back: the model, the proof, what it cost, and the history of its rounds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from drfl.aligned import aligned
from drfl.arrays import Array
from drfl.engines import Answers
from drfl.problem import from_json, to_json
from drfl.solvers import Standing, Status
from drfl.wire import Failure, Message, Sent, Tally

if TYPE_CHECKING:
    import pandas as pd

# A summary stays on one screen.
SHOWN_CLIENTS = 12


@dataclass(frozen=True)
class Record:
    """Where a run stood after a round; costs are those of all rounds up to then.

    Attributes
    ----------
    round : int
        How many rounds have been done, this one included.
    objective, lower_bound, gap : float
        What is proved about the best model so far.
    worst_client : str or None
        The client with the largest loss there.
    bytes_up, bytes_down : dict of str to int
        Sent by and to each client.
    seconds_clients, seconds_server : float
        Computing time, that of the clients added up.
    failures : dict of str to str
        Clients without a usable reply in this round, and why.
    info : dict
        What the solver likes to record.
    """

    round: int
    objective: float
    lower_bound: float
    gap: float
    worst_client: str | None
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]
    seconds_clients: float
    seconds_server: float
    failures: dict[str, str] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        """What `drfl.problem.to_json` made of a record."""
        return cls(**_read(data))


class Linear(Protocol):
    """Anything with coefficients (n,) or (K, n), and an intercept or K of them."""

    @property
    def coef(self) -> Array:
        """The coefficients."""

    @property
    def intercept(self) -> float | Array:
        """The intercept, or intercepts."""


def stacked(models: Sequence[Linear]) -> tuple[Array, Array]:
    """The scores of several models, one below the other: coefficients (K, n), intercepts (K,).

    They are K models of one score each, or one of K scores.
    """
    coef = np.vstack([np.atleast_2d(model.coef) for model in models])
    return coef, np.concatenate([np.atleast_1d(model.intercept) for model in models])


def intercepts_at(models: Sequence[Linear], name: str) -> Array:
    """The intercepts (K,) of several models at a client: its own, where every client has some.

    NaN where it keeps them.
    """
    found = []
    for model in models:
        own: Mapping[str, float | Array] = getattr(model, "intercepts", {})
        kept = np.full(np.shape(model.intercept), math.nan)
        found.append(np.atleast_1d(own.get(name, kept) if own else model.intercept))
    return np.concatenate(found)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The outcome of a run; dictionaries by client name are in client order.

    Attributes
    ----------
    coef, intercept : array of shape (n,), float
        The model; (K, n) and (K,) of K classes at once.
    objective, lower_bound, gap : float
        The optimum lies between the first two; `drfl.solvers.relative_gap` of them.
    status : Status
        Why the run ended, with a sentence.
    weights, client_losses, client_multipliers : dict of str to float
        The worst weights q, and at the model each client's worst-case loss F_s and price of
        transport.
    rounds : int
        Messages went down and up so many times.
    bytes_up, bytes_down : dict of str to int
        Sent by and to each client in all.
    seconds_clients, seconds_server : float
        Computing time, that of the clients added up.
    history : tuple of Record
        One entry per round.
    sent : tuple of drfl.wire.Sent
        What every client has sent, by kind of message.
    intercepts : dict of str to float, or to array of shape (K,)
        Where every client has an intercept of its own, NaN of those who keep it; then
        ``intercept`` is 0.
    """

    coef: Array
    intercept: float | Array
    objective: float
    lower_bound: float
    gap: float
    status: Status
    weights: dict[str, float]
    client_losses: dict[str, float]
    client_multipliers: dict[str, float]
    rounds: int
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]
    seconds_clients: float
    seconds_server: float
    history: tuple[Record, ...] = ()
    sent: tuple[Sent, ...] = ()
    intercepts: dict[str, float | Array] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a DataFrame, a row per round; bytes are sums over the clients."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas") from None
        return pd.DataFrame([_row(record) for record in self.history])

    def to_json(self) -> str:
        """Write everything down as JSON; what JSON lacks becomes "inf", "-inf" or "nan"."""
        return json.dumps(to_json(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        if not (isinstance(data, dict) and set(data) == {f.name for f in fields(cls)}):
            raise ValueError("this is not a result: its fields are not those of a drfl.Result")
        history = tuple(Record.from_json(record) for record in data["history"])
        sent = tuple(_read_sent(entry) for entry in data["sent"])
        read = _read(data) | {"status": Status(**data["status"]), "history": history, "sent": sent}
        if isinstance(read["intercept"], list):
            read["intercept"] = np.array(read["intercept"], dtype=np.float64)
            own = read["intercepts"].items()
            read["intercepts"] = {name: np.array(b, dtype=np.float64) for name, b in own}
        return cls(**read | {"coef": np.array(read["coef"], dtype=np.float64)})

    def summary(self) -> str:
        """A few lines for a reader: status, objective, costs, and the clients that weigh most."""
        up, down = sum(self.bytes_up.values()), sum(self.bytes_down.values())
        lines = [
            str(self.status),
            f"objective {self.objective:.8g}, proved to be at least {self.lower_bound:.8g} "
            f"(relative gap {self.gap:.2g})",
            f"{self.rounds} rounds, {up / 1000:.1f} kB up, {down / 1000:.1f} kB down, "
            f"{self.seconds_clients:.2f} s on clients, {self.seconds_server:.2f} s on the server",
            "",
            *self._client_lines(),
        ]
        return "\n".join(lines)

    def _client_lines(self) -> list[str]:
        shown = sorted(self.weights, key=lambda name: -self.weights[name])[:SHOWN_CLIENTS]
        rows = [["client", "weight", "loss", "multiplier"]]
        for name in shown:
            weight, loss = self.weights[name], self.client_losses[name]
            multiplier = self.client_multipliers[name]
            rows.append([name, f"{weight:.4f}", f"{loss:.6g}", f"{multiplier:.4g}"])
        remarks = ["", *map(self._absence, shown)]
        table = zip(aligned(rows, [0, 8, 10, 10]), remarks, strict=True)
        lines = [line + remark for line, remark in table]
        more = len(self.weights) - len(shown)
        return [*lines, f"and {more} more"] if more else lines

    def _absence(self, name: str) -> str:
        """A remark on a client that was missing, with its last reason."""
        reasons = [record.failures[name] for record in self.history if name in record.failures]
        if not reasons:
            return ""
        why = Failure(reasons[-1]).sentence if reasons[-1] in set(Failure) else reasons[-1]
        return f"  missing in {len(reasons)} of {self.rounds} rounds: {why}"

    def __repr__(self) -> str:
        return (
            f"<Result {self.status.kind}: objective {self.objective:.6g}, gap {self.gap:.2g}, "
            f"{self.rounds} rounds, {len(self.weights)} clients>"
        )


def _read(data: dict[str, Any]) -> dict[str, Any]:
    """Numbers from JSON; names and reasons stay the strings they are."""
    text = ("worst_client", "failures", "sent")
    return {key: value if key in text else from_json(value) for key, value in data.items()}


def _read_sent(data: dict[str, Any]) -> Sent:
    return Sent(**data | {"arrays": {name: tuple(shape) for name, shape in data["arrays"].items()}})


def _row(record: Record) -> dict[str, Any]:
    row = {f.name: getattr(record, f.name) for f in fields(record)}
    row["bytes_up"] = sum(record.bytes_up.values())
    row["bytes_down"] = sum(record.bytes_down.values())
    row["missing"] = len(row.pop("failures"))
    info = row.pop("info")
    return row | {key: value for key, value in info.items() if key not in row}


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

    def record(self, round: int, standing: Standing, failures: Mapping[str, str]) -> Record:
        return Record(
            round=round,
            **self._stand(standing),
            worst_client=self._worst(standing.client_losses),
            failures={**failures, **standing.rejected},
            info=dict(standing.info),
        )

    def _stand(self, standing: Standing) -> dict[str, Any]:
        """What is proved, and what it has cost."""
        return {
            **{
                name: float(getattr(standing, name)) for name in ("objective", "lower_bound", "gap")
            },
            "bytes_up": dict(self.up),
            "bytes_down": dict(self.down),
            "seconds_clients": self.seconds_clients,
            "seconds_server": self.seconds_server,
        }

    def _worst(self, losses: Array) -> str | None:
        return None if np.isnan(losses).all() else self.names[int(np.nanargmax(losses))]

    def result(
        self,
        standing: Standing,
        status: Status,
        history: tuple[Record, ...],
        intercepts: Mapping[str, float | Array],
    ) -> Result:
        return Result(
            coef=np.array(standing.coef, dtype=np.float64),
            intercept=standing.intercept,
            **self._stand(standing),
            status=status,
            weights=self._by_name(standing.weights),
            client_losses=self._by_name(standing.client_losses),
            client_multipliers=self._by_name(standing.client_multipliers),
            rounds=len(history),
            history=history,
            sent=self.tally.sent,
            intercepts=dict(intercepts),
        )

    def _by_name(self, values: Array) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))
