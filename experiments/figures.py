"""What all figures share: colours that everyone can tell apart, and two files of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drfl.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours and one more, and another line for each: also told apart without colours.
STYLES = (
    ("#000000", "-", "o"),
    ("#E69F00", "--", "s"),
    ("#56B4E9", "-.", "^"),
    ("#009E73", ":", "D"),
    ("#D55E00", "-", "v"),
    ("#0072B2", "--", "P"),
    ("#CC79A7", "-.", "X"),
    ("#999999", ":", "*"),
    ("#882255", "-", "<"),
)
LEAK = "#FBE3E0"
"""The ground under what nobody could know."""


def new_figure(rows: int, columns: int, *, width: float = 3.6, height: float = 2.3) -> Figure:
    """An empty figure without a window; panels are added by `panel`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "the figures need matplotlib: pip install 'drfl[plots]', or leave them out with "
            "--no-figures"
        ) from None
    return Figure(figsize=(width * columns, height * rows), layout="constrained")


def line(
    axes: Axes, number: int, x: Array | list[float], mean: Array, wide: Array | None, label: str
) -> None:
    """A mean with its band."""
    colour, dashes, marker = STYLES[number % len(STYLES)]
    marks = max(1, len(mean) // 8)
    axes.plot(
        x, mean, dashes, color=colour, marker=marker, markersize=3.5, markevery=marks, lw=1.4,
        label=label,
    )  # fmt: skip
    if wide is not None and not np.isnan(wide).any():
        axes.fill_between(x, mean - wide, mean + wide, color=colour, alpha=0.15, lw=0)


def finish(axes: Axes, *, x: str = "", y: str = "", title: str = "") -> None:
    """Name the axes of a panel."""
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.set_title(title, fontsize=8.5, loc="left")
    axes.tick_params(labelsize=7.5)
    axes.grid(color="#DDDDDD", lw=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend(figure: Figure, axes: Axes, columns: int) -> None:
    """One legend for all panels, above them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize=8.5,
                  frameon=False)  # fmt: skip


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write SVG and PNG; the same numbers make the same files."""
    import matplotlib as mpl

    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with mpl.rc_context({"svg.hashsalt": "drfl", "svg.fonttype": "none"}):
        figure.draw_without_rendering()  # places the panels, once for both files
        figure.set_layout_engine("none")
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=130, metadata={"Software": None})
    return paths
