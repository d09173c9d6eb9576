"""The life of a worker process: place the clients, then answer until the pipe ends.

Parent to worker: the frames of a placement, each preceded by how many; then for every round a
number and so many pairs of a client's name and an encoded message. Worker to parent: the client
that does not fit and why, or two empty frames; then an encoded reply and seconds per message.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from threading import Thread
from time import perf_counter

from drfl._registry import load_extensions
from drfl.client import Site
from drfl.engines.placement import unpack
from drfl.wire import Message, decode, encode

Answer = Callable[[Message], Message]
Opening = Callable[[list[bytes]], dict[str, Answer]]
"""Makes of the frames of a placement who answers, by name; `UnfitError` tells who does not fit."""


class UnfitError(Exception):
    """The client that does not fit ("": it concerns no client), and why."""

    def __init__(self, client: str, why: str) -> None:
        super().__init__(why)
        self.client = client


def serve(pipe: Connection, opening: Opening) -> None:
    """Run a worker; it ends with its parent, whatever ends that."""
    # Ctrl-C reaches every process of a terminal. It is the parent's to close the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An idle worker would see its pipe end, one that computes would not.
    Thread(target=_end_with_parent, daemon=True).start()
    with pipe, suppress(EOFError, OSError):
        frames = [pipe.recv_bytes() for _ in range(int(pipe.recv_bytes()))]
        client, refusal, answers = "", "", dict[str, Answer]()
        try:
            answers = opening(frames)
        except UnfitError as error:
            client, refusal = error.client, str(error)
        del frames
        pipe.send_bytes(client.encode())
        pipe.send_bytes(refusal.encode())
        while not refusal:
            _answer_round(pipe, answers)


def place_clients(frames: list[bytes]) -> dict[str, Answer]:
    """The clients of an engine, bound to its problem."""
    try:
        load_extensions()
        clients, problem, handlers = unpack(frames)
    except Exception as error:
        raise UnfitError(
            "",
            f"a worker process cannot find what it needs ({type(error).__name__}: {error}): "
            "classes and functions must be at the top level of a module that it can import",
        ) from error
    answers: dict[str, Answer] = {}
    for client in clients:
        try:
            answers[client.name] = partial(Site(client, problem).answer, handlers=handlers)
        except ValueError as error:
            raise UnfitError(client.name, str(error)) from error
    return answers


def _answer_round(pipe: Connection, answers: dict[str, Answer]) -> None:
    # All are read before the first is answered: parent and worker never both wait to write.
    asked = [(pipe.recv_bytes(), pipe.recv_bytes()) for _ in range(int(pipe.recv_bytes()))]
    for name, data in asked:
        start = perf_counter()
        reply = answers[name.decode()](decode(data))
        seconds = perf_counter() - start
        pipe.send_bytes(encode(reply))
        pipe.send_bytes(repr(seconds).encode())


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
