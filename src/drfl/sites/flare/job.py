"""The job: two files that name installed classes. It ships no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drfl.files import write_json
from drfl.sites.flare.startup_files import RUNTIME

SYNC_TASK_TIMEOUT = 60
CALL_THREADS = 100
TASK_INTERVAL = 0.5
"""Seconds between a site's questions for a task: two have to come before the work begins."""

CLIENT_CONFIG: dict[str, Any] = {
    "format_version": 2,
    # Otherwise every array is a transaction of its own.
    "np_download_chunk_size": 0,
    "executors": [
        {
            "tasks": ["*"],
            "executor": {
                "id": "executor",
                "path": RUNTIME["executor"],
                "args": {"client_obj_id": "_client"},
            },
        }
    ],
    "components": [{"id": "_client", "path": RUNTIME["site"], "args": {}}],
}
"""What a site is told to run: always the same, nothing in it is the job's to choose."""


def server_config(order: str) -> dict[str, Any]:
    """What the server runs; the order is its only argument."""
    return {
        "format_version": 2,
        "np_download_chunk_size": 0,
        "server": {"task_request_interval": TASK_INTERVAL},
        "workflows": [
            {
                "id": "controller",
                "path": RUNTIME["controller"],
                "args": {
                    "server_obj_id": "_server",
                    "sync_task_timeout": SYNC_TASK_TIMEOUT,
                    "max_call_threads": CALL_THREADS,
                },
            }
        ],
        "components": [{"id": "_server", "path": RUNTIME["server"], "args": {"order": order}}],
    }


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
