"""A stand-in for a station: rows that are drawn, the client halves of a method, and faults."""

import os
import signal
import time

import numpy as np

from drfl.client import Client, Site
from drfl.problem import Problem
from drfl.solvers.bundle import Bundle
from drfl.uncertainty import Ball
from drfl.wire import Failure, Message, decode

NAMES = ("north", "south", "west")
PROBLEM = Problem("hinge", Ball(0.05))
KEPT = ("bind",)


def client(name):
    rng = np.random.default_rng(NAMES.index(name))
    X = rng.normal(size=(40, 3))
    return Client(name, X, np.sign(X[:, 0] + 0.5 * rng.normal(size=40)))


def clients():
    return [client(name) for name in NAMES]


class StandIn:
    def __init__(self, name):
        self.name, self.told, self.count = name, [], 0
        self.site = None

    def answer(self, message: Message, seat: int) -> Message:
        if message.kind == "bind":
            if seat == 9:
                return Failure.UNFIT.message(message.round)
            self.told.append((seat, message.nbytes))
            self.site = Site(client(self.name), PROBLEM)
            return message.reply({})
        if message.kind in FAULTS:
            try:
                return message.reply(FAULTS[message.kind](self, seat))
            except MemoryError:
                return Failure.MEMORY.message(message.round)
            except Exception:
                return Failure.ERROR.message(message.round)
        return self.site.answer(message, Bundle.handlers)


def _count(self, seat):
    self.count += 1
    return {"count": np.array(self.count)}


def _raises(self, seat):
    if self.name == "south":
        raise ValueError("patient 4711")
    return {}


def _dies(self, seat):
    if self.name == "south":
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def _exhausts(self, seat):
    if self.name == "south":
        raise MemoryError
    return {}


def _hangs(self, seat):
    if self.name == "south":
        time.sleep(1000)
    return {}


FAULTS = {
    "count": _count,
    "raises": _raises,
    "dies": _dies,
    "exhausts": _exhausts,
    "hangs": _hangs,
    "dozes": lambda self, seat: time.sleep(3.0) or {},
    "seat": lambda self, seat: {"seat": np.array(seat)},
    "told": lambda self, seat: {"told": np.array(self.told[-1])},
}


class Seats(dict):
    def __init__(self, stand_in):
        super().__init__()
        self.stand_in = stand_in

    def __missing__(self, seat):
        return lambda message: self.stand_in.answer(message, int(seat))


def opening(frames):
    seats = Seats(StandIn(frames[0].decode()))
    for seat, data in zip(frames[1::2], frames[2::2], strict=True):
        seats[seat.decode()](decode(data))
    return seats
