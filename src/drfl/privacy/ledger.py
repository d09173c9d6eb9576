"""The ledger: everything that has left a client, and what of it must never leave.

It belongs to the data, not to a training: another job, a restart or a server that asks again goes
on where the last one stopped.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.privacy.journal import Journal
from drfl.privacy.leverage import Leverage
from drfl.privacy.preflight import released
from drfl.rows import Rows
from drfl.rows.parts import is_sparse
from drfl.wire import Message

VERSION = 1
Bytes = NDArray[np.uint8]


class Ledger:
    """What one client's data have told so far.

    Parameters
    ----------
    rows : Rows
        The data.
    k : int
        No combination of sums may involve fewer rows.
    path : Path or None
        Where it is kept; None: in memory, which is for simulations only.
    secret : bytes or None
        Key of the dither; None: a new one, kept in the ledger.

    Attributes
    ----------
    leverage : Leverage
        Of all weights that have left.
    entries : list of Message
        All of it, in order.
    """

    def __init__(
        self, rows: Rows, k: int, path: Path | None = None, secret: bytes | None = None
    ) -> None:
        self.rows, self.k = rows, k
        self.journal = Journal(path)
        self.leverage = Leverage(rows.n_rows, k)
        for weights in released(rows):
            self.leverage.add(weights)
        self.allowed = rows.n_rows // k
        self.entries: list[Message] = []
        self._stored: dict[bytes, Message] = {}
        data = digest_of(rows)
        with self.journal.locked():
            if not self.journal.exists:
                self.secret = secret or secrets.token_bytes(32)
                head: dict[str, NDArray[Any]] = {
                    "data": np.frombuffer(data, np.uint8),
                    "secret": np.frombuffer(self.secret, np.uint8),
                    "released": np.array(released(rows)),
                    "sizes": np.array([VERSION, k, rows.n_rows, rows.n_features, self.allowed]),
                }
                self.journal.append(Message("ledger", 0, head))
            else:
                self._open(data, path)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Another process opens the file itself; a ledger in memory is copied."""
        if self.journal.path is None:
            return super().__reduce_ex__(protocol)
        return Ledger, (self.rows, self.k, self.journal.path)

    def _open(self, data: bytes, path: Path | None) -> None:
        entries = self.journal.unread()
        head = next(entries, None)
        if head is None or head.kind != "ledger":
            raise ValueError(f"{path} is not a ledger: give the path of one, or of a new file")
        if head.arrays["data"].tobytes() != data:
            raise ValueError(
                f"the data are not those of the ledger {path}: a new ledger for changed data is "
                "for the site's own hand to begin, at another path"
            )
        if head.arrays["sizes"][:2].tolist() != [VERSION, self.k]:
            raise ValueError(
                f"the ledger {path} was begun with k = {head.arrays['sizes'][1]}: go on with that"
            )
        self.secret = head.arrays["secret"].tobytes()
        for entry in entries:
            self._take_in(entry)

    def refresh(self) -> None:
        """Take in what another training has written; call it under the journal's lock."""
        for entry in self.journal.unread():
            self._take_in(entry)

    def stored(self, question: bytes) -> Message | None:
        """The entry of a question that has been asked before."""
        return self._stored.get(question)

    def count(self, kind: str) -> int:
        """How many entries of a kind there are."""
        return sum(entry.kind == kind for entry in self.entries)

    def write(self, kind: str, question: bytes, arrays: Mapping[str, NDArray[Any]]) -> Message:
        """Write an entry; only afterwards may anyone hear of it."""
        asked = {"question": np.frombuffer(question, np.uint8)}
        entry = Message(kind, len(self.entries), {**asked, **arrays})
        self.journal.append(entry)
        self._take_in(entry)
        return entry

    def _take_in(self, entry: Message) -> None:
        self.entries.append(entry)
        self._stored.setdefault(entry.arrays["question"].tobytes(), entry)
        if "weights" in entry.arrays:
            self.leverage.add(entry.arrays["weights"])


def digest_of(rows: Rows) -> bytes:
    """A fingerprint of the rows as they came, in their order; scaling plays no role."""
    sha = hashlib.sha256(repr((rows.n_rows, rows.n_features)).encode())
    for block in rows.blocks():
        part = rows.X[block]
        dense: Array = np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)
        sha.update(np.ascontiguousarray(dense).tobytes())
    sha.update(np.ascontiguousarray(rows.y).tobytes())
    return sha.digest()
