"""``python -m experiments usefulness``: do the defaults ever hurt?

Cells are data sets divided into clients, in six situations: rows of the clients that were there, a
client that was not, noise in the features of test rows, one client with noisy features, one with
flipped labels, 20 rows per client. In each the default model is compared with scikit-learn's
logistic regression (C = 1) on the pooled rows; for numbers with ridge regression, cross-validated.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sk
from sklearn.linear_model import LogisticRegression, RidgeCV

from drfl import datasets
from drfl.arrays import Array
from drfl.cli.console import Console
from drfl.cli.main import OK
from drfl.defaults import crowded
from drfl.estimators import DRFLClassifier, DRFLRegressor, FewRowsWarning
from drfl.files import write_text
from drfl.metrics import auc
from experiments.hospitals import patients

DESCRIPTION = "Compare the defaults with logistic and ridge regression, cell by cell."
EXAMPLE = """\
example:
  python -m experiments usefulness --repeats 10 --out usefulness.md
"""
SITUATIONS = ("seen", "unseen", "test noise", "noisy client", "flipped client", "20 rows")
CLASSES = ("four hospitals", "heart", "breast cancer", "breast cancer (sklearn)", "wine", "digits")
NUMBERS = ("abalone", "diabetes")
FLIPPED, NOISE, TRAINED, TOL = 0.3, 1.0, 0.7, 1e-4


@dataclass(frozen=True, eq=False)
class Rows:
    """Features, targets (classes as -1 and +1), and who holds them."""

    X: Array
    y: Array
    client: NDArray[np.int64]

    def take(self, at: NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return Rows(self.X[at], self.y[at], self.client[at])


@dataclass(frozen=True)
class Cell:
    """Differences in favour of the default model, one for every repeat.

    Points of accuracy and hundredths of AUC; for numbers per cent of the squared error. ``warned``:
    there are so few rows for the columns that a fit warns of it.
    """

    data: str
    situation: str
    gains: tuple[float, ...]
    areas: tuple[float, ...]
    warned: bool = False

    @property
    def mean(self) -> float:
        """Over the repeats."""
        return float(np.mean(self.gains))

    @property
    def error(self) -> float:
        """The standard error of the mean; NaN for one repeat."""
        if len(self.gains) < 2:
            return float("nan")
        return float(np.std(self.gains, ddof=1) / np.sqrt(len(self.gains)))


def load(name: str, rng: np.random.Generator) -> Rows:
    """A data set; those without clients of their own are divided by a feature into five."""
    if name == "four hospitals":
        found = patients()
        X = np.where(np.isnan(found.X), np.nanmean(found.X, axis=0), found.X)
        return Rows(X, found.y, np.unique(found.hospital, return_inverse=True)[1])
    if name in ("heart", "breast cancer", "abalone"):
        bunch = getattr(datasets, f"load_{name.replace(' ', '_')}")()
    else:
        bunch = getattr(sk, f"load_{name.removesuffix(' (sklearn)').replace(' ', '_')}")()
    X, y = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.float64)
    if name == "digits":
        y = np.where(y % 2 > 0, 1.0, -1.0)  # odd or even
    elif name not in NUMBERS:
        y = np.where(y >= np.median(np.unique(y)), 1.0, -1.0)
    keep = rng.permutation(len(y))[:1000]
    X, y = X[keep], y[keep]
    by = X[:, int(np.argmax(X.std(axis=0)))] + 1e-9 * rng.normal(size=len(y))
    rank = np.argsort(np.argsort(by + 0.5 * by.std() * rng.normal(size=len(y))))
    return Rows(X, y, (5 * rank // len(y)).astype(np.int64))


def situations(
    rows: Rows, numbers: bool, rng: np.random.Generator
) -> Iterator[tuple[str, Rows, Rows]]:
    """Training and test rows of every situation."""
    first = rng.random(len(rows.y)) < TRAINED
    train, test = rows.take(first), rows.take(~first)
    deviation = rows.X.std(axis=0)
    yield "seen", train, test
    out = int(rng.choice(np.unique(rows.client)))
    yield "unseen", rows.take(rows.client != out), rows.take(rows.client == out)
    moved = test.X + NOISE * deviation * rng.normal(size=test.X.shape)
    yield "test noise", train, Rows(moved, test.y, test.client)
    bad = train.client == int(rng.choice(np.unique(rows.client)))
    noise = NOISE * deviation * rng.normal(size=train.X.shape)
    noisy = np.where(bad[:, None], train.X + noise, train.X)
    yield "noisy client", Rows(noisy, train.y, train.client), test
    if not numbers:
        flip = bad & (rng.random(len(bad)) < FLIPPED)
        yield "flipped client", Rows(train.X, np.where(flip, -train.y, train.y), train.client), test
    kept = np.concatenate(
        [rng.permutation(np.flatnonzero(train.client == c))[:20] for c in np.unique(train.client)]
    )
    yield "20 rows", train.take(kept), test


def compared(train: Rows, test: Rows, numbers: bool) -> tuple[float, float]:
    """The gain of the default model in points (per cent of the squared error), and in AUC."""
    mean, scale = train.X.mean(axis=0), train.X.std(axis=0)
    scale[scale == 0.0] = 1.0
    A, B = (train.X - mean) / scale, (test.X - mean) / scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)  # the cell of few rows is meant
        if numbers:
            shift, unit = train.y.mean(), train.y.std()
            y = (train.y - shift) / unit
            ours = DRFLRegressor(tol=TOL).fit(A, y, clients=train.client)
            other = RidgeCV(alphas=np.logspace(-3, 3, 13)).fit(A, y)
            truth = (test.y - shift) / unit
            mine, theirs = (np.mean((m.predict(B) - truth) ** 2) for m in (ours, other))
            return 100.0 * float((theirs - mine) / theirs), float("nan")
        ours = DRFLClassifier(tol=TOL).fit(A, train.y, clients=train.client)
    other = LogisticRegression(C=1.0, max_iter=2000).fit(A, train.y)
    z, w = ours.decision_function(B), other.decision_function(B)
    right = [np.mean(np.where(s > 0.0, 1.0, -1.0) == test.y) for s in (z, w)]
    area = auc(z, test.y > 0.0) - auc(w, test.y > 0.0)
    return 100.0 * float(right[0] - right[1]), 100.0 * area


def study(names: Sequence[str], repeats: int, seed: int, console: Console) -> list[Cell]:
    """Every cell."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    warned: set[tuple[str, str]] = set()
    for name in names:
        for repeat in range(repeats):
            console.note(f"{name}: repeat {repeat + 1} of {repeats}")
            rng = np.random.default_rng([seed, repeat])
            rows = load(name, rng)
            for situation, train, test in situations(rows, name in NUMBERS, rng):
                if name not in NUMBERS and min(len(set(train.y)), len(set(test.y))) < 2:
                    continue  # a client of one class has no AUC, and trains nothing
                gain = compared(train, test, name in NUMBERS)
                found.setdefault((name, situation), []).append(gain)
                if crowded(train.X.shape[1], len(train.y)) is not None:
                    warned.add((name, situation))
    console.clear()
    return [
        Cell(*place, tuple(g for g, _ in gains), tuple(a for _, a in gains), place in warned)
        for place, gains in found.items()
    ]


