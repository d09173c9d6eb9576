"""What the coordinator writes, and whether all of it and everyone is ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drfl.aligned import aligned
from drfl.files import write_bytes
from drfl.sites.flare.job import write_job
from drfl.sites.flare.startup_files import COORDINATOR, ROLE, write_coordinator, write_server
from drfl.sites.order import SCHEMA, make_order
from drfl.sites.setup.certificates import (
    Authority,
    common_name,
    days_left,
    fingerprint,
    key_text,
    load_certificate,
    new_key,
    read_request,
)
from drfl.sites.setup.kit import CERTIFICATE, KEY, ROOT, pack
from drfl.sites.setup.project import Project


class ProjectFolder:
    """The folder of a coordinator's project."""

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

    def require(self) -> ProjectFolder:
        """Refuse a project that has not been set up."""
        if not self.authority.key.exists():
            raise ValueError(f"{self.folder} does not exist: run `drfl sites init` first")
        return self

    def create(self, *, with_kits: bool) -> list[str]:
        """Write everything; what exists is kept, so that kits stay valid.

        To try it out kits with keys can be made for the sites; those that got one are returned.
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
        key = new_key()
        certificate = self.authority.sign(name, key.public_key())
        self.hand_over(name, certificate, {KEY: key_text(key)})

    def hand_over(self, name: str, certificate: bytes, more: dict[str, bytes]) -> Path:
        """Write the kit of a site, and keep its certificate to see when it ends."""
        write_bytes(self.issued(name), certificate)
        root = self.authority.certificate.read_bytes()
        files = {ROOT: root, CERTIFICATE: certificate, **more}
        pack(self.kit(name), self.project.values, name, files)
        return self.kit(name)

    def harden(self) -> None:
        """Write the settings of server and coordinator, whatever was there before."""
        write_server(self.server, self.project.values, self.state)
        write_coordinator(self.coordinator, self.project.values)
        self.checkpoints.mkdir(parents=True, exist_ok=True)


RENEWED = 30  # a certificate that lasts fewer days is made again


def _lasts(path: Path, name: str) -> bool:
    if not path.exists():
        return False
    return common_name(load_certificate(path.read_bytes())) == name and days_left(path) > RENEWED


def approve_request(layout: ProjectFolder, path: Path) -> tuple[str, Path, str]:
    """Sign a request; the names of the site and of its kit, and the fingerprint of its key."""
    request = read_request(path)
    name = common_name(request)
    if name not in layout.project.sites:
        raise ValueError(f"{path} is a request of {name!r}, which is none of the project's sites")
    certificate = layout.authority.sign(name, request.public_key())
    return name, layout.hand_over(name, certificate, {}), fingerprint(request.public_key())


SOON = 30  # days before its end from which a certificate is worth a word


@dataclass(frozen=True)
class Finding:
    """What is known of one site: whether it answers, what it told, and what stands in the way.

    ``days`` is how long its certificate lasts, None if none was signed here; ``guard`` is 0 for
    none.
    """

    name: str
    there: bool
    version: str
    rows: int | None
    guard: int | None
    days: float | None
    troubles: tuple[str, ...]


def findings(layout: ProjectFolder, outcome: dict[str, Any]) -> list[Finding]:
    """One for every site, from the outcome of a job of kind "check"."""
    told: dict[str, Any] = outcome.get("sites", {})
    missing: dict[str, str] = outcome.get("missing", {})
    return [_finding(layout, name, told.get(name), missing) for name in layout.project.sites]


def _finding(layout: ProjectFolder, name: str, told: Any, missing: dict[str, str]) -> Finding:
    path = layout.issued(name)
    days = days_left(path) if path.exists() else None
    facts: dict[str, Any] = told if isinstance(told, dict) else {}
    there = bool(facts) and name not in missing
    theirs, rows = str(facts.get("version", "")), facts.get("rows")
    troubles = [] if there else ["it does not answer"]
    if there:
        troubles += _differences(theirs, facts.get("schema"))
        if facts.get("sentence"):
            troubles.append(str(facts["sentence"]))
    if isinstance(rows, int) and rows < layout.project["least_rows"]:
        troubles.append(f"it has fewer than {layout.project['least_rows']} rows")
    if days is not None and days < SOON:
        troubles.append("its certificate ends soon" if days > 0.0 else "its certificate has ended")
    guard = facts.get("guard")
    rows, guard = (value if isinstance(value, int) else None for value in (rows, guard))
    return Finding(name, there, theirs, rows, guard, days, tuple(troubles))


def _differences(theirs: str, schema: Any) -> list[str]:
    found, ours = [], version("drfl")
    if theirs != ours:
        found.append(f"its drfl is {theirs}, the coordinator's {ours}")
    if schema != SCHEMA:
        found.append(f"its messages are of schema {schema}, the coordinator's of {SCHEMA}")
    return found


def table(found: Sequence[Finding]) -> list[str]:
    """The findings for a reader."""
    rows = [["site", "answers", "drfl", "rows", "guard", "certificate"]]
    for finding in found:
        answers, theirs = "yes" if finding.there else "no", finding.version or "-"
        count = "-" if finding.rows is None else str(finding.rows)
        guard = {None: "-", 0: "NONE", -1: "dp"}.get(finding.guard, f"k = {finding.guard}")
        days = "unknown" if finding.days is None else f"{finding.days:.0f} days"
        rows.append([finding.name, answers, theirs, count, guard, days])
    troubles = [f"{finding.name}: {text}" for finding in found for text in finding.troubles]
    return [*aligned(rows, [0, 0, 8, 7, 5], texts=(0, 1, 4, 5)), *troubles]
