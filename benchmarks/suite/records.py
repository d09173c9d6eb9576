"""Records of a run, what is stored of them, and the table."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite.row import Line, Row, Skipped
from experiments.reproduce import cores

STORED = Path(__file__).with_name("stored.json")
LOSS = 0.25  # more than that against the stored value is a regression
PACKAGES = ("drfl", "numpy", "scipy", "scikit-learn", "piqp", "cvxpy", "clarabel", "highspy")
MORE_PACKAGES = ("dro", "osbdo", "psutil", "matplotlib")


def machine() -> dict[str, object]:
    """Where the numbers come from."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in (*PACKAGES, *MORE_PACKAGES)},
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_records(folder: Path) -> tuple[dict[str, Any], list[Line]]:
    """The machine, and the lines of the table."""
    text = (folder / "records.jsonl").read_text("utf-8")
    machine, *records = (json.loads(line) for line in text.splitlines())
    return machine, [_line(record) for record in records]


def _line(record: dict[str, Any]) -> Line:
    kind = record.pop("kind")
    record.pop("met", None)
    return Row(**record) if kind == "row" else Skipped(**record)


def merged(folder: Path, lines: Sequence[Line], sections: Sequence[str]) -> list[Line]:
    """These lines, and those of sections that were not run now but are in the folder already."""
    fresh = {line.section for line in lines}
    old = read_records(folder)[1] if (folder / "records.jsonl").exists() else []
    both = [*(line for line in old if line.section not in fresh), *lines]
    return sorted(both, key=lambda line: sections.index(line.section))


def write_records(folder: Path, lines: Sequence[Line]) -> Path:
    """One JSON line for the machine, and one for every line of the table."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "records.jsonl"
    records = [{"kind": "machine", **machine()}, *(line.record() for line in lines)]
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")
    return path


def stored() -> dict[str, float]:
    """The guarded values of the last run that was stored, by key."""
    values: dict[str, float] = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    return values


def store(rows: Iterable[Row]) -> None:
    """Take these values as those that later runs are compared with; others stay."""
    values = stored() | {row.key: float(f"{row.value:.4g}") for row in rows if row.guarded}
    STORED.write_text(
        json.dumps(dict(sorted(values.items())), indent=1, ensure_ascii=False) + "\n", "utf-8"
    )


def regressions(rows: Iterable[Row]) -> list[Row]:
    """The rows that are more than 25 % worse than what is stored."""
    known = stored()
    return [r for r in rows if r.guarded and r.key in known and r.loss(known[r.key]) > LOSS]


def table(lines: Sequence[Line]) -> list[str]:
    """The table in Markdown, by section, and what could not be run."""
    out = ["| | value | target | | measured |", "|---|---|---|---|---|"]
    section = ""
    for row in (line for line in lines if isinstance(line, Row)):
        if row.section != section:
            section = row.section
            out.append(f"| **{section}** | | | | |")
        verdict = ("met" if row.met else "**missed**") if row.target else ""
        out.append(
            f"| {row.name} | {number(row.value)} | {row.target} | {verdict} | {row.detail} |"
        )
    skipped = [line for line in lines if isinstance(line, Skipped)]
    out += ["", "Not run:", ""] if skipped else ["", "Everything that was asked for could be run."]
    out += [f"- {line.section}: {line.name}: {line.why}" for line in skipped]
    return out


def number(value: float) -> str:
    """Three digits, without exponents for what is met every day."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
