"""``python -m experiments usefulness``: do the defaults ever hurt?

Cells are data sets divided into clients, in six situations: rows of the clients that were there, a
client that was not, noise in the features of test rows, one client with noisy features, one with
flipped labels, 20 rows per client. In each the default model is compared with scikit-learn's
logistic regression (C = 1) on the pooled rows; for numbers with ridge regression, cross-validated.
On request other settings are compared with the default model in the same cells: the purposes,
numbers scaled at every client by itself, radii chosen by a rule.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sk
from sklearn.linear_model import LogisticRegression, RidgeCV

from drfl import datasets, select
from drfl.arrays import Array
from drfl.cli.console import Console
from drfl.cli.main import OK
from drfl.defaults import PURPOSES, THESE_CLIENTS, crowded
from drfl.estimators import (
    DataWarning,
    DRFLClassifier,
    DRFLRegressor,
    FewRowsWarning,
    NothingLearnedWarning,
)
from drfl.files import write_text
from drfl.metrics import auc
from drfl.tables.moments import CONSTANT
from experiments.hospitals import patients

DESCRIPTION = "Compare the defaults with logistic and ridge regression, cell by cell."
EXAMPLE = """\
example:
  python -m experiments usefulness --records study.jsonl --out usefulness.md
  python -m experiments usefulness --more purposes scaling rules --records study.jsonl

With --records every training is written down as it ends, and one that stands there is not repeated:
a study that was stopped, or made data set by data set with --data, goes on where it was.
"""
SITUATIONS = ("seen", "unseen", "test noise", "noisy client", "flipped client", "20 rows")
CLASSES = ("four hospitals", "heart", "breast cancer", "breast cancer (sklearn)", "wine", "digits")
NUMBERS = ("abalone", "diabetes")
FLIPPED, NOISE, TRAINED, TOL = 0.3, 1.0, 0.7, 1e-4
ROUGH = 1e-3
"""Of the choice of radii, which sees fewer digits."""


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
    """Differences in favour of a model, one for every repeat.

    Points of accuracy and hundredths of AUC; for numbers per cent of the squared error. The default
    model is compared with scikit-learn's, others with the default. ``warned``: there are so few
    rows for the columns that a fit warns of it.
    """

    data: str
    situation: str
    gains: tuple[float, ...]
    areas: tuple[float, ...]
    warned: bool = False
    way: str = "default"

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


Way = Callable[[Rows, Rows], Array]
"""From training and test rows, classes being -1 and +1, to scores of the test rows."""


def _standard(train: Rows, test: Rows) -> tuple[Array, Array]:
    """Features of mean 0 and deviation 1 over all training rows."""
    mean, scale = _moments(train.X)
    return (train.X - mean) / scale, (test.X - mean) / scale


def _moments(X: Array) -> tuple[Array, Array]:
    """Mean and deviation of every column, 1 where it is constant."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    return mean, np.where(scale <= CONSTANT * np.abs(mean), 1.0, scale)


def by_client(train: Rows, test: Rows) -> tuple[Array, Array]:
    """The same by the moments of every client; one that is new is scaled by its own rows."""
    A, B = np.empty_like(train.X), np.empty_like(test.X)
    for client in np.union1d(train.client, test.client):
        mine, new = train.client == client, test.client == client
        rows = train.X[mine] if mine.any() else test.X[new]
        mean, scale = _moments(rows)
        A[mine], B[new] = (train.X[mine] - mean) / scale, (test.X[new] - mean) / scale
    return A, B


def _is_number(y: Array) -> bool:
    return len(np.unique(y)) > 2


def _units(y: Array) -> tuple[float, float]:
    """What a target is scaled by; classes stay as they are."""
    return (float(y.mean()), float(y.std())) if _is_number(y) else (0.0, 1.0)


def _model(y: Array, **settings: Any) -> Any:
    return (DRFLRegressor if _is_number(y) else DRFLClassifier)(**settings)


def _scores(model: Any, X: Array) -> Array:
    score = getattr(model, "decision_function", model.predict)
    return np.asarray(score(X))


def _rival(train: Rows, test: Rows) -> Array:
    A, B = _standard(train, test)
    ridge = RidgeCV(alphas=np.logspace(-3, 3, 13))
    rival = ridge if _is_number(train.y) else LogisticRegression(C=1.0, max_iter=2000)
    return _scores(rival.fit(A, train.y), B)


def _robust(scaling: Callable[..., tuple[Array, Array]] = _standard, **settings: Any) -> Way:
    def way(train: Rows, test: Rows) -> Array:
        A, B = scaling(train, test)
        return _scores(
            _model(train.y, tol=TOL, **settings).fit(A, train.y, clients=train.client), B
        )

    return way


def _chosen(rule: str, scoring: str | None = None) -> Way:
    def way(train: Rows, test: Rows) -> Array:
        A, B = _standard(train, test)
        wish = None if _is_number(train.y) else scoring
        found = select(
            _model(train.y, tol=ROUGH),
            A,
            train.y,
            train.client,
            rule=rule,
            scoring=wish,
            random_state=0,
            verbose=0,
        )
        return _scores(found.estimator, B)

    return way


