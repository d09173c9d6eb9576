"""What has left a site, and what it has refused, by its own ledgers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def audit_lines(path: Path, *, every: bool) -> Iterator[str]:
    """The ledger for a reader.

    Parameters
    ----------
    path : Path
        Of the ledger.
    every : bool
        Every message, or a summary of each job.
    """
    entries = list(read_ledger(path))
    if every:
        yield from (_line(entry) for entry in entries)
        return
    jobs: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        jobs.setdefault(str(entry["job"]), []).append(entry)
    for job, told in jobs.items():
        yield f"job {job}: {told[0]['time']} to {told[-1]['time']}"
        kinds: dict[str, list[dict[str, Any]]] = {}
        for entry in told:
            kinds.setdefault(str(entry["kind"]), []).append(entry)
        for kind, same in kinds.items():
            size = sum(int(entry["bytes"]) for entry in same)
            yield f"  {len(same):5d} x {kind}, {size / 1000:.1f} kB: {_arrays(same[-1])}"
    yield f"{len(entries)} messages have left; each one: --all"


def refusal_lines(path: Path) -> Iterator[str]:
    """What was asked of a site in vain."""
    yield from map(refusal_line, read_ledger(path, REFUSAL))


def refusal_line(entry: dict[str, Any]) -> str:
    """One refusal in a sentence."""
    times = "" if entry["times"] == 1 else f", {entry['times']} times so far"
    return f"{entry['time']}  refused: {entry['what']} from {entry['origin']}{times}"


MESSAGE, REFUSAL = ("time", "job", "kind", "bytes"), ("time", "origin", "what", "times")
"""What every line of a ledger has, of messages and of refusals."""


def read_ledger(path: Path, keys: tuple[str, ...] = MESSAGE) -> Iterator[dict[str, Any]]:
    """Every line, in order; one that a crash cut off does not count: the message has not left."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            missing = [key for key in keys if key not in entry]
        except (ValueError, TypeError):
            if number == len(lines) and not line.endswith("\n"):
                return
            raise ValueError(f"{path}, line {number}: it is damaged") from None
        if missing:
            raise ValueError(f"{path}, line {number}: it has no {missing[0]}")
        yield entry


def _line(entry: dict[str, Any]) -> str:
    told = f"{entry['time']}  {entry['kind']}  round {entry.get('round', '-')}"
    return f"{told}  {entry['bytes']} bytes  {_arrays(entry)}"


def _arrays(entry: dict[str, Any]) -> str:
    """The names and sizes of what is in a message."""
    if "code" in entry:
        return f"code {entry['code']}"
    parts = []
    for name, array in entry.get("arrays", {}).items():
        shape = " x ".join(str(n) for n in array.get("shape", [])) or "1"
        parts.append(f"{name} ({'text' if 'text' in array else shape})")
    return ", ".join(parts) or "nothing but that"
