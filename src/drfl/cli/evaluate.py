"""``drfl evaluate``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

EXAMPLE = """\
example:
  drfl evaluate RUN/model.json a.csv b.csv --noise 0.25,0.5,1

Noise is Gaussian, added to every column of numbers; its deviation is in units of the scaled column
(for a model with scale = "none", in those of the file).
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="rows with the target")
    parser.add_argument("--noise", metavar="DEVIATIONS", help="like 0.1,0.5: also under noise")
    parser.add_argument("--repeats", type=int, default=10, help="draws of the noise (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(options: argparse.Namespace) -> int:
    """Evaluate."""
    from drfl.cli.main import OK
    from drfl.models import read_model
    from drfl.problem import to_json
    from drfl.training.fields import number
    from drfl.training.files import read_rows

    levels = [0.0]
    if options.noise is not None:
        levels += [number("--noise", part) for part in options.noise.split(",")]
    if not all(0.0 <= level < float("inf") for level in levels) or options.repeats < 1:
        raise ValueError("--noise must be finite deviations >= 0, and --repeats at least 1")
    model = read_model(options.model)
    found = []
    for path in options.files:
        rows = read_rows(model, path, target=True)
        for level in dict.fromkeys(levels):
            values = scored(model, rows, level, options.repeats, options.seed)
            found.append({"file": str(path), "rows": int(rows.keep.sum()), "noise": level} | values)
    if options.json:
        for entry in found:
            print(json.dumps(to_json(entry), allow_nan=False))
    else:
        print("\n".join(_table(found)))
    return OK


def scored(model: Any, rows: Any, level: float, repeats: int, seed: int) -> dict[str, float]:
    """The metrics of a file, under noise their means over some draws."""
    import numpy as np

    from drfl.training.metrics import metrics

    y = rows.y
    if model.target.classes is None:
        y = model.target.shift + model.target.scale * y
    if level == 0.0:
        return metrics(model, model.scores(rows.X), y)
    rng = np.random.default_rng(seed)
    draws = [
        metrics(model, model.scores(noisy(model, rows.X, level, rng)), y) for _ in range(repeats)
    ]
    return {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}


def noisy(model: Any, X: Any, level: float, rng: Any) -> Any:
    """Rows with noise in their columns of numbers, in the units of the file."""
    import numpy as np

    from drfl.tables import Number

    if not isinstance(X, np.ndarray):
        raise ValueError("noise on every entry makes sparse rows dense: leave --noise out")
    _, scale = model.scaling(X)
    flags = [isinstance(c, Number) for c in model.columns for _ in c.features]
    return X + level * scale * np.array(flags) * rng.normal(size=X.shape)


def _table(found: list[dict[str, Any]]) -> list[str]:
    width = max(len("file"), *(len(entry["file"]) for entry in found))
    names = [name for name in found[0] if name not in ("file", "rows", "noise")]
    heads = "".join(f"  {name.replace('_', ' '):>17}" for name in names)
    lines = [f"{'file':{width}}  {'rows':>8}  {'noise':>6}{heads}"]
    for entry in found:
        cells = "".join(f"  {entry[name]:>17.4g}" for name in names)
        lines.append(f"{entry['file']:{width}}  {entry['rows']:>8}  {entry['noise']:>6g}{cells}")
    return lines