RIVAL, DEFAULT = "scikit-learn", "default"
MORE: Mapping[str, Mapping[str, Way]] = {
    "purposes": {p: _robust(purpose=p) for p in PURPOSES if p != THESE_CLIENTS},
    "scaling": {"per client": _robust(by_client)},
    "rules": {"mean": _chosen("mean"), "one_se, accuracy": _chosen("one_se", "accuracy")},
}
"""What else is compared, with the default model."""
SLOW, SPLITS = tuple(MORE["rules"]), 2
"""Ways that are tried in the first splits only: to choose a radius takes many trainings."""
SMALL = ("four hospitals", "heart", "breast cancer", "wine", "diabetes")
"""The data sets in which they are tried."""
WAYS: Mapping[str, Way] = {
    RIVAL: _rival,
    DEFAULT: _robust(),
    **{name: way for ways in MORE.values() for name, way in ways.items()},
}

Trial = tuple[str, str, int, str]
"""A data set, a situation, the number of a repeat, and a way."""
Quality = tuple[float, float]
"""Points of accuracy and hundredths of AUC; or the squared error, and NaN."""


def judged(way: str, train: Rows, test: Rows) -> Quality:
    """How good the model is that one way leads to."""
    shift, unit = _units(train.y)
    with warnings.catch_warnings():
        # Few rows, clients that differ and a code for noise are what the cells are made of.
        warnings.simplefilter("ignore", FewRowsWarning)
        warnings.simplefilter("ignore", NothingLearnedWarning)
        warnings.simplefilter("ignore", DataWarning)
        z = WAYS[way](Rows(train.X, (train.y - shift) / unit, train.client), test)
    if _is_number(train.y):
        return float(np.mean((z - (test.y - shift) / unit) ** 2)), float("nan")
    right = np.mean(np.where(z > 0.0, 1.0, -1.0) == test.y)
    return 100.0 * float(right), 100.0 * auc(z, test.y > 0.0)


