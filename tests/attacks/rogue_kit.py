"""Participants who turn against a site, and what they ask of it. Real processes."""

import itertools
import json
import time
from pathlib import Path

SECRET = "4711,Erika Mustermann,positive"
TOOLS = str(Path(__file__).parent / "rogue")


class Rogue:
    """Whoever was started with `environment` does what is ordered here."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self._numbers = itertools.count()
        self.patients = folder / "patients.txt"
        self.patients.write_text(SECRET + "\n", "utf-8")

    @property
    def environment(self):
        return {"PYTHONPATH": TOOLS, "ROGUE": str(self.folder)}

    def order(self, me, target, channel, topic, how="request", **more):
        """Let the cell ``me`` send something; the file with the answer."""
        stem = f"{next(self._numbers):03d}"
        order = {"me": me, "target": target, "channel": channel, "topic": topic, "how": how, **more}
        (self.folder / f"{stem}.part").write_text(json.dumps(order), "utf-8")
        (self.folder / f"{stem}.part").rename(self.folder / f"{stem}.order.json")
        return self.folder / f"{stem}.answer.json"

    def ask(self, me, target, topic, **more):
        """Order a request of FLARE's admin channel; the file with the answer."""
        return self.order(me, target, "admin", "admin", admin=topic, **more)

    def shell(self, me, line, **more):
        """Order a command line at the site north."""
        return self.ask(me, "north", "sys.shell", body=line, **more)


def answer(path, seconds=40.0):
    last = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < last, "the rogue gave no answer"
        time.sleep(0.1)
    return json.loads(path.read_text("utf-8"))


def answers(orders):
    """What came back, by whatever the orders are called; all of them are under way at once."""
    return {name: answer(path) for name, path in orders.items()}


def refusals(kit):
    """What a site has refused, by its own audit: pairs of who and what."""
    path = kit / "state" / "refused.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [(entry["origin"], entry["what"]) for entry in map(json.loads, lines)]


READING = ("cat {}", "head {}", "tail {}", "grep Erika {}", "ls {}")
"""Command lines with the path of a file."""

NEEDLESS = (
    "sys.info",
    "sys.report_env",
    "sys.report_version",
    "sys.configure_site_log",
    "resource_manager.report_resources",
    "info.show_stats",
    "info.show_errors",
    "info.reset_errors",
    "comp_caller.call",
    "train.abort_task",
    "train.configure_job_log",
    "train.delete_run",
    "train.get_scopes",
    "train.restart",
)
"""Topics of FLARE's client that no job of drfl needs."""

NETWORK = (
    "cells",
    "peers",
    "conns",
    "url_use",
    "msg_stats",
    "list_pools",
    "show_pool",
    "comm_config",
    "config_vars",
    "process_info",
    "change_root",
    "stop_cell",
)
"""Topics of FLARE's network agent, which lives in every process."""
