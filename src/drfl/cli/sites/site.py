"""What `drfl sites` does at a site."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from drfl.cli.console import Console
from drfl.cli.main import FAILED, OK, say, show


def request(options: argparse.Namespace) -> None:
    """Make a key and a request."""
    from drfl.sites.setup.certificates import make_request

    path, fingerprint = make_request(options.name, Path())
    Console().say(
        f"send {path} to the coordinator; the key stays in {options.name}",
        f"fingerprint, for the telephone: {fingerprint}",
        f"save the kit that comes back as {options.name}.zip, then: "
        f"drfl sites join {options.name}.zip --data FILE",
    )


def join(options: argparse.Namespace) -> int:
    """Take part."""
    from drfl.sites.flare.serving import join as take_part
    from drfl.sites.setup.kit import Kit

    console = Console()
    kit = Kit.open(options.kit)
    how = {"wait": options.wait, "without_guard": options.without_guard}
    if take_part(kit, options.data, console, ask, **how):
        console.say("the coordinator has ended it")
        return OK
    say(f"the process of FLARE has ended by itself: see {kit.flare / 'log.txt'}")
    return FAILED


def ask(message: dict[str, Any]) -> bool:
    """Show the first message of a kind to a person."""
    first = f"A message of kind {message.get('kind')!r} is about to leave, the first of this kind:"
    show(["", first, *json.dumps(message, indent=1, ensure_ascii=False).splitlines()])
    if not sys.stdin.isatty():
        print("approve = true needs a terminal: it is refused")
        return False
    return input("May messages of this kind leave? [yes/no] ").strip().lower() in ("y", "yes")


def audit(options: argparse.Namespace) -> None:
    """Print what has left, and what was refused."""
    from drfl.sites.setup.kit import Kit
    from drfl.sites.site_log import audit_lines, refusal_lines

    state = Kit.find(options.kit).state
    show(audit_lines(state / "messages.jsonl", every=options.all))
    show(refusal_lines(state / "refused.jsonl"))
