"""The settings files of FLARE, as strict as the work allows.

Each participant writes its own, with the drfl that is installed there, whenever it starts: what a
kit brings along is a name, an address and a certificate, never a rule.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

COORDINATOR = "coordinator@drfl.local"
ROLE = "project_admin"

RUNTIME = {
    "controller": "nvflare.collab.runtime.controller.CollabController",
    "executor": "nvflare.collab.runtime.executor.CollabExecutor",
    "server": "drfl.sites.flare.app.ServerApp",
    "site": "drfl.sites.flare.app.SiteApp",
}
"""Every class that a job may name."""

HEART_BEAT_TIMEOUT = 25
"""Seconds after which a server forgets a site that sends no heartbeat; it sends one every 10."""

OUTCOME_WAIT = 8
"""Seconds that a server waits for the last words of a site when a job ends."""


def authorization() -> dict[str, Any]:
    """Who may do what: the coordinator submits and stops jobs, nobody sends code or commands."""
    nothing = dict.fromkeys((*NEVER, *COORDINATORS), "none")
    roles = dict.fromkeys(OTHER_ROLES, nothing)
    coordinator = {**nothing, **dict.fromkeys(COORDINATORS, "any")}
    return {"format_version": "1.0", "permissions": {ROLE: coordinator, **roles}}


COORDINATORS = ("submit_job", "manage_job", "download_job", "view", "app_command", "shutdown")
"""What the coordinator may do; progress of a job is an application command."""

NEVER = (
    "byoc",
    "shell_commands",
    "operate",
    "clone_job",
    "configure_job_log",
    "configure_site_log",
    "server-predeployed-flwr",
)
"""What nobody may do: FLARE's rights, and its categories of them."""

OTHER_ROLES = ("org_admin", "lead", "member")


def _allowed(*roles: str) -> dict[str, Any]:
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [RUNTIME[role] for role in roles],
        "allow_log_streaming": False,
    }


def server_resources(state: Path) -> dict[str, Any]:
    """The server's; jobs and snapshots are kept in its own folder, not in the temporary one."""
    files = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {
        **_allowed("controller", "server"),
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 100,
                "heart_beat_timeout": HEART_BEAT_TIMEOUT,
                "download_job_url": "http://localhost/",
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor"
            ".StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {
                    "path": files,
                    "args": {"root_dir": str(state / "snapshots"), "uri_root": "/"},
                },
            },
        },
        "components": [
            _component(
                "job_scheduler",
                "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                max_jobs=1,
                min_schedule_interval=1.0,
                max_schedule_interval=5.0,
            ),
            _component(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root=str(state / "jobs"),
                job_store_id="job_store",
            ),
            _component("job_store", files),
            _component(
                "process_launcher",
                "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher",
            ),
        ],
    }


def site_resources() -> dict[str, Any]:
    """A site's: it starts processes for jobs, and streams no log."""
    gpu = "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager"
    return {
        **_allowed("executor", "site"),
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            _component("resource_manager", gpu, num_of_gpus=0, mem_per_gpu_in_GiB=0),
            _component(
                "resource_consumer",
                "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
            ),
            _component("process_launcher", "drfl.sites.flare.launcher.JobLauncher"),
        ],
    }


def _component(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "baseFormatter": {
            "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
            "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
        }
    },
    "handlers": {
        "logFileHandler": {
            "class": "logging.handlers.RotatingFileHandler",
            "level": "INFO",
            "formatter": "baseFormatter",
            "filename": "log.txt",
            "mode": "a",
            "maxBytes": 20_000_000,
            "backupCount": 3,
        }
    },
    "loggers": {"root": {"level": "INFO", "handlers": ["logFileHandler"]}},
}
"""What FLARE writes down, beside its own files and to nobody."""
