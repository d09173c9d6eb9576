"""``python -m experiments additive``: do curves pay?

Linear and additive models of five data sets, each at the radius that three folds of the training
rows choose, beside gradient boosting; on clean test rows and with noise of 0.3 standard deviations
in every column, the radius then chosen with such noise in the held-out rows. And how many rounds a
proof of 1e-6 takes.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as sk
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from drfl import datasets
from drfl.arrays import Array
from drfl.cli.console import Console
from drfl.cli.main import OK
from drfl.estimators import DRFLClassifier, DRFLRegressor
from drfl.files import write_text
from drfl.selection import select_curves

DESCRIPTION = "Compare linear and additive models with gradient boosting."
EXAMPLE = """\
example:
  python -m experiments additive --repeats 5 --out additive.md
"""
TRAINED, NOISE, FOLDS = 0.7, 0.3, 3
RADII = (0.003, 0.01, 0.03, 0.1)
MODELS = ("linear", "additive", "boosting")
CLIENTS, RADIUS, KNOTS = 5, 0.03, (0, 4, 8)  # of the count of rounds


def synthetic() -> tuple[Array, Array]:
    """A hump, a step, a logarithm and a threshold, and six columns that are mostly noise."""
    rng, N = np.random.default_rng(3), 6000
    age, hours, income = rng.normal(size=N), rng.normal(size=N), np.exp(0.8 * rng.normal(size=N))
    pressure, Z = rng.normal(size=N), rng.normal(size=(N, 6))
    Z[:, 0] += 0.7 * age
    Z[:, 1] += 0.5 * pressure
    f = 1.5 - 1.2 * age**2 + 2.0 * np.clip(hours, -0.3, 0.6) + 1.2 * np.log(income)
    f += -1.5 * np.maximum(pressure - 0.5, 0.0) + 0.4 * Z[:, 0]
    y = np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)
    return np.column_stack([age, hours, income, pressure, Z]), y


def _bunch(found: Any) -> tuple[Array, Array]:
    return np.asarray(found.data, dtype=np.float64), np.asarray(found.target, dtype=np.float64)


CLASSES: dict[str, Callable[[], tuple[Array, Array]]] = {
    "synthetic": synthetic,
    "heart": lambda: _bunch(datasets.load_heart()),
    "breast cancer": lambda: _bunch(sk.load_breast_cancer()),
}
NUMBERS: dict[str, Callable[[], tuple[Array, Array]]] = {
    "abalone": lambda: _bunch(datasets.load_abalone()),
    "diabetes": lambda: _bunch(sk.load_diabetes()),
}


@dataclass(frozen=True)
class Score:
    """Accuracies or R2 of the three models on one split; ``taken``: whether curves were."""

    data: str
    noisy: bool
    values: tuple[float, ...]
    taken: bool


def study(names: Sequence[str], repeats: int, seed: int, console: Console) -> list[Score]:
    """All splits of all data sets."""
    found = []
    for name in names:
        for k in range(repeats):
            found += list(scores(name, np.random.default_rng([seed, k])))
        console.say(f"{name}: {repeats} splits")
    return found


def scores(name: str, rng: np.random.Generator) -> Iterator[Score]:
    """One split, clean and noisy."""
    classes = name in CLASSES
    X, y = (CLASSES if classes else NUMBERS)[name]()
    order = rng.permutation(len(y))
    train, test = np.split(order, [int(TRAINED * len(y))])
    deviation = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    if not classes:
        y = (y - y[train].mean()) / y[train].std()
    for noise in (0.0, NOISE):
        rows = X[test] + noise * rng.normal(size=X[test].shape)
        model: Any = DRFLClassifier(norm="l1", additive="all", tol=1e-4)
        if not classes:
            model = DRFLRegressor(norm="l1", additive="all", epsilon=1.0, tol=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = select_curves(
                model,
                X[train],
                y[train],
                radii=RADII,
                folds=FOLDS,
                noise_scale=noise,
                random_state=0,
            )
            fits = []
            for curves in (False, True):
                best = min((t for t in chosen.table if t.curves == curves), key=lambda t: t.loss)
                own = model.get_params() | {"radius": best.radius}
                own |= {} if curves else {"additive": None}
                fits.append(type(model)(**own).fit(X[train], y[train]))
            boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
            fits.append(boosting(random_state=0).fit(X[train], y[train]))
        values = tuple(float(fit.score(rows, y[test])) for fit in fits)
        yield Score(name, noise > 0.0, values, chosen.curves)


def rounds(name: str) -> list[int]:
    """Rounds to a proved 1e-6 with five clients, by the number of knots."""
    classes = name in CLASSES
    X, y = (CLASSES if classes else NUMBERS)[name]()
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    y = y if classes else (y - y.mean()) / y.std()
    clients = np.random.default_rng(0).integers(CLIENTS, size=len(y))
    kind: Any = DRFLClassifier if classes else DRFLRegressor
    made = []
    for knots in KNOTS:
        model = kind(norm="l1", radius=RADIUS, additive="all", knots=knots, tol=1e-6)
        made.append(int(model.fit(X, y, clients=clients).n_rounds_))
    return made


def page(found: Sequence[Score], proofs: dict[str, list[int]], command: str) -> list[str]:
    """The tables."""
    lines = [f"`{command}`. Accuracy or R², means over the splits ± standard errors.", ""]
    lines += [
        "| data | test rows | linear | additive | boosting | additive - linear | curves taken |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(score.data for score in found):
        for noisy in (False, True):
            some = [s for s in found if s.data == name and s.noisy == noisy]
            values = np.array([s.values for s in some])
            cells = [_shown(values[:, k]) for k in range(len(MODELS))]
            difference = _shown(values[:, 1] - values[:, 0], sign=True)
            taken = f"{sum(s.taken for s in some)} of {len(some)}"
            where = "noisy" if noisy else "clean"
            lines.append(f"| {name} | {where} | {' | '.join(cells)} | {difference} | {taken} |")
    lines += ["", f"Rounds to a proved gap of 1e-6, {CLIENTS} clients, radius {RADIUS}:", ""]
    lines += ["| data | " + " | ".join(f"{k} knots" for k in KNOTS) + " |", "|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(map(str, counts))} |" for name, counts in proofs.items()]
    return lines


def _shown(values: Array, *, sign: bool = False) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():{'+' if sign else ''}.3f} ± {error:.3f}"


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("--out", type=Path, metavar="FILE", help="a Markdown file to write to")
    parser.add_argument("--repeats", type=int, default=5, help="splits (5)")
    parser.add_argument("--seed", type=int, default=0, help="of the splits (0)")


def run(options: argparse.Namespace) -> int:
    """Run the study."""
    if options.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {options.repeats}")
    console, names = Console(), [*CLASSES, *NUMBERS]
    found = study(names, options.repeats, options.seed, console)
    command = f"python -m experiments additive --repeats {options.repeats}"
    lines = page(found, {name: rounds(name) for name in names}, command)
    console.say(*lines)
    if options.out is not None:
        write_text(options.out, "\n".join(["# Do curves pay?", "", *lines]))
    return OK
