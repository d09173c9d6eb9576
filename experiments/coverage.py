"""``python -m experiments coverage``: do 95 % intervals hold the truth 95 % of the time?

Four clients with rows of their own distributions and of different numbers; the target is the model
that is best in their mixture, from half a million drawn rows. Beside the intervals that drfl gives,
around its corrected estimate, stand those around the robust coefficients, which it never gives.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from drfl.arrays import Array
from drfl.cli.console import Console
from drfl.cli.main import OK
from drfl.engines.blas import one_blas_thread
from drfl.estimators import (
    DataWarning,
    DRFLClassifier,
    DRFLRegressor,
    FewRowsWarning,
    NothingLearnedWarning,
)
from drfl.files import write_text
from drfl.inference import InferenceError
from drfl.losses import Huber, Logistic, Loss

DESCRIPTION = "Count how often intervals hold the truth."
EXAMPLE = """\
example:
  python -m experiments coverage --page docs/inference.md
  python -m experiments coverage --designs huber --rows 200 800 --radii 1
"""
SHARES = np.array([0.15, 0.25, 0.375, 0.225])
TRUE, BASE = np.array([1.0, -0.7, 0.4, 0.0, 0.2]), 0.3
CENTRES = 0.5 * np.random.default_rng(9).normal(size=(4, 5))
SPREADS = np.random.default_rng(8).uniform(0.7, 1.4, size=(4, 5))
MIX = np.linalg.cholesky(0.4 * np.ones((5, 5)) + 0.6 * np.eye(5)).T
KNOTS = (-0.7, 0.7)
MANY = 125_000
DESIGNS = ("logistic", "huber", "misspecified", "additive")
SIZES = (200, 800, 4000)
FACTORS = (0.0, 0.1, 1.0)
SMALLEST = 0.1
"""Radius 0 has the model that the steps from this one end at: to certify it takes ten times as
long."""
HOLDS = (0.93, 0.97)
MARKS = "<!-- coverage -->", "<!-- coverage where it may fail -->"
"""Lines of the page after which the tables of `cells` and of `HARD` stand."""


@dataclass(frozen=True)
class Cell:
    """One set-up.

    Attributes
    ----------
    design : str
        "logistic", "huber", "misspecified" (a product of columns that the model lacks), "additive"
        (a column in three straight pieces), or "rare" (about one row in 40 is positive).
    rows : int
        Of all clients.
    factor : float
        The radius is this over the root of the rows. At 0 the robust model is the estimate.
    doubt : float
        The mixture radius.
    selected : bool
        Whether the radius is chosen on the same rows instead, by cross-validation; a tenth of the
        draws is made, as that takes long.
    """

    design: str
    rows: int
    factor: float
    doubt: float = 0.0
    selected: bool = False


@dataclass(frozen=True)
class Covered:
    """How often intervals held the truth, by coefficient: drfl's, and the naive ones.

    ``without`` are the draws in which there was no estimate.
    """

    cell: Cell
    given: Array
    naive: Array
    repeats: int
    without: int


def loss_of(design: str) -> Loss:
    """The loss of a design."""
    return Huber(1.0) if design == "huber" else Logistic()


def draw(design: str, s: int, rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows of a client: columns, and targets or labels -1 and +1."""
    X = CENTRES[s] + SPREADS[s] * (rng.normal(size=(rows, 5)) @ MIX)
    z = X @ TRUE + BASE
    if design == "huber":
        return X, z + rng.standard_t(3, size=rows)
    if design == "misspecified":
        z = z + 0.8 * X[:, 0] * X[:, 1]
    if design == "rare":
        z = z - 4.5
    if design == "additive":
        z = z + 0.8 * np.abs(X[:, 0])
        low, high = KNOTS
        first = X[:, 0]
        ramps = [np.minimum(first - low, 0.0), np.clip(first, low, high) - low]
        X = np.column_stack([*ramps, np.maximum(first - high, 0.0), X[:, 1:]])
    return X, np.where(rng.random(rows) < expit(z), 1.0, -1.0)


@cache
def target(design: str) -> tuple[float, ...]:
    """The model that is best in the mixture of the clients with equal weights."""
    rng, loss = np.random.default_rng(77), loss_of(design)
    drawn = [draw(design, s, MANY, rng) for s in range(4)]
    A = np.vstack([np.column_stack([X, np.ones(len(X))]) for X, _ in drawn])
    y = np.concatenate([y for _, y in drawn])
    margin = loss.task == "classification"
    theta = np.zeros(A.shape[1]) if margin else np.append(TRUE, BASE)
    for _ in range(15):
        z = A @ theta
        at = y * z if margin else z - y
        slope = loss.slope(at) * (y if margin else 1.0)
        H = (A * loss.curvature(at)[:, None]).T @ A
        theta = theta - np.linalg.solve(H, A.T @ slope)
    return tuple(theta.tolist())


