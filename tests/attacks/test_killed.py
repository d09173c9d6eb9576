"""A ledger outlives its process: killed after an entry was written, at any moment, or doubled."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from asking import K, N, line, n, open_server
from attack_kit import (
    Server,
    leverages,
    make_client,
    make_problem,
    pair_differences,
    rows_among,
)

from drfl.wire import encode

SCRIPT = Path(__file__).parent / "asking.py"


def asked(*arguments):
    command = [sys.executable, str(SCRIPT), *(str(word) for word in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def replies(ledger, numbers):
    """What a new process would answer; the round is part of a reply."""
    server = open_server(ledger)
    for number in numbers:
        assert server.ask(line(100)[number])
    return [encode(reply).hex() for reply in server.replies]


def test_killed_between_the_entry_and_the_reply(tmp_path):
    """What was written counts as told, and the answer is the one that would have left."""
    ledger = tmp_path / "ledger"
    with asked(ledger, 0, 4, "die") as process:
        heard = process.stdout.read().split()
    assert process.returncode == -signal.SIGKILL
    assert len(heard) == 4
    before = ledger.read_bytes()
    again = replies(ledger, range(5))
    assert again[:4] == heard
    assert ledger.read_bytes() == before  # also the fifth was there
    assert replies(ledger, range(5)) == again


@pytest.mark.parametrize("after", [1, 7])
def test_killed_at_any_moment(tmp_path, after, table):
    """No reply that anyone has heard is forgotten, and nothing is told anew."""
    ledger = tmp_path / "ledger"
    with asked(ledger, 0, 99) as process:
        heard = [process.stdout.readline().strip() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        heard += process.stdout.read().split()
    assert process.returncode == -signal.SIGKILL
    assert open_server(ledger).client.ledger.count("answer") >= len(heard)
    assert replies(ledger, range(len(heard))) == heard
    table("a process killed after writing and before replying, asked again", "–", "same bytes")


def test_two_processes_on_one_ledger_share_the_leverage(tmp_path, table):
    """Neighbouring points in two jobs at once: their differences are rows without a guard."""
    ledger = tmp_path / "ledger"
    with asked(ledger, 0, 39) as one, asked(ledger, 20, 59) as two:
        parts = [one.stdout.read().split(), two.stdout.read().split()]
    assert one.returncode == two.returncode == 0
    assert [len(part) for part in parts] == [40, 40]
    server = open_server(ledger)
    assert server.client.ledger.count("answer") == 60
    for number in range(60):
        server.ask(line(100)[number])
    assert server.client.ledger.count("answer") == 60
    assert leverages(server.weights).max() <= 1.0 / K + 1e-9
    assert not rows_among(pair_differences(server.slopes), server.client)
    plain = Server(make_client(N, n), make_problem())
    for number in range(60):
        plain.ask(line(100)[number])
    found = rows_among(pair_differences(plain.slopes), plain.client)
    assert found
    table("two jobs at once", len(found), 0, "rows")
