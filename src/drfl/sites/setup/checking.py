"""Whether a project is ready: who is there, of which version, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from drfl.sites.order import SCHEMA
from drfl.sites.setup.certificates import days_left
from drfl.sites.setup.provision import ProjectFolder

SOON = 30
"""Days before its end from which a certificate is worth a word."""


@dataclass(frozen=True)
class Finding:
    """What is known of one site.

    Attributes
    ----------
    name : str
        Of the site.
    there : bool
        Whether it answers.
    version : str
        Of its drfl.
    rows : int or None
        How many it has, if it told.
    guard : int or None
        k of its guard, 0 for none, if it told.
    days : float or None
        How long its certificate lasts; None if none was signed here.
    troubles : tuple of str
        What stands in the way.
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
    width = max(len("site"), *(len(finding.name) for finding in found))
    lines = [f"{'site':{width}}  answers  {'drfl':>8}  {'rows':>7}  {'guard':5}  certificate"]
    for finding in found:
        rows = "-" if finding.rows is None else str(finding.rows)
        days = "unknown" if finding.days is None else f"{finding.days:.0f} days"
        guard = {None: "-", 0: "NONE", -1: "dp"}.get(finding.guard, f"k = {finding.guard}")
        answers = "yes" if finding.there else "no"
        lines.append(
            f"{finding.name:{width}}  {answers:7}  {finding.version or '-':>8}  {rows:>7}  "
            f"{guard:5}  {days}"
        )
    for finding in found:
        lines += [f"{finding.name}: {trouble}" for trouble in finding.troubles]
    return lines
