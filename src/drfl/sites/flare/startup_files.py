"""The files that FLARE reads at its start, as strict as the work allows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfl.files import write_json

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

OUTCOME_WAIT = 8  # seconds that a server waits for the last words of a site when a job ends


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


VALIDATOR = {"path": "drfl.sites.flare.validator.OnlyDrfl", "args": {}}


def write_site(folder: Path, name: str, project: str, host: str, port: int) -> None:
    """Those of a site, in the folder that its process works in."""
    write_json(folder / "startup" / "fed_client.json", _site(name, project, host, port))
    _write_rules(folder / "local", site_resources())


def write_server(folder: Path, project: Mapping[str, Any], state: Path) -> None:
    """Those of the server; jobs are kept in the folder ``state``."""
    write_json(folder / "startup" / "fed_server.json", _server(project))
    _write_rules(folder / "local", server_resources(state))


def write_coordinator(folder: Path, project: Mapping[str, Any]) -> None:
    """Those of the coordinator's own access."""
    write_json(folder / "startup" / "fed_admin.json", _coordinator(project))
    write_json(folder / "local" / "resources.json", ADMIN_RESOURCES)


def _write_rules(local: Path, resources: dict[str, Any]) -> None:
    write_json(local / "resources.json", resources)
    write_json(local / "authorization.json", authorization())
    write_json(local / "log_config.json", LOGGING)


def _site(name: str, project: str, host: str, port: int) -> dict[str, Any]:
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "app_validator": VALIDATOR,
        "servers": [
            {
                "name": project,
                "service": {"target": f"{host}:{port}", "scheme": "grpc"},
                "identity": host,
            }
        ],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": name,
            "is_leaf": True,
            "connection_security": "mtls",
        },
    }


def _server(project: Mapping[str, Any]) -> dict[str, Any]:
    host, port = project["host"], project["port"]
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "app_validator": VALIDATOR,
        "servers": [
            {
                "name": project["project"],
                "service": {"target": f"{host}:{port}", "scheme": "grpc"},
                "admin_server": host,
                "admin_port": port,
                "ssl_private_key": "server.key",
                "ssl_cert": "server.crt",
                "ssl_root_cert": "rootCA.pem",
                "connection_security": "mtls",
            }
        ],
    }


def _coordinator(project: Mapping[str, Any]) -> dict[str, Any]:
    host, port = project["host"], project["port"]
    return {
        "format_version": 1,
        "admin": {
            "project_name": project["project"],
            "username": COORDINATOR,
            "server_identity": host,
            "scheme": "grpc",
            "host": host,
            "port": port,
            "connection_security": "mtls",
            "uid_source": "user_input",
            "with_file_transfer": True,
            "upload_dir": "transfer",
            "download_dir": "transfer",
            "client_key": "client.key",
            "client_cert": "client.crt",
            "ca_cert": "rootCA.pem",
        },
    }


ADMIN_RESOURCES = {
    "format_version": 1,
    "admin": {
        "idle_timeout": 900.0,
        "login_timeout": 10.0,
        "with_debug": False,
        "authenticate_msg_timeout": 2.0,
        "prompt": "> ",
    },
}
