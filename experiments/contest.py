"""Seven ways to a model for a hospital that was not there, each hospital left out in turn."""

from __future__ import annotations

import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from drfl import select
from drfl.arrays import Array
from drfl.baselines import AFLClassifier
from drfl.cli.console import Console
from drfl.engines.blas import one_blas_thread, one_blas_thread_in_children
from drfl.estimators import DataWarning, DRFLClassifier
from drfl.native import FedAvgClassifier
from drfl.run import Result
from experiments.hospitals import Patients, patients, scaled
from experiments.reproduce import cores

TOL = 1e-4
"""Accuracies do not see more digits."""
ROUGH = 1e-3
"""Of the choice of radii, which sees fewer still."""
SHARE = 0.8
"""Of the patients of every training hospital, drawn anew in every repeat."""


@dataclass(frozen=True)
class Way:
    """What a method comes to: a score for every row, and what it cost.

    Attributes
    ----------
    scores : sequence of arrays of shape (N,)
        Log-odds at the new hospital; of several models if there are several.
    gap : float
        How far the loss that was minimised can be from its optimum; NaN: nothing is proved.
    rounds, kilobytes : float
        Of the federated training, with the choice of radii if there was one; NaN: there was none.
    """

    scores: Sequence[Array]
    gap: float = math.nan
    rounds: float = math.nan
    kilobytes: float = math.nan


def _local(train: Patients, new: Patients) -> Way:
    found = []
    for name in np.unique(train.hospital):
        own = train.take(train.hospital == name)
        found.append(LogisticRegression(max_iter=1000).fit(own.X, own.y).decision_function(new.X))
    return Way(found)


def _pooled(train: Patients, new: Patients) -> Way:
    grid = {"C": np.logspace(-3, 2, 6)}
    model = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=5, scoring="neg_log_loss")
    return Way([model.fit(train.X, train.y).decision_function(new.X)])


def _fitted(make: Callable[[], Any]) -> Callable[[Patients, Patients], Way]:
    def way(train: Patients, new: Patients) -> Way:
        model = make().fit(train.X, train.y, clients=train.hospital)
        return _way(model, new, model.result_.rounds)

    return way


def _selected(train: Patients, new: Patients) -> Way:
    found = select(
        DRFLClassifier(tol=ROUGH), train.X, train.y, train.hospital, rule="new_client", verbose=0
    )
    model: Any = found.estimator
    rounds = sum(point.rounds for point in found.table) + model.result_.rounds
    return _way(model, new, rounds)


def _way(model: Any, new: Patients, rounds: int) -> Way:
    result: Result = model.result_
    sent = sum(result.bytes_up.values()) + sum(result.bytes_down.values())
    gap = result.gap if result.lower_bound > 0.0 else math.nan
    # The rounds of a choice carry messages of the same kinds: kilobytes in proportion.
    kilobytes = sent / 1000 * rounds / max(result.rounds, 1)
    return Way([model.decision_function(new.X)], gap, rounds, kilobytes)


METHODS: Mapping[str, Callable[[Patients, Patients], Way]] = {
    "local models": _local,
    "pooled, tuned": _pooled,
    "FedAvg": _fitted(lambda: FedAvgClassifier(max_rounds=50)),
    "AFL": _fitted(lambda: AFLClassifier(mixture_radius=math.inf, tol=TOL)),
    "drfl": _fitted(lambda: DRFLClassifier(tol=TOL)),
    "drfl, selected": _selected,
    "drfl, new client": _fitted(lambda: DRFLClassifier(purpose="new client", tol=TOL)),
}
"""By name: from the training hospitals and the new one to scores there."""


@dataclass(frozen=True)
class Outcome:
    """How a method did.

    Attributes
    ----------
    method : str
        Which.
    accuracy : dict of str to float
        By the hospital that was left out, means over the repeats.
    mean, worst, log_loss : float
        Of these; worst: the mean over the repeats of the lowest.
    over_repeats, over_hospitals : float
        Standard errors of the mean accuracy.
    gap, rounds, kilobytes : float
        The largest gap, and means.
    """

    method: str
    accuracy: dict[str, float]
    mean: float
    worst: float
    log_loss: float
    over_repeats: float
    over_hospitals: float
    gap: float
    rounds: float
    kilobytes: float

    def facts(self) -> dict[str, Any]:
        """For the records."""
        return asdict(self)


