"""What `drfl sites` does for a coordinator."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drfl.cli.console import Console
from drfl.cli.main import FAILED, OK, say


def find_layout(options: argparse.Namespace, *, new: bool = False) -> Any:
    """The project that the options name."""
    from drfl.sites.setup.project import read_project
    from drfl.sites.setup.provision import ProjectFolder

    layout = ProjectFolder(read_project(options.config))
    return layout if new else layout.require()


def init(options: argparse.Namespace) -> None:
    """Write everything."""
    layout = find_layout(options, new=True)
    console = Console()
    for name in layout.create(with_kits=options.kits):
        console.say(f"kit of {name}, with its key: {layout.kit(name)}")
    listening = "this machine only" if layout.project["host"] == "localhost" else "all interfaces"
    console.say(
        f"written: {layout.folder}; {layout.authority.key} must never leave this machine",
        f"the server will listen on port {layout.project['port']} of {listening}",
    )


def approve(options: argparse.Namespace) -> None:
    """Sign a request."""
    from drfl.sites.setup.provision import approve_request

    name, kit, fingerprint = approve_request(find_layout(options), options.request)
    Console().say(
        f"fingerprint of {name}'s key: {fingerprint}",
        f"if {name} reads the same to you on the telephone, send back {kit}; it holds no key",
    )


def serve(options: argparse.Namespace) -> int:
    """Run the server."""
    from drfl.sites.flare.serving import serve as run_server

    layout, console = find_layout(options), Console()
    if run_server(layout, console):
        console.say("the coordinator has ended it")
        return OK
    say(f"the server has ended by itself: see {layout.server / 'log.txt'}")
    return FAILED


def stop(options: argparse.Namespace) -> int:
    """End everything."""
    from drfl.sites.flare.handshake import answers
    from drfl.sites.flare.session import connect
    from drfl.sites.os_processes import wait_until

    layout = find_layout(options)
    with connect(layout) as session:
        sites = session.connected()
        session.shut_down()

    where = layout.coordinator / "startup", layout.project["host"], layout.project["port"]
    if not wait_until(lambda: not answers(*where), 30.0):
        say("the server was told to end, but still answers: end it by hand")
        return FAILED
    Console().say(f"ended: the server, {', '.join(sites) or 'no site'}")
    return OK


def check(options: argparse.Namespace) -> int:
    """Whether everything is ready."""
    from drfl.sites.setup.certificates import days_left
    from drfl.sites.setup.provision import findings, table

    layout, console, outcome = _looked(options, "check")
    found = findings(layout, outcome)
    console.say(*table(found))
    for whose, path in (
        ("server", layout.server / "startup" / "server.crt"),
        ("coordinator", layout.coordinator / "startup" / "client.crt"),
        ("authority", layout.authority.certificate),
    ):
        console.say(f"the certificate of the {whose} lasts {days_left(path):.0f} days")
    console.say(*outcome.get("agreement", []))
    for finding in found:
        console.record({"kind": "site", **asdict(finding)})
    good = outcome.get("exit") == OK and not any(finding.troubles for finding in found)
    if not good and outcome.get("sentence"):
        say(outcome["sentence"])
    return OK if good else FAILED


def inspect(options: argparse.Namespace) -> int:
    """Table 1 of the sites."""
    from drfl.sites.progress import MISSING

    _, console, outcome = _looked(options, "inspect")
    for site, why in outcome.get("missing", {}).items():
        console.warn(f"the table is without site {site!r}: {MISSING.get(why, why)}")
    if "table" not in outcome:
        say(outcome["sentence"])
        return int(outcome.get("exit", FAILED))
    console.say(*outcome["agreement"])
    for sentence in outcome["warnings"]:
        console.warn(sentence)
    for cell in outcome["table"]:
        console.record({"kind": "cell", **cell})
    return int(outcome["exit"])


def _looked(options: argparse.Namespace, kind: str) -> tuple[Any, Console, dict[str, Any]]:
    """The project, who is told, and what came of a job that only looks."""
    from drfl.sites.flare.watch import Watch

    layout, console = find_layout(options), Console(quiet=options.quiet, as_json=options.json)
    watch = Watch(layout, kind, console)
    outcome, _ = watched(watch)
    watch.clean()
    return layout, console, outcome


def run(options: argparse.Namespace) -> int:
    """Train over the sites."""
    from drfl.cli.summary import summary
    from drfl.models import read_model
    from drfl.report.evidence import read_records
    from drfl.sites.flare.watch import Watch
    from drfl.sites.progress import MISSING
    from drfl.training.run_folder import RunFolder

    layout = find_layout(options)
    console = Console(quiet=options.quiet, as_json=options.json)
    folder = RunFolder.new(options.out)
    watch = Watch(layout, "train", console, options.resume)
    outcome, found = watched(watch, resumable=True)
    if (found / "config.toml").exists():
        folder.take_over(found)
    watch.clean()
    for site, why in outcome.get("missing", {}).items():
        console.warn(f"the end is without site {site!r}: {MISSING.get(why, why)}")
    if not folder.model.exists():
        say(outcome["sentence"])
        return int(outcome.get("exit", FAILED))
    records = read_records(folder.records)
    console.say("", *summary(read_model(folder.model), records), "", f"written: {folder.model}")
    return int(outcome.get("exit", FAILED))


def watched(watch: Any, resumable: bool = False) -> tuple[dict[str, Any], Path]:
    """Carry a job out: what came of it, and where. An interruption ends it at the server, too."""
    try:
        ended: tuple[dict[str, Any], Path] = watch.go()
    except KeyboardInterrupt:
        watch.listener.clear()
        with suppress(ValueError):
            watch.abort()
        if not resumable:
            raise
        raise KeyboardInterrupt(
            "interrupted; the rounds done are kept at the server: continue with "
            f"`drfl sites run --resume {watch.run}`"
        ) from None
    watch.listener.clear()
    return ended
