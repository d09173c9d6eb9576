"""Orders and the folder of a job: what the coordinator submits."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drfl.files import write_json
from drfl.problem import to_json
from drfl.sites.job import CLIENT_CONFIG, server_config
from drfl.sites.order import SCHEMA
from drfl.sites.project import Project


def make_order(project: Project, kind: str, run: str, attempt: int = 0, **more: Any) -> str:
    """What the driver is asked to do, as JSON text.

    Parameters
    ----------
    project : Project
        The coordinator's.
    kind : str
        "train", "check", "evaluate" or "explain".
    run : str
        32 hexadecimal digits, the same for every attempt at one run.
    attempt : int
        How many went before.
    **more
        Further entries: ``model`` and ``options`` of an evaluation.
    """
    order = {
        "schema": SCHEMA,
        "version": version("drfl"),
        "kind": kind,
        "run": run,
        "attempt": attempt,
        "sites": list(project.sites),
        **{name: project[name] for name in ("quorum", "deadline", "silence", "patience")},
        "settings": project.settings.values,
        **more,
    }
    return json.dumps(to_json(order), allow_nan=False)


def write_job(folder: Path, name: str, order: str) -> Path:
    """Write the folder that is submitted."""
    meta = {
        "name": name,
        "resource_spec": {},
        "deploy_map": {"app": ["@ALL"]},
        # Who is missing is the driver's business: it stops at once below the quorum.
        "min_clients": 1,
    }
    write_json(folder / "meta.json", meta)
    config = folder / "app" / "config"
    write_json(config / "config_fed_server.json", server_config(order))
    write_json(config / "config_fed_client.json", CLIENT_CONFIG)
    return folder
