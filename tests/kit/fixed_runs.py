"""Runs whose results are stored: a change of the design must not move them.

``PYTHONPATH=tests python -m kit.fixed_runs`` compares this tree with the stored results bit by bit
(bits depend on the BLAS of the machine); ``--store`` writes them anew, for a change that means to
move them. `tests/solvers/test_fixed_runs.py` compares to within rounding.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import drfl
from drfl.datasets import load_heart, partition
from kit.random_cases import random_case

STORED = Path(__file__).with_name("fixed_runs.json")
SEEDS = range(60)
LIMIT = 60  # rounds
Run = dict[str, Any]


def named() -> dict[str, tuple[drfl.Problem, list[drfl.Client]]]:
    """The problems: small random ones of every kind, and the heart data in several settings."""
    made = {}
    for seed in SEEDS:
        case = random_case(seed)
        made[f"random {seed}"] = (case.problem, case.clients())
    heart = load_heart()
    parts = partition.random(len(heart.target), 10, np.random.default_rng(0))
    clients = [drfl.Client(f"c{s}", heart.data[i], heart.target[i]) for s, i in enumerate(parts)]
    for loss in ("hinge", "smooth_hinge", "logistic"):
        for norm in ("l1", "l2", "linf"):
            for cost in (1.0, 1e3):
                problem = drfl.Problem(
                    loss, drfl.Ball(0.01, norm=norm, label_cost=cost), drfl.Mixture(radius=0.1, p=1)
                )
                made[f"heart {loss} {norm} {cost:g}"] = (problem, clients)
    return made


def runs() -> Iterator[tuple[str, Run]]:
    """Every problem by every solver that takes it, with what came out."""
    for name, (problem, clients) in named().items():
        for solver in ("bundle", "local"):
            try:
                result = drfl.solve(problem, clients, solver=solver, max_rounds=LIMIT)
            except ValueError as refusal:
                yield f"{name}: {solver}", {"refused": str(refusal).split(":")[0]}
                continue
            numbers = [*result.coef, result.intercept, result.objective, result.lower_bound]
            yield (
                f"{name}: {solver}",
                {
                    "status": str(result.status.kind),
                    "rounds": result.rounds,
                    "numbers": [float(v).hex() for v in numbers],
                },
            )


def main() -> None:
    """Compare or store."""
    found = dict(runs())
    if "--store" in sys.argv:
        STORED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(found)} runs stored")
        return
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    moved = [name for name in stored if found.get(name) != stored[name]]
    print(f"{len(stored) - len(moved)} of {len(stored)} runs are bit-identical", *moved, sep="\n  ")
    sys.exit(bool(moved))


if __name__ == "__main__":
    main()
