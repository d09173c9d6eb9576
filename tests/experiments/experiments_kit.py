"""Tiny versions of the experiments, and the numbers that they gave.

``python tests/experiments/experiments_kit.py`` writes the numbers anew.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments import NAMES
from experiments.pool import work
from experiments.registry import find

STORED = Path(__file__).parent / "stored.json"
TINY_PROTOCOL = {
    "folds": 2,
    "radii": (1e-3, 5e-2),
    "label_costs": (1.0,),
    "mixture_radii": (0.1,),
    "means": (0.0, 1.0),
    "sds": (0.0, 1.0),
    "ratio_sds": (0.5,),
    "rules": ("mean", "one_se", "untuned_0.1", "oracle"),
}
TINY = {
    "volume": {"map_shifts": (0.0, 10.0), "map_q": (0.5,), "systems": 10, "draws": 2000},
    "convergence": {"clients": (3,), "rounds": 20, "step_sizes": (0.01,)},
    "heterogeneity": {
        "datasets": ("heart",),
        "clients": 3,
        "folds": 2,
        "radii": (0.05,),
        "mixture_radii": (0.2,),
        "tol": 1e-4,
    },
}


def tiny(name):
    """Settings that take a second or two."""
    return replace(find(name).settings, **TINY.get(name, TINY_PROTOCOL))


def run(name, seeds=1):
    """All tasks, in this process."""
    settings = tiny(name)
    return [work(name, settings, task) for task in find(name).tasks(settings, seeds)]


def numbers(name, done):
    """What is compared: a number or a list by place."""
    found = {}
    for one in done:
        for row in one.rows:
            if name == "volume" and "map" in row:
                found[f"{row['map']:g}"] = [row["claim1"], row["claim2"]]
            elif name == "volume":
                for key in ("drfl", "wafl"):
                    found[f"{row['shift']:g} {key}"] = row["radii"][key][::6].tolist()
            elif name == "convergence":
                found[row["algorithm"]] = float(np.log10(row["gap"][-1]))
            else:
                place = " ".join([*map(str, one.task.values()), row["method"], row["rule"]])
                levels = [v for values in row.get("sweeps", {}).values() for v in values]
                found[place] = [row["clean"], row["worst"], *levels]
    return found


if __name__ == "__main__":
    stored = {name: numbers(name, run(name)) for name in NAMES}
    short = json.loads(json.dumps(stored), parse_float=lambda text: float(f"{float(text):.5g}"))
    lines = [f' "{name}": {json.dumps(found)}' for name, found in short.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