class Records:
    """What is known of the study: in memory, and in a file if one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.known: dict[Trial, Quality] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                trial, (main, area) = json.loads(line)
                self.known[tuple(trial)] = main, float("nan") if area is None else area

    def add(self, trial: Trial, quality: Quality) -> None:
        """Write one down."""
        self.known[trial] = quality
        if self.path is not None:
            area = None if np.isnan(quality[1]) else quality[1]
            with self.path.open("a") as file:
                file.write(json.dumps([trial, [quality[0], area]]) + "\n")


def study(
    names: Sequence[str],
    repeats: int,
    seed: int,
    console: Console,
    ways: Sequence[str] = (RIVAL, DEFAULT),
    records: Records | None = None,
) -> list[Cell]:
    """Every cell."""
    records = Records() if records is None else records
    warned: set[tuple[str, str]] = set()
    for name in names:
        for repeat in range(repeats):
            console.note(f"{name}: repeat {repeat + 1} of {repeats}")
            rng = np.random.default_rng([seed, repeat])
            rows = load(name, rng)
            for situation, train, test in situations(rows, name in NUMBERS, rng):
                if name not in NUMBERS and min(len(set(train.y)), len(set(test.y))) < 2:
                    continue  # a client of one class has no AUC, and trains nothing
                if crowded(train.X.shape[1], len(train.y)) is not None:
                    warned.add((name, situation))
                for way in ways:
                    trial = (name, situation, repeat, way)
                    if trial not in records.known and _wanted(trial):
                        records.add(trial, judged(way, train, test))
    console.clear()
    found = [
        _cell(name, situation, way, records, (name, situation) in warned)
        for name in names
        for situation in SITUATIONS
        for way in ways
        if way != RIVAL
    ]
    return [cell for cell in found if cell.gains]


def _wanted(trial: Trial) -> bool:
    name, _, repeat, way = trial
    return way not in SLOW or (name in SMALL and repeat < SPLITS)


def _cell(name: str, situation: str, way: str, records: Records, warned: bool) -> Cell:
    other = RIVAL if way == DEFAULT else DEFAULT
    gains, areas = [], []
    for trial, (main, area) in records.known.items():
        rival = records.known.get((*trial[:3], other))
        if (*trial[:2], trial[3]) == (name, situation, way) and rival is not None:
            lost = 100.0 * (rival[0] - main) / rival[0]
            gains.append(lost if name in NUMBERS else main - rival[0])
            areas.append(area - rival[1])
    return Cell(name, situation, tuple(gains), tuple(areas), warned, way)


INTRODUCTION = """\
`{command}`. Gains of the default model, standard errors over the repeats.
Data that are bundled or come with scikit-learn, divided into clients (the hospitals; otherwise five groups that differ in a feature),
in six situations: rows of clients that were there, a client that was not, noise of one deviation in the features of test rows,
noise at one training client, 30 % flipped labels at one, 20 rows per client. "warned": there are more columns than a quarter of
the rows, where a fit warns that the default radius can be too small.
"""  # noqa: E501  (lines of a page)


def page(cells: Sequence[Cell], command: str) -> list[str]:
    """The cells as tables, after what they come to."""
    lines = [*INTRODUCTION.format(command=command).splitlines(), ""]
    first = [cell for cell in cells if cell.way == DEFAULT]
    for title, names, unit in (
        ("Classes, against LogisticRegression(C=1)", CLASSES, "points of accuracy"),
        ("Numbers, against RidgeCV", NUMBERS, "per cent of the squared error"),
    ):
        some = [cell for cell in first if cell.data in names]
        if some:
            lines += [f"## {title}", "", f"{_summary(some, unit)}.", "", *_table(some), ""]
    for group, ways in MORE.items():
        others = [cell for cell in cells if cell.way in ways]
        if others:
            lines += [
                f"## {TITLES[group]}",
                "",
                *_fewer(others),
                *_compared(others, tuple(ways)),
                "",
            ]
    return lines


def _fewer(cells: Sequence[Cell]) -> list[str]:
    """A sentence where only the first splits were tried."""
    if cells[0].way not in SLOW:
        return []
    most = max(len(cell.gains) for cell in cells)
    return [
        f"In the smaller data sets and {most} split{'s' * (most > 1)} only, since every choice "
        "takes many trainings:",
        "",
    ]


TITLES = {
    "purposes": "Purposes, against the default",
    "scaling": "Numbers scaled at every client by itself, against the default",
    "rules": "Radii chosen by a rule, against the default",
}


def _summary(cells: Sequence[Cell], unit: str) -> str:
    means = [cell.mean for cell in cells]
    limit = 2.0 if cells[0].data in NUMBERS else 1.0
    sure = [cell.mean / cell.error if cell.error > 0.0 else 0.0 for cell in cells]
    return (
        f"{len(cells)} cells, {unit}: mean {np.mean(means):+.2f}, worst {min(means):+.2f}, "
        f"{sum(m < -limit for m in means)} worse by more than {limit:g}; at two standard errors "
        f"{sum(z > 2.0 for z in sure)} better and {sum(z < -2.0 for z in sure)} worse"
    )


def _table(cells: Sequence[Cell]) -> list[str]:
    lines = ["| data | situation | gain | AUC, hundredths |", "|---|---|---|---|"]
    for cell in cells:
        area = np.mean(cell.areas)
        shown = "" if np.isnan(area) else f"{area:+.2f}"
        mark = " (warned)" if cell.warned else ""
        gain = f"{cell.mean:+.2f} ± {cell.error:.2f}"
        lines.append(f"| {cell.data} | {cell.situation}{mark} | {gain} | {shown} |")
    return lines


def _compared(cells: Sequence[Cell], ways: Sequence[str]) -> list[str]:
    """What other settings come to, in every situation, and for every data set."""
    lines = []
    for way in ways:
        some = [cell for cell in cells if cell.way == way and cell.data in CLASSES]
        numbers = [cell for cell in cells if cell.way == way and cell.data in NUMBERS]
        lines += [f"- **{way}**: {_summary(some, 'points of accuracy')}."] if some else []
        if numbers:
            lines += [f"  {_summary(numbers, 'per cent of the squared error')}."]
    seen = [s for s in SITUATIONS if any(c.situation == s for c in cells)]
    lines += ["", "Points of accuracy (per cent of the squared error of abalone and diabetes):", ""]
    lines += [f"| data | setting | {' | '.join(seen)} |", "|---" * (2 + len(seen)) + "|"]
    for name in dict.fromkeys(cell.data for cell in cells):
        for way in ways:
            row = {c.situation: c.mean for c in cells if c.data == name and c.way == way}
            shown = [f"{row[s]:+.2f}" if s in row else "" for s in seen]
            lines += [f"| {name} | {way} | {' | '.join(shown)} |"] if row else []
    return lines


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("--out", type=Path, metavar="FILE", help="a Markdown file to write to")
    parser.add_argument("--repeats", type=int, default=10, help="splits (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the splits (0)")
    parser.add_argument("--data", nargs="+", choices=[*CLASSES, *NUMBERS], help="some data sets")
    parser.add_argument("--more", nargs="+", choices=list(MORE), default=[], help="what else")
    parser.add_argument("--records", type=Path, metavar="FILE", help="to go on with")


def run(options: argparse.Namespace) -> int:
    """Run the study."""
    if options.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {options.repeats}")
    console = Console()
    ways = [RIVAL, DEFAULT, *(way for group in options.more for way in MORE[group])]
    records = Records(options.records)
    data = options.data or [*CLASSES, *NUMBERS]
    cells = study(data, options.repeats, options.seed, console, ways, records)
    more = f" --more {' '.join(options.more)}" if options.more else ""
    command = f"python -m experiments usefulness --repeats {options.repeats}{more}"
    lines = page(cells, command)
    console.say(*lines)
    if options.out is not None:
        write_text(options.out, "\n".join(["# Do the defaults ever hurt?", "", *lines]))
    return OK
