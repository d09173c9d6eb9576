"""A model at the sites: how good it is there, what the adversary would do, calibration."""

from __future__ import annotations

import argparse
import json
from functools import partial
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
        for site, entries in (result or {"metrics": {}})["metrics"].items()
        for level, values in zip(levels, entries, strict=True)
    ]
    _print(found, options.json, table)
    judged = [{"rows_of": n, **f} for n, f in (result or {}).get("probabilities", {}).items()]
    _print(judged, options.json, _judged)
    return code


def _judged(found: list[dict[str, Any]]) -> list[str]:
    """How good the probabilities are; of sites with a guard nothing is told."""
    shown = [f for f in found if f["rows"]]
    width = max(len("decisions"), *(len(f["rows_of"]) for f in found))
    lines = [
        "",
        f"{'rows of':{width}} {'rows':>7} {'positive':>8} {'AUC (95 %)':>21} {'Brier':>7} "
        f"{'of share':>8} {'majority':>8} {'slope':>6} {'intercept':>9}",
    ]
    for f in shown:
        auc, low, high = (float(f[key]) for key in ("auc", "auc_low", "auc_high"))
        slope, shift = float(f["calibration_slope"]), float(f["calibration_intercept"])
        lines.append(
            f"{f['rows_of']:{width}} {f['rows']:>7} {f['positive']:>8} "
            f"{f'{auc:.3f} ({low:.3f}-{high:.3f})':>21} {float(f['brier']):>7.4f} "
            f"{f['brier_of_share']:>8.4f} {f['majority']:>8.4f} {slope:>6.2f} {shift:>+9.2f}"
        )
    decided = [(f["rows_of"], d) for f in shown for d in f["decisions"]]
    if decided:
        lines += [
            "",
            f"{'decisions':{width}} {'threshold':>9} {'sens':>6} {'spec':>6} {'PPV':>6} "
            f"{'NPV':>6} {'net benefit':>11} {'of all':>7}",
        ]
    for name, d in decided:
        sens, spec, ppv, npv = (
            float(d[key])
            for key in ("sensitivity", "specificity", "positive_value", "negative_value")
        )
        lines.append(
            f"{name:{width}} {d['threshold']:>9g} {sens:>6.3f} {spec:>6.3f} {ppv:>6.3f} "
            f"{npv:>6.3f} {d['net_benefit']:>11.4f} {d['benefit_of_all']:>7.4f}"
        )
    few = [f["rows_of"] for f in found if not f["rows"]]
    return [*lines, f"fewer than 5 rows of a class, not told: {', '.join(few)}"] if few else lines


def explain(options: argparse.Namespace) -> int:
    """Ask every site for its worst case; nothing of single rows leaves it."""
    from drfl.cli.explain import table
    from drfl.models import read_model

    result, code = _answers("explain", options, {})
    model = read_model(options.model)
    for k in range(model.n_problems):
        found = [entry for entry in result or () if entry["model"] == k]
        _print(found, options.json, partial(table, model, k))
    return code


def calibrate(options: argparse.Namespace) -> int:
    """Let the sites fit a calibration, and write the model that has it."""
    from drfl._registry import lookup
    from drfl.cli.calibrate import lines, new_file
    from drfl.models import read_model, write_model
    from drfl.models.calibration import require_calibratable
    from drfl.models.plain import from_plain

    known = find_layout(options).project.sites
    wanted = [lookup("site", name, {site: site for site in known}) for name in options.site]
    out = new_file(options, wanted or known)
    require_calibratable(read_model(options.model), options.kind)
    result, code = _answers("calibrate", options, {"kind": options.kind, "sites": wanted})
    if result is not None:
        model, took_part = from_plain(result["model"]), result["sites"]
        write_model(model, out)
        told = {
            "sites": took_part,
            "calibrations": result["model"]["calibrations"],
            "out": str(out),
        }
        of = f"the rows of {', '.join(took_part)}"
        _print([told], options.json, lambda found: lines(model, took_part, of, out))
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
