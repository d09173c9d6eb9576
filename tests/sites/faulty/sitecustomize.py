"""A site whose computation misbehaves on command; on the path of that one site's Python only.

The command is a JSON file: what to do in which round, how slow to be, and which round to hold until
a file says that it is released. Each fault happens once.
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

COMMAND = Path(os.environ["MISBEHAVE"])


class Spoiler(MetaPathFinder):
    """Lets the module of the station load, and then spoils it."""

    def find_spec(self, name, path=None, target=None):
        if name != "drfl.protocols.station":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            spoil(module.Station)

        spec.loader.exec_module = exec_module
        return spec


def spoil(station):
    usual_answer, usual_handle = station.answer, station.handle

    def handle(self, message, seat=0):
        if message.kind == "bundle":
            command = json.loads(COMMAND.read_text("utf-8"))
            time.sleep(command.get("slow", 0.0))
            if message.round == command.get("held"):
                wait_to_be_released()
            fault = command.get("faults", {}).pop(str(message.round), None)
            if fault in BEFORE:
                COMMAND.write_text(json.dumps(command), "utf-8")
                BEFORE[fault]()
        return usual_handle(self, message, seat)

    def answer(self, message, seat=0):
        reply = usual_answer(self, message, seat)
        if message.kind == "bundle":
            command = json.loads(COMMAND.read_text("utf-8"))
            fault = command.get("faults", {}).pop(str(message.round), None)
            if fault in AFTER:
                COMMAND.write_text(json.dumps(command), "utf-8")
                return AFTER[fault](reply)
        return reply

    station.handle, station.answer = handle, answer


def wait_to_be_released():
    """Tell that the round is here, and compute it when told to."""
    COMMAND.with_suffix(".held").touch()
    while not COMMAND.with_suffix(".released").exists():
        time.sleep(0.05)


def raises():
    raise RuntimeError("patient 4711 has no such value")


def exhausts():
    hoard = []
    while True:
        hoard.append(bytearray(50_000_000))


BEFORE = {
    "raises": raises,
    "hangs": lambda: time.sleep(1000),
    "dies": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exhausts": exhausts,
}


def with_value(reply, change):
    return replace(reply, arrays={**reply.arrays, "value": change(reply.arrays["value"])})


AFTER = {
    "nan": lambda reply: with_value(reply, lambda value: value + float("nan")),
    "shape": lambda reply: with_value(reply, lambda value: value.repeat(2, axis=0)),
    "stale": lambda reply: replace(reply, round=reply.round - 1),
}

sys.meta_path.insert(0, Spoiler())
