"""The life of a worker process: place the clients, then answer until the pipe ends.

Parent to worker: the frames of a placement, each preceded by how many; then for every round a
number and so many pairs of a client's name and an encoded message. Worker to parent: the client
that does not fit and why, or two empty frames; then an encoded reply and seconds per message.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from threading import Thread
from time import perf_counter

from drfl.client import Handler, Site
from drfl.engines.placement import unpack
from drfl.wire import decode, encode


def serve(pipe: Connection) -> None:
    """Run a worker; it ends with its parent, whatever ends that."""
    # Ctrl-C reaches every process of a terminal. It is the parent's to close the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An idle worker would see its pipe end, one that computes would not.
    Thread(target=_end_with_parent, daemon=True).start()
    sites: dict[str, Site] = {}
    handlers: dict[str, Handler] = {}
    with pipe, suppress(EOFError, OSError):
        frames = [pipe.recv_bytes() for _ in range(int(pipe.recv_bytes()))]
        client, refusal = _place(frames, sites, handlers)
        del frames
        pipe.send_bytes(client.encode())
        pipe.send_bytes(refusal.encode())
        while not refusal:
            _answer_round(pipe, sites, handlers)


def _place(
    frames: list[bytes], sites: dict[str, Site], handlers: dict[str, Handler]
) -> tuple[str, str]:
    """Fill ``sites`` and ``handlers``; or the client that does not fit, and why."""
    try:
        clients, problem, found = unpack(frames)
    except Exception as error:
        return "", (
            f"a worker process cannot find what it needs ({type(error).__name__}: {error}): "
            "classes and functions must be at the top level of a module that it can import"
        )
    handlers.update(found)
    for client in clients:
        try:
            sites[client.name] = Site(client, problem)
        except ValueError as error:
            return client.name, str(error)
    return "", ""


def _answer_round(pipe: Connection, sites: dict[str, Site], handlers: dict[str, Handler]) -> None:
    # All are read before the first is answered: parent and worker never both wait to write.
    asked = [(pipe.recv_bytes(), pipe.recv_bytes()) for _ in range(int(pipe.recv_bytes()))]
    for name, data in asked:
        start = perf_counter()
        reply = sites[name.decode()].answer(decode(data), handlers)
        seconds = perf_counter() - start
        pipe.send_bytes(encode(reply))
        pipe.send_bytes(repr(seconds).encode())


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
