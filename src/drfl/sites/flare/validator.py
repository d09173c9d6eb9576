"""Which jobs a participant accepts: drfl's own, whoever asks.

FLARE's rights and its list of classes stand beside this (`drfl.sites.flare.startup_files`). They
trust the role that a certificate states, and FLARE knows a role that may do everything; this asks
for none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator

from drfl.sites.flare.job import CLIENT_CONFIG, server_config

SIGNATURES = (".__nvfl_sig.json", ".__nvfl_submitter.crt")
CLIENT, SERVER = "config_fed_client.json", "config_fed_server.json"


class OnlyDrfl(AppValidator):  # type: ignore[misc]
    """Refuse a job that holds anything but the two files of drfl's."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Look at the files; the first entry says what is wrong, or nothing."""
        folder = Path(app_folder)
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or not _known(inside, path.name):
                return f"drfl accepts its own job only, this one holds {inside[:80]!r}", {}
        client, server = folder / "config" / CLIENT, folder / "config" / SERVER
        if client.exists() and _content(client) != CLIENT_CONFIG:
            return "drfl accepts its own job only, this one has another client", {}
        if server.exists() and _content(server) != server_config(_order(_content(server))):
            return "drfl accepts its own job only, this one has another server", {}
        return "", {}


def _known(inside: str, name: str) -> bool:
    return inside in ("config", f"config/{CLIENT}", f"config/{SERVER}") or name in SIGNATURES


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None


def _order(config: Any) -> str:
    """The one argument that differs from job to job."""
    try:
        order = config["components"][0]["args"]["order"]
    except (KeyError, IndexError, TypeError):
        return ""
    return order if isinstance(order, str) else ""


def close_back_door() -> None:
    """FLARE lets a role called "super" do everything, for tests; here it may do nothing."""
    from nvflare.fuel.sec.authz import Authorizer

    usual = Authorizer.authorize

    def authorize(self: Any, ctx: Any) -> tuple[bool, str]:
        if getattr(getattr(ctx, "user", None), "role", "") == "super":
            return False, "this role may do nothing here"
        found: tuple[bool, str] = usual(self, ctx)
        return found

    Authorizer.authorize = authorize
