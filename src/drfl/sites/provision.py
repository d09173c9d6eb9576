"""What the coordinator writes: authority, server, its own access, kits, the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drfl.files import write_json
from drfl.sites.certificates import Authority, common_name, days_left, load_certificate
from drfl.sites.hardening import COORDINATOR, LOGGING, ROLE, authorization, server_resources
from drfl.sites.parcel import CERTIFICATE, KEY, ROOT, pack
from drfl.sites.project import Project
from drfl.sites.submission import make_order, write_job


class Layout:
    """The folder of a project.

    Parameters
    ----------
    project : Project
        The coordinator's.
    """

    def __init__(self, project: Project) -> None:
        self.project, self.folder = project, project.folder
        self.authority = Authority(self.folder / "authority")
        self.server, self.coordinator = self.folder / "server", self.folder / "coordinator"
        self.state = self.folder / "state"
        self.checkpoints = self.state / "checkpoints"
        self.refused = self.state / "refused.jsonl"
        self.kits, self.job = self.folder / "kits", self.folder / "job"

    def kit(self, name: str) -> Path:
        """The ZIP file for a site."""
        return self.kits / f"{name}.zip"

    def issued(self, name: str) -> Path:
        """The last certificate that a site was given."""
        return self.authority.folder / "issued" / f"{name}.crt"

    def require(self) -> Layout:
        """Refuse a project that has not been set up."""
        if not self.authority.key.exists():
            raise ValueError(f"{self.folder} does not exist: run `drfl sites init` first")
        return self

    def create(self, *, with_kits: bool) -> list[str]:
        """Write everything; what exists is kept, so that kits stay valid.

        Parameters
        ----------
        with_kits : bool
            Whether kits with keys are made for the sites, to try it out.

        Returns
        -------
        list of str
            The sites that got a kit.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.authority.key.exists():
            self.authority.create(self.project["project"])
        self._certify()
        self.harden()
        write_job(self.job, self.project["project"], make_order(self.project, "train", "0" * 32))
        new = [name for name in self.project.sites if with_kits and not self.kit(name).exists()]
        for name in new:
            self._provision(name)
        return new

    def _certify(self) -> None:
        host, startup = self.project["host"], self.server / "startup"
        if not _lasts(startup / "server.crt", host):
            self.authority.issue(startup, "server", host, host=host)
        startup = self.coordinator / "startup"
        if not _lasts(startup / "client.crt", COORDINATOR):
            self.authority.issue(startup, "client", COORDINATOR, role=ROLE)

    def _provision(self, name: str) -> None:
        from drfl.sites.certificates import key_text, new_key

        key = new_key()
        certificate = self.authority.sign(name, key.public_key())
        self.hand_over(name, certificate, {KEY: key_text(key)})

    def hand_over(self, name: str, certificate: bytes, more: dict[str, bytes]) -> Path:
        """Write the kit of a site, and keep its certificate to see when it ends."""
        self.issued(name).parent.mkdir(parents=True, exist_ok=True)
        self.issued(name).write_bytes(certificate)
        root = self.authority.certificate.read_bytes()
        files = {ROOT: root, CERTIFICATE: certificate, **more}
        pack(self.kit(name), self.project.values, name, files)
        return self.kit(name)

    def harden(self) -> None:
        """Write FLARE's settings of server and coordinator, whatever was there before."""
        write_json(self.server / "startup" / "fed_server.json", self._server())
        write_json(self.server / "local" / "resources.json", server_resources(self.state))
        write_json(self.server / "local" / "authorization.json", authorization())
        write_json(self.server / "local" / "log_config.json", LOGGING)
        write_json(self.coordinator / "startup" / "fed_admin.json", self._admin())
        write_json(self.coordinator / "local" / "resources.json", ADMIN_RESOURCES)
        self.checkpoints.mkdir(parents=True, exist_ok=True)

    def _server(self) -> dict[str, Any]:
        host, port = self.project["host"], self.project["port"]
        return {
            "format_version": 2,
            "require_signed_jobs": True,
            "app_validator": {"path": "drfl.sites.refusal.OnlyDrfl", "args": {}},
            "servers": [
                {
                    "name": self.project["project"],
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

    def _admin(self) -> dict[str, Any]:
        host, port = self.project["host"], self.project["port"]
        return {
            "format_version": 1,
            "admin": {
                "project_name": self.project["project"],
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

RENEWED = 30
"""A certificate that lasts fewer days is made again."""


def _lasts(path: Path, name: str) -> bool:
    if not path.exists():
        return False
    return common_name(load_certificate(path.read_bytes())) == name and days_left(path) > RENEWED
