"""A model at the sites: how good it is there, what the adversary would do, calibration."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from drfl.cli.console import Console
from drfl.cli.main import FAILED, OK, say, show, show_json
from drfl.cli.sites.coordinator import find_layout, watched

if TYPE_CHECKING:  # help must not wait for SciPy
    from drfl.models import Model


def evaluate(options: argparse.Namespace) -> int:
    """Ask every site for its metrics."""
    from drfl.cli.evaluate import NO_PROBABILITIES, judging, table
    from drfl.models import read_model
    from drfl.models.judgement import lines

    levels, thresholds, by = judging(options)
    model = read_model(options.model)
    forms = [model, *(model.at(name) for name in model.calibrations)]
    if (thresholds or by) and not any(form.judgeable for form in forms):
        raise ValueError(NO_PROBABILITIES)
    asked = {"noise": levels, "repeats": options.repeats, "seed": options.seed}
    asked |= {"thresholds": list(thresholds), "by": by}
    result, code = _answers("evaluate", options, asked)
    if result is None:
        return code
    found = [
        {"site": site, "noise": level} | values
        for site, entries in result["metrics"].items()
        for level, values in zip(levels, entries, strict=True)
    ]
    _print(found, options.json, table)
    judged = result["probabilities"]
    told = [{"rows_of": name, **facts} for name, facts in judged.items() if facts["rows"]]
    _print(told, options.json, lambda _: ["", *lines({f["rows_of"]: f for f in told})])
    for sentence in untold(result, forms):
        say(sentence)
    return code


def untold(result: dict[str, Any], forms: Sequence[Model]) -> list[str]:
    """Who told nothing, or nothing of probabilities, and why."""
    silent = [site for site in result["guards"] if site not in result["metrics"]]
    guarded = [site for site in silent if result["guards"][site]]
    others = [site for site in silent if site not in guarded]
    judged = {name: facts["rows"] for name, facts in result["probabilities"].items()}
    small = [name for name, rows in judged.items() if not rows]
    unsaid = [site for site in result["metrics"] if site not in judged]
    unsaid = unsaid if any(form.judgeable for form in forms) else []
    why = {
        "its guard answers for the rows of a training alone, whose records have its accuracy": (
            guarded
        ),
        "its policy or its file does not allow it, as is said there": others,
        "nothing of probabilities: has its file the columns of --by, and may they be used?": unsaid,
        "fewer than 5 rows of a class, so that nothing is told of them": small,
    }
    return [f"{', '.join(names)}: {reason}" for reason, names in why.items() if names]


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
    from drfl.problem import from_json
    from drfl.sites.flare.watch import Watch

    console = Console(quiet=options.quiet, as_json=options.json)
    model = to_plain(read_model(options.model))
    watch = Watch(find_layout(options), kind, console, model=model, options=asked)
    outcome, folder = watched(watch)
    try:
        result = from_json(json.loads((folder / "result.json").read_text(encoding="utf-8")))
    except OSError:
        say(outcome.get("sentence") or "the sites did not answer")
        return None, int(outcome.get("exit", FAILED)) or FAILED
    finally:
        watch.clean()
    return result, int(outcome.get("exit", OK))


def _print(found: list[dict[str, Any]], as_json: bool, table: Any) -> None:
    if as_json:
        show_json(found)
    elif found:
        show(table(found))
