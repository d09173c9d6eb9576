"""A site's kit: a folder with its name, the server's address, and its certificate.

It is handed over as one ZIP file with three or four files of known names. Every rule in the folder
is written by the drfl that is installed at the site.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drfl import checks
from drfl.files import PRIVATE, write_bytes, write_text
from drfl.sites.flare.startup_files import write_site
from drfl.sites.setup.certificates import common_name, load_certificate
from drfl.sites.setup.project import HOST, NAME


@dataclass(frozen=True)
class Kit:
    """A kit that has been unpacked: whose it is, what the site takes part in, and the server."""

    folder: Path
    name: str
    project: str
    host: str
    port: int

    @property
    def flare(self) -> Path:
        """The folder that its process works in."""
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
        if not key.exists():
            write_bytes(key, private, mode=PRIVATE)
        for name in (ROOT, CERTIFICATE):
            write_bytes(self.startup / name, contents[name])
        write_text(self.folder / DESCRIPTION, contents[DESCRIPTION].decode())

    def check(self) -> None:
        """Refuse a folder whose certificate is somebody else's."""
        certificate, private = ((self.startup / name).read_bytes() for name in (CERTIFICATE, KEY))
        check_pair(certificate, private, self.name, self.folder)

    def harden(self) -> None:
        """Write the settings of its process, whatever was there before."""
        write_site(self.flare, self.name, self.project, self.host, self.port)
        self.state.mkdir(parents=True, exist_ok=True)


SCHEMA = 1
DESCRIPTION, ROOT, CERTIFICATE, KEY = "kit.json", "rootCA.pem", "client.crt", "client.key"
LARGEST = 100_000  # bytes of a file in a kit


def pack(path: Path, project: Mapping[str, Any], name: str, files: Mapping[str, bytes]) -> None:
    """Write the ZIP file of a site's kit: two certificates, and the key if it was made here."""
    described = {name: project[name] for name in ("project", "host", "port")}
    text = json.dumps({"schema": SCHEMA, "name": name, **described}, indent=1)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(DESCRIPTION, text + "\n")
        for file, content in files.items():
            archive.writestr(file, content)
    write_bytes(path, packed.getvalue(), mode=PRIVATE)


def contents_of(path: Path) -> dict[str, bytes]:
    """The files of a kit by name; nothing else in the archive is looked at."""
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in (DESCRIPTION, ROOT, CERTIFICATE, KEY):
                if name in archive.namelist():
                    with archive.open(name) as file:
                        found[name] = file.read(LARGEST)
    except (zipfile.BadZipFile, OSError):
        raise ValueError(f"{path} is no kit: ask the coordinator for another") from None
    missing = [name for name in (DESCRIPTION, ROOT, CERTIFICATE) if name not in found]
    if missing:
        raise ValueError(f"{path} is no kit, it lacks {missing[0]}: ask for another")
    return found


def description_of(text: str, path: Path) -> dict[str, Any]:
    """Read the file that says whose kit it is; every field is checked."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not checks.fits(data, FORM):
        raise ValueError(
            f"{path} is no kit of this version of drfl: ask the coordinator for another"
        )
    return {name: data[name] for name in ("name", "project", "host", "port")}


def _like(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


FORM = {
    "schema": lambda schema: schema == SCHEMA,
    "name": _like(NAME),
    "project": _like(NAME),
    "host": _like(HOST),
    "port": lambda port: type(port) is int and 0 < port < 65536,
}


def check_pair(certificate: bytes, private: bytes, name: str, path: Path) -> None:
    """Refuse a certificate of somebody else, or of another key."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        whose = load_certificate(certificate)
        key = load_pem_private_key(private, None)
    except (ValueError, TypeError):
        raise ValueError(f"{path}: the certificate or the key cannot be read") from None
    if common_name(whose) != name:
        raise ValueError(f"{path}: the certificate is that of {common_name(whose)!r}, not {name!r}")
    if whose.public_key() != key.public_key():
        raise ValueError(
            f"{path}: the certificate is not for the key of this site: send a new request"
        )
