"""``python -m experiments additive``: do curves pay?

Linear and additive models of six data sets beside gradient boosting, each at the radius that three
folds of the training rows choose; on clean test rows and with noise of 0.3 standard deviations in
every column, the radius being chosen on clean folds or with such noise in the held-out rows. Then,
on some of the rows, whether a penalty of bends would help. What was done is kept in a file of
records, and done once.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import arff
from sklearn import datasets as sk
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from drfl import datasets
from drfl.arrays import Array
from drfl.cli.console import Console
from drfl.cli.main import OK
from drfl.curves import MOST_KNOTS
from drfl.estimators import DRFLClassifier, DRFLRegressor
from drfl.files import write_text
from drfl.losses import Huber, Logistic
from drfl.selection import select_curves

DESCRIPTION = "Compare linear and additive models with gradient boosting."
EXAMPLE = """\
example:
  python -m experiments additive --repeats 10 --housing cal.housing.arff --out additive.md
"""
TRAINED, MOST_ROWS, NOISE, FOLDS = 0.7, 8000, 0.3, 3
RADII = (0.001, 0.003, 0.01, 0.03, 0.1)
MODELS = ("linear", "additive", "boosting")
TESTS = ("clean", "noisy, radius of clean rows", "noisy, radius of noisy rows")
KNOTS, MANY_ROWS, MORE_KNOTS = 4, 5000, (12, 24, MOST_KNOTS)  # of many rows the folds choose
BENDS = (0.0, 1e-4, 1e-3, 1e-2)  # prices of a bend that are tried,
BENT_ROWS, BENT_RADII = 700, RADII[1:4]  # of so many training rows, at these radii


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


def housing(path: Path) -> tuple[Array, Array]:
    """California housing from an ARFF file; the last column is predicted."""
    rows, meta = arff.loadarff(path)
    table = np.array(rows.tolist(), dtype=np.float64)
    k = list(meta.names()).index("medianHouseValue")
    return np.delete(table, k, axis=1), table[:, k]


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
    """Accuracies or R2 of the models on one split; ``taken``: whether curves were.

    ``knots``: how many the folds chose.
    """

    data: str
    split: int
    test: str
    values: tuple[float, ...]
    taken: bool
    knots: int = KNOTS


def halves(name: str, X: Array, y: Array, split: int, seed: int) -> tuple[Array, ...]:
    """Training and test rows of a split, in standard units of the training rows."""
    order = np.random.default_rng([seed, split]).permutation(len(y))
    count = min(int(TRAINED * len(y)), MOST_ROWS)
    train, test = order[:count], order[count:]
    deviation = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    if name not in CLASSES:
        y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def scores(name: str, X: Array, y: Array, split: int, seed: int) -> Iterator[Score]:
    """One split: clean, and noisy in two ways."""
    classes = name in CLASSES
    X, y, X_test, y_test = halves(name, X, y, split, seed)
    rng = np.random.default_rng([seed, split, 1])
    noisy = X_test + NOISE * rng.normal(size=X_test.shape)
    boosting: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    booster = boosting(random_state=0).fit(X, y)
    wanted: dict[str, Any] = {"norm": "l1", "additive": "all", "tol": 1e-4}
    plain: Any = DRFLClassifier(**wanted) if classes else DRFLRegressor(epsilon=1.0, **wanted)
    on_noise = {"rule": "noise", "noise_scale": NOISE}
    for rule, tests in (({"rule": "mean"}, TESTS[:2]), (on_noise, TESTS[2:])):
        how: dict[str, Any] = {**rule, "radii": RADII, "folds": FOLDS, "verbose": 0}
        found = [
            (select_curves(clone(plain).set_params(knots=k), X, y, **how, random_state=0), k)
            for k in (KNOTS, *(MORE_KNOTS if len(y) >= MANY_ROWS else ()))
        ]
        chosen, knots = max(found, key=lambda pair: pair[0].curves.best.mean)
        line = clone(plain).set_params(**chosen.lines.best_params, additive=None)
        curve = clone(plain).set_params(**chosen.curves.best_params, knots=knots)
        fits = [line.fit(X, y), curve.fit(X, y)]
        for test in tests:
            rows = X_test if test == TESTS[0] else noisy
            values = tuple(float(fit.score(rows, y_test)) for fit in (*fits, booster))
            yield Score(name, split, test, values, chosen.taken, knots)


def bends(name: str, X: Array, y: Array, split: int, seed: int) -> Iterator[Score]:
    r"""Additive models without and with a price of bends on one split.

    :math:`\min\ \mathrm{mean}\,L+\rho\max|s|+\mu\sum|s_{j,p+1}-s_{jp}|` by cvxpy, radius and price
    chosen by the same folds; values are the scores with :math:`\mu=0` and with the best one, and
    the shares of bends whose slopes change their sign.
    """
    X, y, X_test, y_test = halves(name, X, y, split, seed)
    X, y = X[:BENT_ROWS], y[:BENT_ROWS]
    kind: Any = DRFLClassifier if name in CLASSES else DRFLRegressor
    wide = kind(norm="l1", additive="all", radius=0.1, tol=1e-2).fit(X, y)
    curves, loss = wide.curves_, Logistic() if name in CLASSES else Huber(1.0)
    labels = np.where(y > np.median(np.unique(y)), 1.0, -1.0) if name in CLASSES else y
    truth = np.where(y_test > np.median(np.unique(y)), 1.0, -1.0) if name in CLASSES else y_test
    A, A_test = curves.expand(X), curves.expand(X_test)

    def judged(s: Array, b: float, ramps: Array, target: Array) -> float:
        z = ramps @ s + b
        return float(loss.value(target * z if name in CLASSES else z - target).mean())

    held: dict[tuple[float, float], float] = {}
    parts = list(KFold(FOLDS, shuffle=True, random_state=0).split(A))
    for rho, mu in product(BENT_RADII, BENDS):
        found = [_bent(A[kept], labels[kept], curves, rho, mu, loss) for kept, _ in parts]
        held[rho, mu] = float(
            np.mean([judged(*f, A[o], labels[o]) for f, (_, o) in zip(found, parts, strict=True)])
        )
    values = []
    for prices in (BENDS[:1], BENDS):
        rho, mu = min((key for key in held if key[1] in prices), key=lambda key: held[key])
        s, b = _bent(A, labels, curves, rho, mu, loss)
        z = A_test @ s + b
        right = (z > 0.0) == (truth > 0.0)
        score = right.mean() if name in CLASSES else 1.0 - np.mean((z - truth) ** 2) / truth.var()
        pairs = [(s[curves.of(j)][:-1], s[curves.of(j)][1:]) for j in range(curves.n)]
        turns = np.concatenate([a * c < -1e-12 for a, c in pairs])
        values += [float(score), float(turns.mean())]
    yield Score(name, split, "bends", tuple(values), held[rho, mu] < held[rho, 0.0])


def _bent(A: Array, y: Array, curves: Any, rho: float, mu: float, loss: Any) -> tuple[Array, float]:
    """Slopes and intercept of the penalised problem."""
    cp: Any = import_module("cvxpy")
    s, b = cp.Variable(A.shape[1]), cp.Variable()
    z = A @ s + b
    value = cp.logistic(cp.multiply(-y, z)) if loss.name == "logistic" else cp.huber(z - y) / 2.0
    first = np.flatnonzero(curves.column[:-1] == curves.column[1:])
    bend = cp.norm1(s[first + 1] - s[first]) if len(first) else 0.0
    cost = cp.sum(value) / len(y) + rho * cp.norm_inf(s) + mu * bend
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
    return np.asarray(s.value), float(b.value)


def page(found: Sequence[Score], command: str) -> list[str]:
    """The tables."""
    lines = [
        f"`{command}`. Accuracy or R², means over the splits ± standard errors. Curves have "
        f"{KNOTS} knots; with {MANY_ROWS} training rows, as in California, the folds choose among "
        f"{KNOTS}, {', '.join(map(str, MORE_KNOTS[:-1]))} and {MORE_KNOTS[-1]}, the most there may "
        f"be. Noise is of {NOISE} standard deviations in every column of the test rows. "
        "*Curves taken*: how often `select_curves` takes them.",
        "",
    ]
    lines += [
        "| data | test rows | linear | additive | boosting | additive − linear | curves taken "
        "| knots |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, test in product(dict.fromkeys(score.data for score in found), TESTS):
        some = [s for s in found if s.data == name and s.test == test]
        if some:
            values = np.array([s.values for s in some])
            cells = [_shown(values[:, k]) for k in range(len(MODELS))]
            cells.append(_shown(values[:, 1] - values[:, 0], sign=True))
            taken = f"{sum(s.taken for s in some)} of {len(some)}"
            knots = ", ".join(map(str, sorted({s.knots for s in some})))
            lines.append(f"| {name} | {test} | {' | '.join(cells)} | {taken} | {knots} |")
    bent = [score for score in found if score.test == "bends"]
    if bent:
        told = "A price of bends, chosen with the radius by the same folds"
        lines += ["", f"{told}; of at most {BENT_ROWS} training rows:", ""]
        lines += [
            "| data | without | with | difference | changes of sign, without | with |",
            "|---|---|---|---|---|---|",
        ]
    for name in dict.fromkeys(score.data for score in bent):
        values = np.array([s.values for s in bent if s.data == name])
        cells = [_shown(values[:, 0]), _shown(values[:, 2])]
        cells.append(_shown(values[:, 2] - values[:, 0], sign=True))
        cells += [f"{100 * values[:, k].mean():.0f} %" for k in (1, 3)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
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
    parser.add_argument("--data", metavar="NAMES", help="some of the data sets, with commas")
    parser.add_argument("--housing", type=Path, metavar="FILE", help="California housing, ARFF")
    parser.add_argument(
        "--records", type=Path, metavar="FILE", help="keep what was done here, and go on with it"
    )


def run(options: argparse.Namespace) -> int:
    """Run the study."""
    if options.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {options.repeats}")
    known = {**CLASSES, **NUMBERS}
    if options.housing is not None:
        known["California"] = lambda: housing(options.housing)
    names = options.data.split(",") if options.data else list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"--data has {name!r}, known are {', '.join(known)}")
    console = Console()
    kept = _read(options.records)
    found = [s for s in kept if s.data in names and s.split < options.repeats]
    done = {(score.data, score.split, score.test) for score in found}
    for split, name, test in product(range(options.repeats), names, ("bends", TESTS[0])):
        if (name, split, test) not in done:
            study = bends if test == "bends" else scores
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                new = list(study(name, *known[name](), split, options.seed))
            found += new
            _write(options.records, new)
            console.say(f"{name}: split {split + 1} of {options.repeats}")
    command = f"python -m experiments additive --repeats {options.repeats}"
    command += f" --housing {options.housing.name}" if options.housing is not None else ""
    lines = page(found, command)
    console.say(*lines)
    if options.out is not None:
        write_text(options.out, "\n".join(["# Do curves pay?", "", *lines, ""]))
    return OK


def _read(path: Path | None) -> list[Score]:
    if path is None or not path.exists():
        return []
    entries = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Score(**entry | {"values": tuple(entry["values"])}) for entry in entries]


def _write(path: Path | None, new: Sequence[Score]) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(score)) + "\n" for score in new)
