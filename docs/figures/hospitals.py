"""Draw docs/figures/hospitals.svg: seven models at a hospital that was not there, as in the demo.

    python -m docs.figures.hospitals

A folder that the demo has written to saves the work:

    python -m docs.figures.hospitals RUN
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from drfl.cli.console import Console
from experiments.contest import contest

HOSPITALS = {
    "cleveland": "Cleveland",
    "hungarian": "Budapest",
    "switzerland": "Zurich, Basel",
    "va": "Long Beach",
}


def draw(outcomes: list[dict[str, Any]], path: Path) -> None:
    """Accuracy by the hospital that was left out, and the log loss, a row for every model."""
    plt.rcParams["svg.hashsalt"] = "drfl"  # the same file every time
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.0, 3.4), width_ratios=(3, 2), sharey=True, layout="constrained"
    )
    places = range(len(outcomes), 0, -1)
    for name, label in HOSPITALS.items():
        accuracy = [100 * outcome["accuracy"][name] for outcome in outcomes]
        left.plot(accuracy, places, "o", ms=5, alpha=0.8, label=label)
    left.plot([100 * o["mean"] for o in outcomes], places, "|", color="black", ms=16, label="mean")
    left.set_yticks(list(places), [outcome["method"] for outcome in outcomes])
    left.set_xlabel("accuracy at the hospital that was left out, %")
    left.legend(fontsize=7, loc="upper right")
    left.set_xlim(67.0, 89.0)
    right.barh(list(places), [outcome["log_loss"] for outcome in outcomes], height=0.55)
    right.set_xlabel("log loss (smaller is better)")
    right.set_xlim(0.4)
    for place, outcome in zip(places, outcomes, strict=True):
        right.text(
            outcome["log_loss"], place, f" {outcome['log_loss']:.3f}", va="center", fontsize=8
        )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def found(runs: list[str]) -> list[dict[str, Any]]:
    """What the demo has recorded, or finds now."""
    if not runs:
        return [outcome.facts() for outcome in contest(2, 0, Console(quiet=True))]
    lines = (Path(runs[0]) / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "demo"]


if __name__ == "__main__":
    draw(found(sys.argv[1:]), Path(__file__).with_suffix(".svg"))
