"""The client's half of the Flower app: it brings bytes to the door of the site, and back.

Flower starts a process for every message and ships the app to the site, so nothing of the site is
here: no data, no guard, no settings. They are behind the door, which `drfl flower site` opens in a
process of the site's own. Light to import, since that is paid for every message.
"""

from __future__ import annotations

import json
import struct
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

RECORD, DATA = "drfl", "data"  # where in Flower's records the bytes are
NODE = "drfl"  # the entry of a SuperNode's ``--node-config`` that names the file of the door
CLOSED = b"closed"  # instead of an answer: there is no door, or nobody opens. No message of drfl
RUN = struct.Struct("<Q")  # Flower's number of the run
PATIENCE = 60.0  # seconds, more than the door holds a question

app = ClientApp()


@app.query()  # type: ignore[untyped-decorator]
def answer(message: Message, context: Any) -> Message:
    """What the site says to a question."""
    data = bytes_of(message)
    where = context.node_config.get(NODE)
    found = CLOSED
    if data is not None and isinstance(where, str):
        found = ask(Path(where), RUN.pack(context.run_id) + data)
    return Message(records(found), reply_to=message)


def records(data: bytes) -> RecordDict:
    """Bytes as Flower carries them."""
    return RecordDict({RECORD: ConfigRecord({DATA: data})})


def bytes_of(message: Message) -> bytes | None:
    """What a message of Flower's carries; None: nothing of this kind."""
    if not message.has_content():
        return None
    record = message.content.config_records.get(RECORD)
    data = None if record is None else record.get(DATA)
    return data if isinstance(data, bytes) else None


def ask(door: Path, data: bytes) -> bytes:
    """Knock at the door whose file this is."""
    try:
        told = json.loads(door.read_text(encoding="utf-8"))
        address, key = ("localhost", int(told["port"])), bytes.fromhex(told["key"])
        with Client(address, authkey=key) as line:
            line.send_bytes(data)
            if line.poll(PATIENCE):
                return line.recv_bytes()
    except (OSError, EOFError, ValueError, KeyError, TypeError, AuthenticationError):
        pass  # the reason may name files of the site: it stays here
    return CLOSED
