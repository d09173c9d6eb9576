"""A client in a process of its own, for tests that kill it: `asking.py LEDGER FIRST LAST [die]`.

It answers the points FIRST to LAST of a line, one after the other, and prints each reply in hex.
With ``die`` it is killed when the last entry is on the disk and before the reply leaves.
"""

import os
import signal
import sys

import numpy as np
from attack_kit import Server, guard, make_client, make_problem

from drfl.privacy.journal import Journal
from drfl.wire import encode

N, n, K = 150, 13, 5


def line(count, seed=1):
    """Points on a line, between two neighbours of which a row or two change sides."""
    rng = np.random.default_rng(seed)
    start, direction = 0.3 * rng.normal(size=(2, n + 1))
    return start + np.linspace(0.0, 1.0, count)[:, None] * direction


def open_server(ledger):
    return Server(make_client(N, n, guard(K, ledger=ledger)), make_problem())


def die_after_writing():
    append = Journal.append

    def last_words(self, message):
        append(self, message)
        os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = last_words


def main(ledger, first, last, *how):
    server = open_server(ledger)
    for number in range(int(first), int(last) + 1):
        if how and number == int(last):
            die_after_writing()
        server.ask(line(100)[number])
        print(encode(server.replies[-1]).hex(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
