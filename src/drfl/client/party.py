"""Who takes part: a client with its rows, or what a server knows of one far away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from drfl import checks
from drfl.privacy import Guard, Ledger
from drfl.privacy.dp import DifferentialPrivacy
from drfl.rows import Rows


class RefusedError(Exception):
    """Raised when the client's policy or guard does not allow the answer."""


class Party:
    """A client as a solver sees it: a name, which no other client of a run has, and columns.

    ``columns`` are their names, if it knows them.
    """

    name: str
    n_features: int
    columns: Sequence[str] | None


@dataclass(frozen=True)
class Policy:
    """What a client allows, whatever the server asks for.

    Attributes
    ----------
    curvature : bool
        Whether second-order information may leave.
    groups : bool
        Whether cuts of groups of its rows may leave, rather than of all rows only.
    dual_cuts : bool
        Whether it answers with cuts made of the server's multipliers.
    min_rows : int
        With fewer rows it does not take part.
    allow_columns, allow_targets, allow_losses : frozenset of str or None
        The columns that may be used, those that may be predicted, and the losses, by name; None:
        all. Others are not read, or refused where the question arrives.
    """

    curvature: bool = True
    groups: bool = True
    dual_cuts: bool = True
    min_rows: int = 1
    allow_columns: frozenset[str] | None = None
    allow_targets: frozenset[str] | None = None
    allow_losses: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for name in ("curvature", "groups", "dual_cuts"):
            checks.flag(f"{name} of a policy", getattr(self, name))
        checks.whole("min_rows of a policy", self.min_rows, least=1)
        for name in ("allow_columns", "allow_targets", "allow_losses"):
            allowed = getattr(self, name)
            if isinstance(allowed, str):
                raise TypeError(f"{name} of a policy must be a set of names or None")
            if allowed is not None:
                object.__setattr__(self, name, frozenset(allowed))

    def require(
        self, *, target: str | None = None, columns: Iterable[str] = (), loss: str | None = None
    ) -> None:
        """Raise `RefusedError` for a question about what is not allowed."""
        if target is not None and self.allow_targets is not None:
            self._require("the target", [target], self.allow_targets)
        if self.allow_columns is not None:
            self._require("the column", columns, self.allow_columns)
        if loss is not None and self.allow_losses is not None:
            self._require("the loss", [loss], self.allow_losses)

    @staticmethod
    def _require(what: str, names: Iterable[str], allowed: frozenset[str]) -> None:
        for name in names:
            if name not in allowed:
                raise RefusedError(f"{what} {name!r} is not among those that are allowed here")


class Client(Party):
    """A name, rows and a policy.

    Parameters
    ----------
    name : str
        Under which the results speak of it; every client of a run has another one.
    X, y, sample_weight, shift, scale
        The rows, as `drfl.rows.Rows` takes them; X is used in place.
    policy : Policy
        What it allows.
    guard : Guard, optional
        Disclosure control; without one cuts are exact and can give rows away.
    ledger : Ledger, optional
        Of the guard, if it has been opened already for the file that the rows come from.
    privacy : DifferentialPrivacy, optional
        Noise instead of a guard: only the solver "private" is answered, and rows are clipped to
        public bounds.
    columns : sequence of str, optional
        Their names, where X does not have them.
    reading : bytes
        How the rows were made of a file, where several readings share a privacy budget: two that
        happen to give the same numbers are two questions, or which it is would tell of rows.

    Attributes
    ----------
    spending : Spending or None
        The ledger of the privacy budget.

    Examples
    --------
    >>> Client("north", [[0.0], [1.0]], [-1, 1])
    <client 'north': 2 rows, 1 features>
    """

    def __init__(
        self,
        name: str,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        shift: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        guard: Guard | None = None,
        ledger: Ledger | None = None,
        privacy: DifferentialPrivacy | None = None,
        columns: Sequence[str] | None = None,
        reading: bytes = b"",
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a client must be a string, got {type(name).__name__}")
        if not name.strip():
            raise ValueError("the name of a client must not be empty")
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy, got {type(policy).__name__}")
        if not isinstance(guard, Guard | None):
            raise TypeError(f"guard must be a Guard or None, got {type(guard).__name__}")
        if not isinstance(privacy, DifferentialPrivacy | None):
            raise TypeError(
                f"privacy must be a DifferentialPrivacy or None, got {type(privacy).__name__}"
            )
        if guard is not None and privacy is not None:
            raise ValueError(f"client {name!r} has a guard and differential privacy: take one")
        self.name, self.policy, self.guard, self.privacy = name, policy, guard, privacy
        self.reading = reading
        self.rows = Rows(X, y, weights=sample_weight, shift=shift, scale=scale)
        if self.rows.n_rows < policy.min_rows:
            raise ValueError(
                f"client {name!r} has {self.rows.n_rows} rows, but its policy asks for at least "
                f"{policy.min_rows}: it cannot take part"
            )
        try:
            self.ledger = None if guard is None else guard.open(self.rows, ledger)
            self.spending = None if privacy is None else privacy.open()
            self.rows = self.rows if privacy is None else privacy.clip(self.rows)
        except ValueError as error:
            raise ValueError(f"client {name!r}: {error}") from error

        self.n_features = self.rows.n_features
        self.columns = self.rows.names if columns is None else tuple(columns)

    def __repr__(self) -> str:
        rows = self.rows
        return f"<client {self.name!r}: {rows.n_rows} rows, {rows.n_features} features>"


class RemoteClient(Party):
    """A client whose rows are where no method of this process reaches.

    Messages to it are sent to a site, which may stand for several clients of a run; the seat says
    which of them it is. The binding is what the site has to be told before a run, beside the
    problem.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        site: str,
        seat: int = 0,
        binding: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.name, self.columns, self.site, self.seat = name, columns, site, seat
        self.binding = dict(binding or {})
        self.n_features = len(columns)

    def __repr__(self) -> str:
        return f"<client {self.name!r} at {self.site!r}: {self.n_features} features>"


def at_hand(clients: Sequence[Party]) -> list[Client]:
    """The clients, if all their rows are here."""
    for client in clients:
        if not isinstance(client, Client):
            raise TypeError(f"the rows of client {client.name!r} are not here: take its own engine")
    return [client for client in clients if isinstance(client, Client)]