def page(cells: Sequence[Cell], command: str) -> list[str]:
    """The cells as a table, after what they come to."""
    lines = [f"`{command}`. Gains of the default model, standard errors over the repeats.", ""]
    for title, names, unit in (
        ("Classes, against LogisticRegression(C=1)", CLASSES, "points of accuracy"),
        ("Numbers, against RidgeCV", NUMBERS, "per cent of the squared error"),
    ):
        some = [cell for cell in cells if cell.data in names]
        if not some:
            continue
        means = [cell.mean for cell in some]
        limit = 1.0 if names is CLASSES else 2.0
        beyond = sum(mean < -limit for mean in means)
        lines += [f"## {title}", ""]
        lines += [
            f"{len(some)} cells, {unit}: mean {np.mean(means):+.2f}, worst {min(means):+.2f}, "
            f"{beyond} worse by more than {limit:g}.",
            "",
            "| data | situation | gain | AUC, hundredths |",
            "|---|---|---|---|",
        ]
        for cell in some:
            area = np.mean(cell.areas)
            shown = "" if np.isnan(area) else f"{area:+.2f}"
            gain = f"{cell.mean:+.2f} ± {cell.error:.2f}"
            mark = " (warned)" if cell.warned else ""
            lines.append(f"| {cell.data} | {cell.situation}{mark} | {gain} | {shown} |")
        lines.append("")
    return lines


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("--out", type=Path, metavar="FILE", help="a Markdown file to write to")
    parser.add_argument("--repeats", type=int, default=10, help="splits (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the splits (0)")


def run(options: argparse.Namespace) -> int:
    """Run the study."""
    if options.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {options.repeats}")
    console = Console()
    cells = study([*CLASSES, *NUMBERS], options.repeats, options.seed, console)
    command = f"python -m experiments usefulness --repeats {options.repeats}"
    lines = page(cells, command)
    console.say(*lines)
    if options.out is not None:
        write_text(options.out, "\n".join(["# Do the defaults ever hurt?", "", *lines]))
    return OK
