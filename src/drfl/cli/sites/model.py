"""A model at the sites: how good it is there, and what the adversary would do."""

from __future__ import annotations

import argparse
import json
from typing import Any

from drfl.cli.console import Console
from drfl.cli.main import FAILED, OK, printable, say
from drfl.cli.sites.coordinator import find_layout, watched


def evaluate(options: argparse.Namespace) -> int:
    """Ask every site for its metrics."""
    from drfl.cli.evaluate import noise_levels, table

    levels = noise_levels(options.noise, options.repeats)
    asked = {"noise": levels, "repeats": options.repeats, "seed": options.seed}
    result, code = _answers("evaluate", options, asked)
    found = [
        {"site": site, "noise": level} | values
        for site, entries in (result or {}).items()
        for level, values in zip(levels, entries, strict=True)
    ]
    _print(found, options.json, table)
    return code


def explain(options: argparse.Namespace) -> int:
    """Ask every site for its worst case; nothing of single rows leaves it."""
    result, code = _answers("explain", options, {})
    _print(result or [], options.json, _explained)
    return code


def _answers(kind: str, options: argparse.Namespace, asked: dict[str, Any]) -> tuple[Any, int]:
    """What the sites say, and the exit code."""
    from drfl.models import read_model
    from drfl.models.plain import to_plain
    from drfl.sites.watch import Watch

    console = Console(quiet=options.quiet, as_json=options.json)
    model = to_plain(read_model(options.model))
    watch = Watch(find_layout(options), kind, console, model=model, options=asked)
    outcome, folder = watched(watch)
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except OSError:
        say(outcome.get("sentence") or "the sites did not answer")
        return None, int(outcome.get("exit", FAILED)) or FAILED
    finally:
        watch.clean()
    return result, int(outcome.get("exit", OK))


def _print(found: list[dict[str, Any]], as_json: bool, table: Any) -> None:
    if as_json:
        for entry in found:
            print(json.dumps(entry, allow_nan=False))
    elif found:
        for line in table(found):
            print(printable(line))


def _explained(found: list[dict[str, Any]]) -> list[str]:
    width = max(len("site"), *(len(entry["client"]) for entry in found))
    lines = [
        f"{'site':{width}}  {'weight':>7}  {'loss':>9}  {'worst loss':>10}  "
        f"{'labels changed':>14}  {'features moved':>14}  {'per radius':>10}"
    ]
    lines += [
        f"{entry['client']:{width}}  {entry['weight']:>7.4f}  {entry['loss']:>9.5g}  "
        f"{entry['worst_loss']:>10.5g}  {entry['labels_changed']:>14.2%}  "
        f"{entry['features_moved']:>14.4g}  {entry['price']:>10.4g}"
        for entry in found
    ]
    for entry in found:
        carried = [f"{name} {share:.0%}" for name, share in list(entry["carriers"].items())[:8]]
        said = ", ".join(carried) or "no feature"
        lines.append(f"{entry['client']}: the risk is carried by {said}")
    return lines
