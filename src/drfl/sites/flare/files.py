"""The files that FLARE reads at its start: who is who, and where the server is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfl.files import write_json
from drfl.sites.flare.rules import (
    COORDINATOR,
    LOGGING,
    authorization,
    server_resources,
    site_resources,
)

VALIDATOR = {"path": "drfl.sites.flare.validator.OnlyDrfl", "args": {}}


def write_site(folder: Path, name: str, project: str, host: str, port: int) -> None:
    """Those of a site.

    Parameters
    ----------
    folder : Path
        That its process works in.
    name, project, host, port
        Of the site, of what it takes part in, and of the server.
    """
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
