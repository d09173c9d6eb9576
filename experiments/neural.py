"""``python -m experiments neural``: does robustness help networks?

Every client's rows are divided: 30 % test, a quarter of the others chooses the strength of each
method (and FedAvg's step, which all take), the rest trains. Nothing is chosen by test rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

import drfl
from drfl.arrays import Array
from drfl.estimators import DataWarning, ScaleWarning
from drfl.native import AFL, DRFA, WAFL, DualADMM, FedAvg
from drfl.native.settings import Native
from drfl.rows import Rows as ClientRows
from drfl.torch import Model, NetworkLoss
from drfl.torch.adversary import Adversary, Block, InputGradient, Moved
from experiments import neural_data as data
from experiments.neural_data import Rows, Split
from experiments.neural_report import report
from experiments.records import Done, Row, Task
from experiments.registry import Experiment
from experiments.settings import Settings, at_least, increasing, one_of

LOCAL, HIDDEN = 5, 32
"""Local steps of a round, and hidden units."""
LINE = "linear (drfl)"


@dataclass(frozen=True)
class Neural(Settings):
    """What is compared.

    Attributes
    ----------
    data : tuple of str
        Data sets.
    rounds : int
        Of five local steps; AFL, which makes one, has five times as many, DRFA, which needs two
        rounds for a step, twice as many.
    steps : tuple of float
        Among which FedAvg's is chosen.
    radii, deviations, prices, weights : tuple of float
        Strengths: of balls, in units of the features; of Gaussian noise in training rows; gamma of
        WAFL; mixture radii of AFL and DRFA.
    theta : float
        The mixture radius that DRFL may choose instead of 0, with the radius that was best.
    noise : float
        The deviation of noise in test rows.
    """

    data: tuple[str, ...] = data.DATA
    rounds: int = 50
    steps: tuple[float, ...] = (0.3, 1.0)
    radii: tuple[float, ...] = (0.1, 0.2, 0.4)
    deviations: tuple[float, ...] = (0.1, 0.2, 0.4)
    prices: tuple[float, ...] = (1.0, 3.0, 10.0)
    weights: tuple[float, ...] = (math.inf,)
    theta: float = 0.3
    noise: float = 0.25

    def __post_init__(self) -> None:
        for name in self.data:
            one_of("data", name, *data.DATA)
        at_least("rounds", self.rounds, 5)
        for name in ("steps", "radii", "deviations", "prices", "weights"):
            increasing(name, getattr(self, name), 0.0)

    def quick(self) -> Self:
        return replace(
            self,
            data=("digits", "abalone"),
            rounds=10,
            steps=(0.3,),
            radii=(0.3,),
            deviations=(0.1,),
            prices=(1.0,),
            weights=(math.inf,),
        )

    @property
    def full_seeds(self) -> int:
        return 3


@dataclass(frozen=True)
class Way:
    """A method with its strength: what it minimises, by which solver, in how many rounds."""

    method: str
    strength: float
    solver: Callable[[float, int], Native]
    ball: drfl.Ball = field(default_factory=drfl.Ball)
    mixture: float = 0.0
    deviation: float = 0.0
    longer: int = 1


def ways(settings: Neural) -> dict[str, list[Way]]:
    """By method: what its strength is chosen among. FedAvg is trained before, for its step."""

    def average(step: float, seed: int) -> Native:
        return FedAvg(local_steps=LOCAL, step_size=step, seed=seed)

    def afl(step: float, seed: int) -> Native:
        return AFL(step_size=step, averaged=False, seed=seed)

    def drfa(step: float, seed: int) -> Native:
        return DRFA(local_steps=LOCAL, step_size=step, averaged=False, decay=0.0, seed=seed)

    def wafl(gamma: float) -> Callable[[float, int], Native]:
        return lambda step, seed: WAFL(gamma=gamma, local_steps=LOCAL, step_size=step, seed=seed)

    robust = {
        name: [
            Way(name, radius, average, drfl.Ball(radius, "l2", order=order))
            for radius in settings.radii
        ]
        for name, order in (("DRFL, order 2", 2.0), ("DRFL, order inf", math.inf))
    }
    return {
        "FedAvg": [Way("FedAvg", 0.0, average)],
        "Gaussian noise": [
            Way("Gaussian noise", deviation, average, deviation=deviation)
            for deviation in settings.deviations
        ],
        "AFL": [Way("AFL", w, afl, mixture=w, longer=LOCAL) for w in settings.weights],
        "DRFA": [Way("DRFA", w, drfa, mixture=w, longer=2) for w in settings.weights],
        "WAFL": [Way("WAFL", gamma, wafl(gamma)) for gamma in settings.prices],
        **robust,
    }


def _dual(step: float, seed: int) -> Native:
    return DualADMM(local_steps=LOCAL, step_size=step, seed=seed)


@dataclass(frozen=True)
class Shaken(Model):
    """A network whose training rows have fresh Gaussian noise in every step."""

    deviation: float = 0.0
    seed: int = 0

    def at(self, rows: ClientRows, ball: drfl.Ball, name: str) -> NetworkLoss:
        generator = torch.Generator().manual_seed(self.seed + sum(name.encode()))
        return NetworkLoss(rows, self, ball, name, Shaking(self.deviation, generator))


@dataclass(frozen=True)
class Shaking(Adversary):
    """Moves rows by noise."""

    deviation: float
    generator: torch.Generator

    def moved(self, blocks: Sequence[Block], gradient: InputGradient) -> Sequence[Moved]:
        del gradient
        return [lambda rows=rows: self._shaken(rows) for rows, _, _ in blocks]  # type: ignore[misc]

    def _shaken(self, rows: Tensor) -> Tensor:
        drawn = torch.randn(rows.shape, generator=self.generator, dtype=rows.dtype)
        return rows + self.deviation * drawn


def tasks(settings: Neural, seeds: int) -> list[Task]:
    """A data set and a seed each."""
    return [{"data": name, "seed": seed} for seed in range(seeds) for name in settings.data]


def run(settings: Neural, task: Task) -> list[Row]:
    """Choose and train every method; a row each."""
    torch.set_num_threads(1)
    name, seed = task["data"], task["seed"]
    study = Study(settings, name, data.split(name, seed), seed)
    step, module = study.plain()
    found = [{"method": "FedAvg", "step": step, **study.judged(_outputs(module))}]
    for method, among in ways(settings).items():
        if method != "FedAvg":
            found.append(study.row(method, among, step))
    found.append(study.line())
    if name == "digits":
        found.append({"method": "rounds", **study.rounds_to_an_objective(step)})
    return found


@dataclass(frozen=True)
class Study:
    """One data set, divided by one seed."""

    settings: Neural
    name: str
    rows: Split
    seed: int

    @property
    def numbers(self) -> bool:
        """Whether the target is a number."""
        return self.name in data.NUMBERS

    @cached_property
    def clients(self) -> list[drfl.Client]:
        """With the rows that train."""
        return [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(self.rows.fitting)]

    def build(self) -> nn.Module:
        """Two layers."""
        n = self.rows.fitting[0][0].shape[1]
        outputs = {"digits": 10, "abalone": 1}.get(self.name, 2)
        return nn.Sequential(nn.Linear(n, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))

    def plain(self) -> tuple[float, nn.Module]:
        """FedAvg's step, and what it comes to with it."""
        (way,) = ways(self.settings)["FedAvg"]
        found = [(step, self.trained(way, step)) for step in self.settings.steps]
        return max(found, key=lambda pair: self._chosen_by(pair[1]))

    def row(self, method: str, among: Sequence[Way], step: float) -> Row:
        """Train a method with every strength, choose one, judge it."""
        found = [(way, self.trained(way, step)) for way in among]
        best = max(found, key=lambda pair: self._chosen_by(pair[1]))
        if best[0].ball.radius > 0.0:
            unsure = replace(best[0], solver=_dual, mixture=self.settings.theta)
            other = (unsure, self.trained(unsure, step))
            best = max(best, other, key=lambda pair: self._chosen_by(pair[1]))
        way, module = best
        chosen = {"strength": way.strength, "mixture": way.mixture, "step": step}
        return {"method": method, **chosen, **self.judged(_outputs(module))}

    def trained(self, way: Way, step: float) -> nn.Module:
        """The network that a method comes to."""
        loss = "huber" if self.numbers else "cross_entropy"
        model = Model(self.build, loss)
        if way.deviation:
            model = Shaken(self.build, loss, way.deviation, self.seed)
        result = drfl.solve(
            drfl.Problem(model, way.ball, drfl.Mixture("uniform", way.mixture)),
            self.clients,
            solver=way.solver(step, self.seed),
            max_rounds=way.longer * self.settings.rounds,
        )
        return model.module_at(result.coef)

    def judged(self, outputs: Callable[[Array], Array]) -> Row:
        """Clean, worst client, noise; and all clients."""
        clean = self._scores(self.rows.testing, outputs)
        shaken = data.noisy(self.rows.testing, self.settings.noise, self.seed)
        return {
            "clean": float(np.mean(clean)),
            "worst": min(clean),
            "noise": float(np.mean(self._scores(shaken, outputs))),
            "clients": clean,
        }

    def line(self) -> Row:
        """The linear model with drfl's defaults, certified, of the same rows."""
        X, y = (np.concatenate(part) for part in zip(*self.rows.fitting, strict=True))
        who = np.repeat(np.arange(len(self.clients)), [len(b) for _, b in self.rows.fitting])
        kind: Any = drfl.DRFLRegressor if self.numbers else drfl.DRFLClassifier
        with warnings.catch_warnings():
            # Pixels keep their units: divided by their deviations, noise in the corners is all.
            warnings.simplefilter("ignore", ScaleWarning)
            warnings.simplefilter("ignore", DataWarning)  # some pixels are always white
            model = kind(tol=1e-3).fit(X, y, clients=who)

        def outputs(rows: Array) -> Array:
            if self.numbers:
                return np.asarray(model.predict(rows)[:, None])
            z = model.decision_function(rows)
            return np.asarray(np.column_stack([-z, z]) if z.ndim == 1 else z)

        return {"method": LINE, **self.judged(outputs)}

    def rounds_to_an_objective(self, step: float) -> Row:
        """FedAvg's objective after all its rounds, and when each of the two gets there."""
        problem = drfl.Problem(Model(self.build), drfl.Ball(), drfl.Mixture("uniform"))
        reached = []
        for solver in (
            FedAvg(local_steps=LOCAL, step_size=step, seed=self.seed, evaluate_every=1),
            DualADMM(local_steps=LOCAL, step_size=step, seed=self.seed, evaluate_every=1),
        ):
            rounds = self.settings.rounds
            history = drfl.solve(problem, self.clients, solver=solver, max_rounds=rounds).history
            reached.append([record.objective for record in history])
        target = reached[0][-1]
        first = [next((k for k, f in enumerate(fs) if f <= target), -1) for fs in reached]
        return {"objective": target, "fedavg": first[0], "dual_admm": first[1]}

    def _chosen_by(self, module: nn.Module) -> float:
        return float(np.mean(self._scores(self.rows.choosing, _outputs(module))))

    def _scores(self, part: Sequence[Rows], outputs: Callable[[Array], Array]) -> list[float]:
        """By client: the share of right classes, or R^2 with the variance of all test rows."""
        found = [(outputs(X), y) for X, y in part]
        if not self.numbers:
            return [data.right(z, y) for z, y in found]
        unit = float(np.var(np.concatenate([y for _, y in part])))
        errors = [float(np.mean((z[:, 0] - y) ** 2)) / unit for z, y in found]
        return [1.0 - error if math.isfinite(error) else -math.inf for error in errors]


def _outputs(module: nn.Module) -> Callable[[Array], Array]:
    def outputs(X: Array) -> Array:
        with torch.no_grad():
            return np.asarray(module(torch.as_tensor(X, dtype=torch.float32)).numpy())

    return outputs


def draw(settings: Neural, done: Sequence[Done], folder: Path, name: str) -> list[Path]:
    """Nothing: the tables say it."""
    del settings, done, folder, name
    return []


EXPERIMENT = Experiment(Neural(), tasks, run, report, draw)
