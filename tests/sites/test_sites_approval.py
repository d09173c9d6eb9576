"""A site whose people see each kind of message before the first one leaves."""

import os
import sys
import threading

import pytest

from drfl.sites.os_processes import wait_until
from kit.real_sites import Program, drfl_sites, hospitals, real_sites

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a terminal is asked"),
]

QUESTION = "May messages of this kind leave? [yes/no] "


class Person:
    """Sits at a terminal, reads, and answers."""

    def __init__(self, no=()):
        self.no, self.seen, self.text = no, [], ""
        self.master, self.terminal = os.openpty()
        threading.Thread(target=self._attend, daemon=True).start()

    def _attend(self):
        while True:
            try:
                self.text += os.read(self.master, 100_000).decode()
            except OSError:
                return
            for shown in self.text.split(QUESTION)[len(self.seen) : -1]:
                kind = shown.split("A message of kind '")[1].split("'")[0]
                self.seen.append(kind)
                os.write(self.master, b"no\n" if kind in self.no else b"yes\n")


@pytest.fixture
def sites(tmp_path):
    """North asks its people; south does not."""
    data = hospitals(("north", "south"))
    own = {"north": {"guard": 0, "approve": True}, "south": {"guard": 0}}
    with real_sites(tmp_path, data, settings=own, rejoin=1.0, attempts=1) as started:
        started.sites["north"].stop()
        yield started


def joined(sites, person):
    """North joins again, at a terminal."""
    kit, data = sites.kit("north"), ("--data", "north.csv")
    program = Program(
        "join", kit, *data, "--without-guard", cwd=sites.folder, terminal=person.terminal
    )
    sites.sites["north"] = program
    assert wait_until(lambda: "has joined" in person.text, 60.0), person.text


def test_each_kind_is_asked_once(sites):
    person = Person()
    joined(sites, person)
    drfl_sites("run", "--out", "RUN", cwd=sites.folder)
    kinds = list(dict.fromkeys(entry["kind"] for entry in sites.ledger("north")))
    assert person.seen == kinds
    assert {"preflight/reply", "bundle/reply"} <= set(kinds)


def test_what_is_refused_does_not_leave(sites):
    person = Person(no=("preflight/reply",))
    joined(sites, person)
    said = drfl_sites("run", "--out", "RUN", cwd=sites.folder, code=5).stderr
    assert "north" in said
    kinds = [entry["kind"] for entry in sites.ledger("north")]
    assert "preflight/reply" not in kinds
    assert not (sites.folder / "RUN" / "model.json").exists()
