"""What a site keeps to itself: where its data are, and what may leave. Never sent to anyone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drfl import checks
from drfl._registry import listed, lookup
from drfl.client import Policy
from drfl.files import write_text
from drfl.privacy.dp import DifferentialPrivacy
from drfl.training import fields as read
from drfl.training.fields import Read, Setting
from drfl.training.settings import read_toml, toml_value

if TYPE_CHECKING:
    from drfl.sites.setup.kit import Kit

DP = "dp"
WITHOUT_GUARD = "WITHOUT A GUARD: what leaves is exact, and some rows can be worked out from it"


@dataclass(frozen=True)
class SiteSettings:
    """The settings of one site, in the file ``site.toml`` of its kit."""

    name: str  # of the site, as its certificate says
    data: Path  # the file with its rows
    # the name that all have agreed upon -> the name in the file, where they differ
    columns: dict[str, str] = field(default_factory=dict)
    curvature: bool = True  # whether curvature matrices may leave
    guard: int | None = 5  # k of the disclosure control (`drfl.privacy.Guard`); None: no control
    privacy: DifferentialPrivacy | None = None  # the promise of a site with ``guard = "dp"``
    # what a question may be about; None: everything. See `drfl.client.Policy`
    allow_columns: frozenset[str] | None = None
    allow_targets: frozenset[str] | None = None
    allow_losses: frozenset[str] | None = None
    approve: bool = False  # whether a person sees each kind of message before the first one leaves
    time_limit: float = 60.0  # seconds that one computation may take
    memory_limit: int | None = None  # megabytes that the computation may take
    state: Path = Path("state")  # the folder of what the site remembers

    @property
    def is_exact(self) -> bool:
        """Whether what leaves is neither guarded nor noisy."""
        return self.guard is None and self.privacy is None

    @property
    def policy(self) -> Policy:
        """What leaves, and what a question may be about."""
        names = ("curvature", "allow_columns", "allow_targets", "allow_losses")
        return Policy(**{name: getattr(self, name) for name in names})

    def describe(self) -> list[str]:
        """What the site answers, in lines for the people there."""
        lines = [f"guard: k = {self.guard}" if self.guard else WITHOUT_GUARD]
        lines = lines if self.privacy is None else [self.privacy.line]
        for what in ("columns", "targets", "losses"):
            allowed = getattr(self, f"allow_{what}")
            lines.append(f"{what} allowed: {'all' if allowed is None else listed(sorted(allowed))}")
        return lines

    @property
    def ledger(self) -> Path:
        """Every message that has left, one JSON object per line."""
        return self.state / "messages.jsonl"

    @property
    def refused(self) -> Path:
        """What was asked in vain, one JSON object per line."""
        return self.state / "refused.jsonl"

    @property
    def guard_ledger(self) -> Path:
        """What the guard remembers."""
        return self.state / "guard.ledger"

    @property
    def approvals(self) -> Path:
        """Questions to a person, and the answers."""
        return self.state / "approvals"


def seconds(name: str, value: Any) -> float:
    """A time."""
    return checks.number(name, read.number(name, value), above=0.0, below=1e9)


def at_least(least: int, most: int | None = None) -> Read:
    """A whole number that is not below this."""

    def checked(name: str, value: Any) -> int:
        return checks.whole(name, read.whole(name, value), least=least, most=most)

    return checked


def _guard(name: str, value: Any) -> int | str | None:
    if value == DP:
        return DP
    k = at_least(0)(name, value)
    if k == 1:
        raise ValueError(f"{name} must be 0, for none, or at least 2, got 1")
    return k or None


def _names(name: str, value: Any) -> frozenset[str]:
    found = frozenset(read.texts(name, value))
    if not found:
        raise ValueError(f"{name} allows nothing: name something, or leave it out to allow all")
    return found


def _losses(name: str, value: Any) -> frozenset[str]:
    from drfl.differentiable import ROW_LOSSES
    from drfl.losses import LOSSES

    for loss in (found := _names(name, value)):
        lookup("loss", loss, {**LOSSES, **ROW_LOSSES})
    return found


def _columns(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError(f'{name} must give names in the file, like [columns] age = "AGE_YEARS"')
    doubled = [v for v in value.values() if list(value.values()).count(v) > 1]
    if doubled:
        raise ValueError(f"{name} uses {doubled[0]!r} of the file twice: give it one name")
    return dict(value)


SITE: dict[str, Setting] = {
    "data": Setting(None, read.text, "the file with the rows"),
    "curvature": Setting(True, read.flag, "whether curvature matrices may leave"),
    "guard": Setting(5, _guard, "k of the disclosure control; dp: noise instead; 0: none"),
    "epsilon": Setting(
        None, read.number, "with guard = dp: what the site tells in all jobs at most"
    ),
    "delta": Setting(1e-6, read.number, "with guard = dp: how surely"),
    "norm": Setting(1.0, read.number, "with guard = dp: bound of rows in units of half the ranges"),
    "allow_columns": Setting(None, _names, "the columns that may be used, by agreed name; all"),
    "allow_targets": Setting(None, _names, "the columns that may be predicted; all"),
    "allow_losses": Setting(None, _losses, "the losses that may be asked for; all"),
    "approve": Setting(False, read.flag, "show each kind of message before the first one leaves"),
    "time_limit": Setting(60.0, seconds, "seconds that one computation may take"),
    "memory_limit": Setting(None, at_least(64), "megabytes that a computation may take"),
    "columns": Setting({}, _columns, "agreed name = name in the file, where they differ"),
}
"""Every setting of a site's own file."""


