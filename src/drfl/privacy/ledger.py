"""The ledger: everything that has left a client, and what of it must never leave.

It belongs to the data, not to a training: another job, a restart or a server that asks again goes
on where the last one stopped.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.privacy.journal import Journal, SpentError
from drfl.privacy.leverage import Leverage
from drfl.wire import Message

VERSION = 4
HEAD, KNOWN, REFUSED = "ledger", "known", "refused"
BINDING, READING, KNOTS = "binding", "reading", "knots"


class Ledger:
    """What one client's data have told so far.

    Parameters
    ----------
    key : bytes
        A fingerprint of the data.
    n_rows : int
        N: the sum of all rows counts as known from the start.
    k : int
        No combination of sums may involve fewer rows.
    path : Path or None
        Where it is kept; None: in memory, which is for simulations only.
    secret : bytes or None
        Key of the dither; None: a new one, kept in the ledger.
    prints : (N, 32) or None
        Fingerprints of the rows; they are kept salted with the secret.

    Attributes
    ----------
    leverage : Leverage
        Of all weights that have left.
    allowed : int
        The largest rank that the leverages can have.
    entries : list of Message
        All of it, in order.
    """

    def __init__(
        self,
        key: bytes,
        n_rows: int,
        k: int,
        path: Path | None = None,
        secret: bytes | None = None,
        prints: NDArray[np.uint8] | None = None,
    ) -> None:
        self.key, self.n_rows, self.k, self._prints = key, n_rows, k, prints
        self.journal = Journal(path)
        self.leverage = Leverage(n_rows, k)
        self.leverage.add(np.ones(n_rows))
        self.allowed = n_rows // k
        self.entries: list[Message] = []
        self._stored: dict[bytes, Message] = {}
        with self.journal.locked():
            if not self.journal.exists:
                self._refuse_near_copies()
                self.secret = secret or secrets.token_bytes(32)
                head: dict[str, NDArray[Any]] = {
                    "data": np.frombuffer(key, np.uint8),
                    "secret": np.frombuffer(self.secret, np.uint8),
                    "sizes": np.array([VERSION, k, n_rows]),
                    "rows": salted(self.secret, prints),
                }
                self.journal.append(Message(HEAD, 0, head))
            else:
                self._open(path)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Another process opens the file itself; a ledger in memory is copied."""
        if self.journal.path is None:
            return super().__reduce_ex__(protocol)
        path, prints = self.journal.path, self._prints
        return Ledger, (self.key, self.n_rows, self.k, path, None, prints)

    def _open(self, path: Path | None) -> None:
        entries = self.journal.unread()
        head = next(entries, None)
        if head is None or head.kind != HEAD:
            raise ValueError(f"{path} is not a ledger: give the path of one, or of a new file")
        version, k = head.arrays["sizes"][:2].tolist()
        if version != VERSION:
            raise ValueError(f"the ledger {path} is of another version of drfl: go on with that")
        if head.arrays["data"].tobytes() != self.key:
            self._refuse_changed(head, f"the data are not those of the ledger {path}")
        if k != self.k:
            raise ValueError(f"the ledger {path} was begun with k = {k}: go on with that")
        self.secret = head.arrays["secret"].tobytes()
        for entry in entries:
            self._take_in(entry)

    def _refuse_changed(self, head: Message, why: str) -> None:
        """Say so if little differs."""
        changed = changed_rows(head, self._prints)
        if changed is not None and 0 < changed < self.k:
            raise ValueError(
                f"{why}: fewer than k = {self.k} rows differ, and what differed in the answers "
                "would tell of them; give back the old rows, or change at least k"
            )
        raise ValueError(
            f"{why}: a new ledger for changed data, or for other rows of a file, is for the site's "
            "own hand to begin, at another path"
        )

    def _refuse_near_copies(self) -> None:
        """Refuse to begin beside a ledger whose rows are these but for a few."""
        path = self.journal.path
        for other in sorted(path.parent.glob("*")) if path and path.parent.is_dir() else []:
            if other == path or not other.is_file() or other.suffix == ".lock":
                continue
            try:
                entries = Journal(other).peek()
            except (ValueError, OSError):
                continue
            head = entries[0] if entries else None
            if head is None or head.kind != HEAD or "rows" not in head.arrays:
                continue
            changed = changed_rows(head, self._prints)
            if changed is not None and 0 < changed < self.k:
                raise ValueError(
                    f"the ledger {other} is of these rows but for fewer than k = {self.k}: two "
                    "ledgers together would tell of them; give back the old rows, or change more"
                )

    def refresh(self) -> None:
        """Take in what another training has written; call it under the journal's lock."""
        for entry in self.journal.unread():
            self._take_in(entry)

    def stored(self, question: bytes) -> Message | None:
        """The answer to a question that has been asked before, None if it was refused."""
        entry = self._stored.get(question)
        return None if entry is None or entry.kind == REFUSED else entry

    def count(self, kind: str) -> int:
        """How many entries of a kind there are."""
        return sum(entry.kind == kind for entry in self.entries)

    def declare(self, weights: Array, what: str) -> None:
        """Count the sums with these weights as known from now on, before they are.

        Parameters
        ----------
        weights : (N,)
            Of the rows.
        what : str
            What they are, for the sentence that refuses them.
        """
        question = hashlib.sha256(b"known\0" + weights.tobytes()).digest()
        with self.journal.locked():
            self.refresh()
            if self.stored(question) is not None:
                return
            if not self.leverage.admits(weights, exactly=True):
                raise ValueError(
                    f"{what} would tell of fewer than k = {self.k} rows, together with what the "
                    "ledger has told: leave it out"
                )
            self.write(KNOWN, question, {"weights": weights})

    def note(
        self, kind: str, question: bytes, most: int, arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Write down, once, that something was asked which is counted; refused beyond so many."""
        with self.journal.locked():
            if not self._is_known(kind, question, most):
                self.write(kind, question, arrays)

    def require_left(self, kind: str, question: bytes, most: int) -> None:
        """Refuse what `note` would refuse, before anything is computed for it."""
        with self.journal.locked():
            self._is_known(kind, question, most)

    def _is_known(self, kind: str, question: bytes, most: int) -> bool:
        self.refresh()
        if self.stored(question) is not None:
            return True
        if self.count(kind) >= most:
            self.refuse(question)
            raise SpentError(f"the ledger allows {most} entries of the kind {kind!r}")
        return False

    def read_as(self, column: str, how: str) -> None:
        """Refuse to read a column in another way than before: the two together tell more."""
        question = hashlib.sha256(b"reading\0" + column.encode()).digest()
        now = np.frombuffer(how.encode(), np.uint8)
        with self.journal.locked():
            self.refresh()
            entry = self.stored(question) or self.write(READING, question, {"how": now})
        if entry.arrays["how"].tobytes() != now.tobytes():
            raise ValueError(
                f"column {column!r} has been read in another way under this ledger: read it so"
            )

    def bend_at(self, column: str, knots: Array) -> None:
        """Refuse a curve of a column with a knot that is none of the first: see `ramps`."""
        question = hashlib.sha256(b"knots\0" + column.encode()).digest()
        with self.journal.locked():
            self.refresh()
            entry = self.stored(question) or self.write(KNOTS, question, {"knots": knots})
        if not np.isin(knots, entry.arrays["knots"]).all():
            raise ValueError(
                f"column {column!r} has had a curve with other knots under this ledger: take "
                "those, or some of them"
            )

    def refuse(self, question: bytes) -> None:
        """Write down that a question was not answered; once is enough."""
        if question not in self._stored:
            self.write(REFUSED, question, {})

    def write(self, kind: str, question: bytes, arrays: Mapping[str, NDArray[Any]]) -> Message:
        """Write an entry; only afterwards may anyone hear of it."""
        asked = {"question": np.frombuffer(question, np.uint8)}
        entry = Message(kind, len(self.entries), {**asked, **arrays})
        self.journal.append(entry)
        self._take_in(entry)
        return entry

    def _take_in(self, entry: Message) -> None:
        self.entries.append(entry)
        question = entry.arrays["question"].tobytes()
        if self.stored(question) is None:
            self._stored[question] = entry
        if "weights" in entry.arrays:
            self.leverage.add(entry.arrays["weights"])


def salted(secret: bytes, prints: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
    """Fingerprints of rows that only the holder of the secret can compare with rows, (N, 16)."""
    rows = () if prints is None else prints
    found = [hmac.digest(secret, row.tobytes(), "sha256")[:16] for row in rows]
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), 16)


def changed_rows(head: Message, prints: NDArray[np.uint8] | None) -> int | None:
    """How many rows a ledger does not have, or has and these have not; None: it cannot be told."""
    old = head.arrays["rows"]
    if prints is None or not len(old):
        return None
    new = salted(head.arrays["secret"].tobytes(), prints)
    before, after = (Counter(row.tobytes() for row in rows) for rows in (old, new))
    return max((before - after).total(), (after - before).total())