def one(cell: Cell, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """Whether the intervals of one draw hold the truth: drfl's, and the naive ones."""
    sizes = np.round(SHARES * cell.rows).astype(int)
    drawn = [draw(cell.design, s, int(size), rng) for s, size in enumerate(sizes)]
    X, y = np.vstack([X for X, _ in drawn]), np.concatenate([y for _, y in drawn])
    clients: NDArray[np.int64] = np.repeat(np.arange(4), sizes)
    kind = DRFLRegressor if cell.design == "huber" else DRFLClassifier
    radius = (cell.factor or SMALLEST) / np.sqrt(cell.rows)
    if cell.selected:
        radius = _selected(X, y, clients)
    model = kind(
        loss_of(cell.design),
        radius=radius,
        mixture_radius=cell.doubt,
        mixture_center="uniform",
        tol=1e-2,
        solver="local",
    )
    try:
        found = model.fit(X, y, clients=clients).inference()
    except (InferenceError, ValueError):
        return None
    truth, (low, high) = np.array(target(cell.design)), found.interval
    if len(low) < len(truth):
        return None  # no row of the draw is on a piece of the curve
    half, held = 0.5 * (high - low), (low <= truth) & (truth <= high)
    return held, np.abs(found.robust - truth) <= half if cell.factor else held


def _selected(X: Array, y: Array, clients: NDArray[np.int64]) -> float:
    from drfl.selection import select

    grid = {"radius": [c / np.sqrt(len(y)) for c in (0.1, 1.0, 3.0)]}
    model = DRFLClassifier("logistic", mixture_center="uniform", tol=1e-2)
    found = select(model, X, y, clients, rule="one_se", grid=grid, folds=3, verbose=0)
    return float(found.best_params["radius"])


def covered(cell: Cell, repeats: int, seed: int = 1000) -> Covered:
    """Count over draws; the intercept counts like a coefficient."""
    repeats, found = max(1, repeats // 10) if cell.selected else repeats, []
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        warnings.simplefilter("ignore", NothingLearnedWarning)  # intervals are around the estimate
        warnings.simplefilter("ignore", DataWarning)  # clients differ as they are meant to
        for k in range(repeats):
            held = one(cell, np.random.default_rng([seed, k]))
            if held is not None:
                found.append(held)
    given, naive = (np.mean([pair[j] for pair in found], axis=0) for j in (0, 1))
    return Covered(cell, given, naive, repeats, repeats - len(found))


def cells(
    designs: Sequence[str] = DESIGNS,
    sizes: Sequence[int] = SIZES,
    factors: Sequence[float] = FACTORS,
) -> Iterator[Cell]:
    """Those where intervals should hold."""
    for rows, factor, design in product(sizes, factors, designs):
        yield Cell(design, rows, factor)


HARD = (
    Cell("logistic", 800, 3.0),
    Cell("logistic", 800, 1.0, doubt=0.3),
    Cell("logistic", 800, 1.0, selected=True),
    Cell("rare", 400, 1.0),
    Cell("rare", 800, 1.0),
    Cell("additive", 200, 3.0),
)
"""Where they might not: large and selected radii, doubt about the weights, a rare class."""


FAILING = (Cell("rare", 400, 1.0), Cell("rare", 800, 1.0))
"""Where they do not hold, as the page says: too few rows for the normal approximation."""
HEAD = (
    "| design | rows | radius | coverage | worst | around robust | worst | draws | without |",
    "|---|---|---|---|---|---|---|---|---|",
)


def key_of(cell: Cell) -> tuple[str, str, str]:
    """How the line of a cell begins."""
    radius = "selected" if cell.selected else f"{cell.factor:g}/√N"
    design = cell.design + (f", θ = {cell.doubt:g}" if cell.doubt else "")
    return f"| {design}", str(cell.rows), radius


def page(found: Sequence[Covered]) -> list[str]:
    """The counts as a table."""
    lines = list(HEAD)
    for entry in found:
        parts = list(key_of(entry.cell))
        for held in (entry.given, entry.naive):
            parts += [f"{held.mean():.3f}", f"{held.min():.3f}"]
        lines.append(f"{' | '.join(parts)} | {entry.repeats} | {entry.without} |")
    return lines


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the lines into the tables of this page"
    )
    parser.add_argument("--repeats", type=int, default=1000, help="draws of every cell (1000)")
    parser.add_argument("--hard", action="store_true", help="the cells where it may fail instead")
    parser.add_argument(
        "--designs", nargs="+", choices=DESIGNS, default=DESIGNS, help="these alone"
    )
    parser.add_argument("--rows", nargs="+", type=int, default=SIZES, help="of all clients")
    parser.add_argument(
        "--radii", nargs="+", type=float, default=FACTORS, help="times the root of N"
    )


def run(options: argparse.Namespace) -> int:
    """Run the study."""
    if options.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {options.repeats}")
    if options.page is not None:
        written(options.page.read_text("utf-8"), [], [])  # has it the marks? Before the work.
    usual = () if options.hard else cells(options.designs, options.rows, options.radii)
    all_of_it = (options.designs, options.rows, options.radii) == (DESIGNS, SIZES, FACTORS)
    hard = HARD if options.hard or (options.page is not None and all_of_it) else ()
    counted = [_counted(some, options.repeats) for some in (usual, hard)]
    if options.page is not None:
        write_text(options.page, written(options.page.read_text("utf-8"), *counted))
    return OK


def _counted(some: Iterable[Cell], repeats: int) -> list[Covered]:
    """Count cells, and say each line when it is there."""
    console, found = Console(), []
    for cell in some:
        console.note(str(cell))
        found.append(covered(cell, repeats))
        console.clear()
        console.say(page(found[-1:])[-1])
    return found


def written(text: str, usual: Sequence[Covered], hard: Sequence[Covered]) -> str:
    """A page with lines of the two tables after their marks; lines of other cells stay."""
    for mark, every, found in zip(MARKS, (tuple(cells()), HARD), (usual, hard), strict=True):
        if text.count(mark) != 1:
            raise ValueError(f"the page must have the line {mark!r} once")
        before, rest = text.split(f"{mark}\n")
        table, after = rest.split("\n\n", 1)
        lines = {tuple(line.split(" | ")[:3]): line for line in [*table.split("\n"), *page(found)]}
        kept = [lines[key_of(cell)] for cell in every if key_of(cell) in lines]
        text = f"{before}{mark}\n" + "\n".join([*HEAD, *kept]) + f"\n\n{after}"
    return text
