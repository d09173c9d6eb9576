"""Runs whose results are stored: a change of the design must not move them.

Bits depend on the BLAS and on the versions of what computes: these are stored as well. Where they
are the same, the results must be the same to the last bit; elsewhere, to within rounding
(`tests/solvers/test_fixed_runs.py`). ``PYTHONPATH=tests python -m kit.fixed_runs`` names what has
moved; ``--store`` writes the results anew, for a change that means to move them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (it has a BLAS of its own)
from threadpoolctl import threadpool_info, threadpool_limits

import drfl
from drfl.datasets import load_heart, partition
from kit.random_cases import random_case

STORED = Path(__file__).with_name("fixed_runs.json")
SEEDS = range(60)
LIMIT = 60  # rounds
Run = dict[str, Any]


def arithmetic() -> dict[str, str]:
    """What decides the last bits: who computes, in which version, on which kind of processor."""
    pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    blas = {f"{pool['version']} {pool.get('architecture')}" for pool in pools}
    versions = {name: version(name) for name in ("numpy", "scipy", "piqp")}
    return {**versions, "blas": ", ".join(sorted(blas))}


def stored() -> tuple[dict[str, str], dict[str, Run]]:
    """The arithmetic of the stored runs, and the runs."""
    found = json.loads(STORED.read_text(encoding="utf-8"))
    return found["arithmetic"], found["runs"]


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
    with threadpool_limits(1):
        for name, (problem, clients) in named().items():
            for solver in ("bundle", "local"):
                yield f"{name}: {solver}", _run(problem, clients, solver)


def _run(problem: drfl.Problem, clients: list[drfl.Client], solver: str) -> Run:
    try:
        result = drfl.solve(problem, clients, solver=solver, max_rounds=LIMIT)
    except ValueError as refusal:
        return {"refused": str(refusal).split(":")[0]}
    numbers = [*result.coef, result.intercept, result.objective, result.lower_bound]
    return {
        "status": str(result.status.kind),
        "rounds": result.rounds,
        "numbers": [float(v).hex() for v in numbers],
    }


def main() -> None:
    """Compare or store."""
    found = dict(runs())
    if "--store" in sys.argv:
        told = {"arithmetic": arithmetic(), "runs": found}
        STORED.write_text(json.dumps(told, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(found)} runs stored")
        return
    theirs, wanted = stored()
    if theirs != arithmetic():
        print(f"stored with {theirs}, here it is {arithmetic()}: last digits differ")
    moved = [name for name in wanted if found.get(name) != wanted[name]]
    print(f"{len(wanted) - len(moved)} of {len(wanted)} runs are bit-identical", *moved, sep="\n  ")
    sys.exit(bool(moved))


if __name__ == "__main__":
    main()
