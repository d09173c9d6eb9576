"""How a run is watched: what is told, when it is tried again, and when it is given up."""

import json
from contextlib import contextmanager

import pytest

from drfl.sites import progress
from drfl.sites.flare import watch
from drfl.sites.flare.session import LostError
from drfl.sites.setup.project import Project
from drfl.sites.setup.provision import ProjectFolder, findings, table

RECORD = {"round": 1, "objective": 1.0, "lower_bound": "-inf", "gap": "inf"}
RECORD |= {"worst_client": None, "bytes_up": {}, "bytes_down": {}}
RECORD |= {"seconds_clients": 0.0, "seconds_server": 0.0}
GOOD = {"exit": 0, "resubmit": False, "missing": {}}
PARTIAL = {"exit": 4, "resubmit": True, "missing": {"south": "silent"}}


class Heard:
    """Somebody who listens."""

    def __init__(self):
        self.live, self.told = True, []

    def __getattr__(self, name):
        return lambda *what: self.told.append((name, *what))

    def warnings_told(self):
        return [what[0] for name, *what in self.told if name == "warn"]


class Server:
    """A server whose jobs end as it is told; an exception is raised in their place."""

    def __init__(self, folder, *ends, connected=("north", "south")):
        self.folder, self.ends, self.here = folder, list(ends), list(connected)
        self.orders, self.aborted, self.asked = [], [], 0

    @contextmanager
    def connect(self, layout):
        yield self

    def connected(self):
        return self.here

    def born(self):
        return 1.0

    def submit(self, folder):
        config = json.loads((folder / "app" / "config" / "config_fed_server.json").read_text())
        self.orders.append(json.loads(config["components"][0]["args"]["order"]))
        self.asked = 0
        return f"job-{len(self.orders)}"

    def status(self, job):
        self.asked += 1
        if self.asked == 1:
            return {"status": "RUNNING"}
        if isinstance(self.ends[0], Exception):
            raise self.ends.pop(0)
        return {"status": "FINISHED:COMPLETED"}

    def progress(self, job, since):
        events = [{"say": ["hello"]}, {"progress": RECORD, "prefix": ""}]
        return {"phase": "working", "next": 2, "events": events[since:]}

    def result(self, job, folder):
        end, run = self.ends.pop(0), self.folder / job / "workspace" / "RUN"
        run.mkdir(parents=True)
        if end is not None:
            (run / "outcome.json").write_text(json.dumps(end))
        return self.folder / job

    def abort(self, job):
        self.aborted.append(job)


@pytest.fixture
def tried(layout, tmp_path, monkeypatch):
    """Run against a server of which the jobs end in these ways."""
    monkeypatch.setattr(watch, "PAUSE", 0.0)

    def go(*ends, connected=("north", "south"), **settings):
        values = {**layout.project.values, "rejoin": 0.01, "attempts": 3, **settings}
        project = Project(tmp_path, values, layout.project.settings)
        server, listener = Server(tmp_path, *ends, connected=connected), Heard()
        monkeypatch.setattr(watch, "connect", server.connect)
        found = watch.Watch(ProjectFolder(project), "train", listener)
        return server, listener, found

    return go


def test_what_the_driver_says_is_said_here(tried):
    server, listener, found = tried(GOOD)
    assert found.go().outcome == GOOD
    assert listener.told[0] == ("say", "hello")
    name, record, _ = listener.told[1]
    assert (name, record.round, record.gap) == ("progress", 1, float("inf"))
    assert [order["attempt"] for order in server.orders] == [0]


def test_a_job_that_dies_is_submitted_again_as_the_same_run(tried):
    server, listener, found = tried(None, GOOD)
    assert found.go().outcome == GOOD
    assert [order["attempt"] for order in server.orders] == [0, 1]
    assert {order["run"] for order in server.orders} == {found.run}
    assert "attempt 2, from the checkpoint" in listener.warnings_told()[0]


def test_it_gives_up(tried):
    server, _, found = tried(None, None, None)
    with pytest.raises(ValueError, match=f"3 times; the rounds done .* --resume {found.run}"):
        found.go()
    assert len(server.orders) == 3


def test_an_old_job_is_ended_after_the_server_was_lost(tried):
    server, listener, found = tried(LostError("the server was restarted"), GOOD)
    assert found.go().outcome == GOOD
    assert server.aborted == ["job-1"]
    assert "waiting" in listener.warnings_told()[0]


def test_a_site_that_comes_back_is_worth_another_attempt(tried):
    server, listener, found = tried(PARTIAL, GOOD)
    assert found.go().outcome == GOOD
    assert "'south' came back: attempt 2" in listener.warnings_told()[0]
    assert len(server.orders) == 2


def test_a_site_that_stays_away_is_gone_without(tried):
    server, _, found = tried(PARTIAL, connected=["north"], quorum=1)
    assert found.go().outcome == PARTIAL
    assert len(server.orders) == 1


def test_too_few_sites(tried):
    server, _, found = tried(connected=["north"])
    with pytest.raises(
        ValueError, match="1 sites are connected, the quorum is 2: wait for 'south'"
    ):
        found.go()
    assert server.orders == []


def test_a_site_that_is_lost_is_named():
    listener = Heard()
    progress.tell(listener, {"missing": {"south": "silent"}})
    assert listener.warnings_told() == [
        "site 'south' is missing from now on: it gave no sign of life"
    ]


def test_what_stands_in_the_way_is_named(layout):
    there = {"version": "0.0.1", "schema": 1, "rows": 7, "ok": False, "guard": 0}
    there |= {"sentence": "its file is odd"}
    found = findings(layout, {"sites": {"north": there}, "missing": {"south": "absent"}})
    lines = table(found)
    assert lines[1].split() == ["north", "yes", "0.0.1", "7", "NONE", "360", "days"]
    assert any("north: its drfl is 0.0.1, the coordinator's" in line for line in lines)
    assert "north: its file is odd" in lines
    assert "north: it has fewer than 20 rows" in lines
    assert "south: it does not answer" in lines
