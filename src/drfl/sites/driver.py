"""What the server does with an order, in the job process of FLARE."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from drfl.files import write_json
from drfl.problem import to_json
from drfl.sites.bulletin import Bulletin
from drfl.sites.engine import SILENT, QuorumError, SitesEngine
from drfl.sites.link import Call, Link
from drfl.sites.order import PROGRESS, SCHEMA, Order, read_order
from drfl.sites.work import FAILED, Work, note_silent

STATE = "DRFL_SITES_STATE"
"""The environment variable with the path of the server's own folder."""

LAST_WORDS = 3.0
"""Seconds that the coordinator has to hear the end of the story."""

Publish = Callable[[str, Callable[[dict[str, Any]], dict[str, Any]]], None]


def drive(text: str, present: Iterable[str], call: Call, results: Path, publish: Publish) -> None:
    """Carry an order out, and write down what came of it.

    Parameters
    ----------
    text : str
        The order.
    present : iterable of str
        The sites that take part in the job.
    call : callable
        How a site is called.
    results : Path
        The folder that the coordinator fetches.
    publish : callable
        Makes a function an application command.
    """
    bulletin, missing, run = Bulletin(), dict[str, str](), results / "RUN"
    publish(PROGRESS, bulletin.since)
    facts: dict[str, Any] = {"status": "failed", "exit": FAILED}
    try:
        order = read_order(text)
        facts["kind"] = order.kind
        state = Path(os.environ[STATE]) / order.run

        def lose(site: str, why: str) -> None:
            missing[site] = why
            bulletin.missing(site, why)
            if why == SILENT:
                note_silent(state, site)

        engine = _engine(order, present, call, lose)
        bulletin.phase = "working"
        facts |= Work(order, engine, bulletin, run, state).done()
    except QuorumError as error:
        bulletin.warn(str(error))
        facts |= {"status": "quorum", "sentence": str(error)}
    except (ValueError, RuntimeError) as error:
        facts |= {"sentence": str(error)}
    outcome = {"schema": SCHEMA, **facts, "missing": missing, "resubmit": bool(missing)}
    write_json(run / "outcome.json", to_json(outcome))
    bulletin.end("failed" if facts["exit"] == FAILED else "done", LAST_WORDS)


def _engine(
    order: Order, present: Iterable[str], call: Call, lose: Callable[[str, str], object]
) -> SitesEngine:
    return SitesEngine(
        Link(call, order.silence, order.patience),
        order.sites,
        present,
        quorum=order.quorum,
        deadline=order.deadline,
        lose=lose,
    )