def read_site_settings(path: Path) -> SiteSettings:
    """Read a site's own file, somewhere in the folder of its kit."""
    from drfl.sites.setup.kit import DESCRIPTION, Kit

    above = [folder for folder in path.resolve().parents if (folder / DESCRIPTION).exists()]
    kit = Kit.find(above[0] if above else path.resolve().parent)
    data = read_toml(path, f"join with `drfl sites join {kit.folder} --data FILE`")
    return site_settings(data, path, kit.name, kit.state)


def site_settings(data: Mapping[str, Any], path: Path, name: str, state: Path) -> SiteSettings:
    """Check what a file says; a path in it is relative to the folder of the file."""
    values = read.read_values("setting of a site", SITE, data)
    if "data" not in values:
        raise ValueError(f"{path} names no data: give --data FILE")
    values["data"] = path.resolve().parent / values["data"]
    if not values["data"].is_file():
        raise ValueError(f"the data of this site, {values['data']}, do not exist: check the path")
    promise = {key: values.pop(key) for key in ("epsilon", "delta", "norm") if key in values}
    if values.get("guard") == DP:
        if "epsilon" not in promise:
            raise ValueError(f'{path}: guard = "dp" needs an epsilon: 1, say')
        ledger = state / "privacy.ledger"
        values |= {"guard": None, "privacy": DifferentialPrivacy(**promise, ledger=ledger)}
    elif promise:
        raise ValueError(f'{path}: {next(iter(promise))} is for guard = "dp": leave it out')
    return SiteSettings(name=name, state=state, **values)


def own_settings(kit: Kit, data: Path | None) -> tuple[SiteSettings, Path]:
    """The site's settings, and the file that the processes of jobs read them from."""
    if not kit.settings.exists():
        write_text(kit.settings, _template())
    given = read_toml(kit.settings, "it was there a moment ago")
    if data is not None:
        given["data"] = str(data.resolve())
    settings = site_settings(given, kit.settings, kit.name, kit.state)
    if "data" in given:
        given["data"] = str(settings.data.resolve())
    path = kit.state.resolve() / "site.toml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [f"{name} = {toml_value(value)}" for name, value in given.items()]
    write_text(path, "\n".join(lines) + "\n")
    return settings, path


def _template() -> str:
    """The settings of a site as they are if nobody changes them."""
    lines = ["# What this site decides for itself. It is never sent to anyone.", ""]
    for name, setting in SITE.items():
        if name == "columns":
            lines += [f"# [columns]  # {setting.help}", '# age = "AGE_YEARS"']
        elif setting.default is None:
            lines.append(f"# {name} =  # {setting.help}")
        else:
            lines.append(f"# {name} = {toml_value(setting.default)}  # {setting.help}")
    return "\n".join(lines) + "\n"


def require_meant(settings: SiteSettings, path: Path, without_guard: bool) -> None:
    """That nothing controls what is disclosed must be said twice: in the settings, and here."""
    if settings.is_exact != without_guard:
        raise ValueError(
            f"{path} says guard = 0: what leaves would be exact; if that is meant, join "
            "with --without-guard"
            if settings.is_exact
            else f"--without-guard is for guard = 0, and {path} has a guard: change one"
        )