def contest(
    repeats: int,
    seed: int,
    console: Console,
    methods: Sequence[str] = tuple(METHODS),
    jobs: int | None = None,
) -> list[Outcome]:
    """Train every method without every hospital, and judge it there; on all cores by default."""
    names = np.unique(patients().hospital).tolist()
    tasks = [(seed, k, name, tuple(methods)) for k in range(repeats) for name in names]
    found: list[dict[str, Trial]] = []
    for trials in _run(tasks, cores() if jobs is None else jobs):
        found.append(trials)
        console.note(f"{len(found)} of {len(tasks)} trainings without a hospital")
    console.clear()
    return [_outcome(m, names, [trials[m] for trials in found]) for m in methods]


Task = tuple[int, int, str, tuple[str, ...]]
"""A seed, the number of a repeat, the hospital that is left out, the methods."""


def _run(tasks: Sequence[Task], jobs: int) -> Iterator[dict[str, Trial]]:
    """What every task comes to, in their order."""
    if jobs == 1:
        yield from map(_work, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with one_blas_thread_in_children(), ProcessPoolExecutor(jobs, context) as pool:
        yield from pool.map(_work, tasks)


def _work(task: Task) -> dict[str, Trial]:
    seed, repeat, name, methods = task
    train, new = _split(patients(), name, np.random.default_rng([seed, repeat]))
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # hospitals that differ are what it is about
        ways = {method: METHODS[method](train, new) for method in methods}
    return {
        method: Trial(
            float(np.mean([_accuracy(z, new.y) for z in way.scores])),
            float(np.mean([_log_loss(z, new.y) for z in way.scores])),
            way.gap,
            way.rounds,
            way.kilobytes,
        )
        for method, way in ways.items()
    }


@dataclass(frozen=True)
class Trial:
    """A method without one hospital, in one repeat."""

    accuracy: float
    log_loss: float
    gap: float
    rounds: float
    kilobytes: float


def _split(everyone: Patients, name: str, rng: np.random.Generator) -> tuple[Patients, Patients]:
    """A share of the other hospitals' patients, and all of the new one's."""
    kept = (everyone.hospital != name) & (rng.random(len(everyone.y)) < SHARE)
    return scaled(everyone.take(kept), everyone.take(everyone.hospital == name))


def _accuracy(z: Array, y: Array) -> float:
    return float(np.mean(np.where(z > 0.0, 1.0, -1.0) == y))


def _log_loss(z: Array, y: Array) -> float:
    return float(np.mean(np.logaddexp(0.0, -y * z)))


def _outcome(method: str, names: Sequence[str], trials: Sequence[Trial]) -> Outcome:
    right = np.array([trial.accuracy for trial in trials]).reshape(-1, len(names))
    means, by_repeat, repeats = right.mean(axis=0), right.mean(axis=1), len(right)
    spread = float(by_repeat.std(ddof=1) / np.sqrt(repeats)) if repeats > 1 else math.nan
    return Outcome(
        method,
        dict(zip(names, means.tolist(), strict=True)),
        float(means.mean()),
        float(right.min(axis=1).mean()),
        float(np.mean([trial.log_loss for trial in trials])),
        spread,
        float(means.std(ddof=1) / np.sqrt(len(names))),
        max(trial.gap for trial in trials),
        float(np.mean([trial.rounds for trial in trials])),
        float(np.mean([trial.kilobytes for trial in trials])),
    )


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The outcomes for a reader."""
    names = list(outcomes[0].accuracy)
    width = max(len(o.method) for o in outcomes)
    head = [f"{'without':{width}}", *(f"{name:>11}" for name in names)]
    head += [f"{'mean':>6}", f"{'worst':>6}", f"{'log loss':>8}", f"{'proved gap':>10}"]
    lines = ["  ".join([*head, f"{'rounds':>6}", f"{'kB':>6}"])]
    for o in outcomes:
        cells = [f"{o.method:{width}}", *(f"{o.accuracy[name]:>11.1%}" for name in names)]
        cells += [f"{o.mean:>6.1%}", f"{o.worst:>6.1%}", f"{o.log_loss:>8.3f}"]
        cells += [_shown(o.gap, ">10.0e"), _shown(o.rounds, ">6.0f"), _shown(o.kilobytes, ">6.0f")]
        lines.append("  ".join(cells))
    return lines


def _shown(value: float, form: str) -> str:
    width = form.strip(">").split(".")[0]
    return f"{'-':>{width}}" if math.isnan(value) else format(value, form)
