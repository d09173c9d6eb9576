"""A site's kit: a folder with its name, the server's address, and its certificate.

Every rule in the folder is written by the drfl that is installed at the site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drfl.files import write_json, write_text
from drfl.sites.certificates import write_private
from drfl.sites.hardening import LOGGING, authorization, site_resources
from drfl.sites.parcel import (
    CERTIFICATE,
    DESCRIPTION,
    KEY,
    ROOT,
    check_pair,
    contents_of,
    description_of,
)


@dataclass(frozen=True)
class Kit:
    """A kit that has been unpacked.

    Attributes
    ----------
    folder : Path
        Where.
    name, project, host, port
        Of the site, of what it takes part in, and of the server.
    """

    folder: Path
    name: str
    project: str
    host: str
    port: int

    @property
    def flare(self) -> Path:
        """The folder that FLARE works in."""
        return self.folder / "flare"

    @property
    def startup(self) -> Path:
        """Key and certificates."""
        return self.flare / "startup"

    @property
    def state(self) -> Path:
        """What the site remembers: its ledgers."""
        return self.folder / "state"

    @property
    def settings(self) -> Path:
        """The settings that the site's people write."""
        return self.folder / "site.toml"

    @classmethod
    def find(cls, folder: Path) -> Kit:
        """A kit that has been unpacked before."""
        try:
            text = (folder / DESCRIPTION).read_text(encoding="utf-8")
        except OSError:
            raise ValueError(
                f"{folder} is no kit, it has no {DESCRIPTION}: check the path"
            ) from None
        return cls(folder, **description_of(text, folder))

    @classmethod
    def open(cls, path: Path) -> Kit:
        """A kit from a ZIP file, which is unpacked beside it, or from its folder."""
        if path.is_dir():
            return cls.find(path)
        if not path.exists():
            raise ValueError(f"{path} does not exist: give the kit that the coordinator sent")
        contents = contents_of(path)
        described = description_of(contents[DESCRIPTION].decode(), path)
        kit = cls(path.with_suffix(""), **described)
        kit._unpack(contents, path)
        return kit

    def _unpack(self, contents: Mapping[str, bytes], path: Path) -> None:
        key = self.startup / KEY
        if KEY not in contents and not key.exists():
            raise ValueError(
                f"{path} holds no key, and there is none in {self.startup}: unpack it where "
                "`drfl sites request` made the key"
            )
        private = contents.get(KEY) or key.read_bytes()
        check_pair(contents[CERTIFICATE], private, self.name, path)
        self.startup.mkdir(parents=True, exist_ok=True)
        if not key.exists():
            write_private(key, private)
        for name in (ROOT, CERTIFICATE):
            (self.startup / name).write_bytes(contents[name])
        write_text(self.folder / DESCRIPTION, contents[DESCRIPTION].decode())

    def check(self) -> None:
        """Refuse a folder whose certificate is somebody else's."""
        certificate, private = ((self.startup / name).read_bytes() for name in (CERTIFICATE, KEY))
        check_pair(certificate, private, self.name, self.folder)

    def harden(self) -> None:
        """Write FLARE's settings, whatever was there before."""
        write_json(self.startup / "fed_client.json", self._client())
        local = self.flare / "local"
        write_json(local / "resources.json", site_resources())
        write_json(local / "authorization.json", authorization())
        write_json(local / "log_config.json", LOGGING)
        self.state.mkdir(parents=True, exist_ok=True)

    def _client(self) -> dict[str, Any]:
        return {
            "format_version": 2,
            "require_signed_jobs": True,
            "app_validator": {"path": "drfl.sites.refusal.OnlyDrfl", "args": {}},
            "servers": [
                {
                    "name": self.project,
                    "service": {"target": f"{self.host}:{self.port}", "scheme": "grpc"},
                    "identity": self.host,
                }
            ],
            "client": {
                "ssl_private_key": KEY,
                "ssl_cert": CERTIFICATE,
                "ssl_root_cert": ROOT,
                "fqsn": self.name,
                "is_leaf": True,
                "connection_security": "mtls",
            },
        }
