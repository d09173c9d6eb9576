"""The picture: how many times faster or leaner, and how time grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.suite.row import Row

BARS = ("programs", "yardsticks", "bundles", "methods")
COLOURS = {
    "programs": "#33658a",
    "yardsticks": "#86bbd8",
    "bundles": "#f6ae2d",
    "methods": "#758e4f",
}
GREY = "#999999"
SMALL = "5,000 x 50"


def draw_picture(folder: Path, rows: list[Row]) -> list[Path]:
    """Bars of the ratios, and the ladders of `growth`; as SVG and PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    bars = [row for row in rows if row.section in BARS and row.more_is_better]
    bars = [row for row in bars if f", {SMALL}" not in row.name]  # twins of larger ones
    ladders = [row for row in rows if "sizes" in row.facts]
    paths = []
    for name, drawn, draw in (("ratios", bars, _bars), ("growth", ladders, _ladders)):
        if not drawn:
            continue
        height = 1.2 + 0.24 * len(drawn) if name == "ratios" else 4.0
        figure, axes = plt.subplots(figsize=(9.0, height), layout="constrained")
        draw(axes, drawn)
        for suffix in ("svg", "png"):
            paths.append(folder / f"{name}.{suffix}")
            figure.savefig(paths[-1], dpi=130)
        plt.close(figure)
    return paths


def _bars(axes: Any, rows: list[Row]) -> None:
    """One bar per ratio, on a logarithmic scale; a mark at the target."""
    for k, row in enumerate(reversed(rows)):
        axes.barh(k, row.value - 1.0, left=1.0, color=COLOURS[row.section], height=0.7)
        if row.at_least is not None:
            axes.plot([row.at_least] * 2, [k - 0.42, k + 0.42], color="black", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1.0, color=GREY, linewidth=1)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)], fontsize=7)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("times better than what it is compared with; black: target")
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _ladders(axes: Any, rows: list[Row]) -> None:
    """Seconds against size, one line per ladder, and a line of slope 1."""
    for row in rows:
        name = row.name.removeprefix("time against ").removesuffix(": slope")
        sizes, seconds = row.facts["sizes"], row.facts["seconds"]
        axes.loglog(sizes, seconds, marker="o", label=f"{name}: slope {row.value:.2f}")
    axes.loglog([1e5, 1e7], [0.03, 3.0], color=GREY, linestyle="--", label="slope 1")
    axes.set_xlabel("rows N (n = 20), features n (5,000 rows), or clients S (of 50 rows)")
    axes.set_ylabel("seconds to a certified gap of 1e-4")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
