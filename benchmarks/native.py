"""What the methods that the field knows need to be as good as the exact optimum.

    python benchmarks/native.py [--rounds 1000] [--losses smooth_hinge hinge] [--methods afl ...]

First for all methods: rounds and kilobytes per client (up and down) until the worst client's loss
is within 1e-2, 1e-3 and 1e-4 (relative) of the exact optimum of min max_s F_s, beside ``bundle``.
Methods for the mean of the losses, or for something near it, have another minimum and need not come
near: the last column says where they end. So second, for those whose problem is the mean: the same
until the mean is near its own optimum. Settings are the defaults, and a round is an exchange: DRFA
and SCAFF-PD use two for each of their own. Models are judged in the rounds in which a method asks
all clients for their losses, every fifth by default. One thread.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np

import drfl
from drfl.datasets import partition
from drfl.engines import Answers, SerialEngine
from drfl.losses import make_loss
from drfl.native import METHODS, FedAvg
from drfl.native.settings import Native
from drfl.run import Result
from drfl.wire import Message

LEVELS = (1e-2, 1e-3, 1e-4)
WORST = drfl.Mixture(radius=math.inf)
SOLVERS: dict[str, Native | None] = {
    "bundle": None,
    "fedavg E=1": FedAvg(local_steps=1),
    **{name: method() for name, method in METHODS.items()},
}
MEAN = ("bundle", "fedavg E=1", "fedavg", "fedprox", "scaffold", "fedadmm")


def heart(n_clients: int = 5) -> list[drfl.Client]:
    """Standardised, divided so that the clients' shares of the classes differ."""
    bunch = drfl.datasets.load_heart()
    X = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    parts = partition.sorted_skew(bunch.target, n_clients, 0.25, np.random.default_rng(0))
    return [drfl.Client(f"heart {s}", X[i], bunch.target[i]) for s, i in enumerate(parts)]


def synthetic(n_clients: int = 8, n_features: int = 10) -> list[drfl.Client]:
    """Clients with rows, a mean, a spread and a model of their own."""
    rng = np.random.default_rng(0)
    common, clients = rng.normal(size=n_features), []
    for s in range(n_clients):
        spread, mean = np.exp(0.3 * rng.normal(size=n_features)), 0.3 * rng.normal(size=n_features)
        X = rng.normal(size=(int(rng.integers(40, 160)), n_features)) * spread + mean
        w = (common + 0.7 * rng.normal(size=n_features)) / math.sqrt(n_features)
        clients.append(drfl.Client(f"c{s}", X, np.sign(X @ w + 0.5 * rng.normal(size=len(X)))))
    return clients


DATA = {"heart": heart, "synthetic": synthetic}


class Watching(SerialEngine):
    """Remembers the models at which all clients were asked for their losses, by round."""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[int, np.ndarray] = {}

    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        for message in messages.values():
            if message.arrays["plan"][1]:
                where = "point" if "point" in message.arrays else "x"
                self.models[message.round + 1] = message.arrays[where]
        return super().map(messages, deadline)


class Run:
    """One method on these clients: distances from an optimum, with what it cost to get there."""

    def __init__(
        self, name: str, loss: str, mixture: drfl.Mixture, clients: list[drfl.Client], rounds: int
    ) -> None:
        self.loss, self.clients = make_loss(loss), clients
        method, engine = SOLVERS[name], Watching() if SOLVERS[name] else SerialEngine()
        self.result: Result = drfl.solve(
            drfl.Problem(loss, mixture=mixture),
            clients,
            solver=method or "bundle",
            engine=engine,
            tol=1e-7,
            max_rounds=rounds,
        )
        self.models = engine.models if isinstance(engine, Watching) else None

    def losses(self, x: np.ndarray) -> np.ndarray:
        """The clients' mean losses, of the rows as they are, whatever the method minimises."""
        rows = [client.rows for client in self.clients]
        return np.array([r.mean(self.loss.value(r.y * r.scores(x[:-1], x[-1]))) for r in rows])

    def seen(self, best: float, *, worst: bool) -> list[tuple[float, int, float]]:
        """Distance from the optimum, round and kilobytes, wherever a model was judged."""
        seen = []
        for record in self.result.history:
            value = record.objective  # of bundle: its problem is the one in question
            if self.models is not None:
                if record.round not in self.models:
                    continue
                losses = self.losses(self.models[record.round])
                value = losses.max() if worst else losses.mean()
            size = sum(record.bytes_up.values()) + sum(record.bytes_down.values())
            seen.append((value / best - 1.0, record.round, size / len(self.clients) / 1e3))
        return seen

    def reached(self, best: float, *, worst: bool) -> list[tuple[float, float]]:
        """Rounds and kilobytes to each level; infinite if it was not reached."""
        seen = self.seen(best, worst=worst)
        first = [next((entry for entry in seen if entry[0] <= level), None) for level in LEVELS]
        return [(float(at[1]), at[2]) if at else (math.inf, math.inf) for at in first]

    def cells(self, best: float, *, worst: bool) -> list[str]:
        """Rounds and kilobytes to each level, and the distance of the last model."""
        cells = [
            f"{rounds:6.0f} {size:8.1f}" if math.isfinite(rounds) else f"{'-':>6} {'-':>8}"
            for rounds, size in self.reached(best, worst=worst)
        ]
        return [*cells, f"{self.seen(best, worst=worst)[-1][0]:9.1e}"]


def print_tables(loss: str, clients: list[drfl.Client], methods: list[str], rounds: int) -> None:
    bests = {
        mixture: drfl.solve(drfl.Problem(loss, mixture=mixture), clients, tol=1e-8).objective
        for mixture in (WORST, drfl.Mixture())
    }
    head = " | ".join([f"{'method':10}", *(f"{f'{level:g}':>15}" for level in LEVELS), "    final"])
    print(f"worst client's loss, at best {bests[WORST]:.6f}: rounds and kB per client to within")
    print(head)
    runs = {}
    for name in methods:
        method = SOLVERS[name]
        mixture = WORST if method is None or method.robust else drfl.Mixture()
        runs[name] = Run(name, loss, mixture, clients, rounds)
        cells = runs[name].cells(bests[WORST], worst=True)
        print(" | ".join([f"{name:10}", *cells]), flush=True)
    print(f"mean loss, at best {bests[drfl.Mixture()]:.6f}:")
    print(head)
    if "bundle" in methods:
        runs["bundle"] = Run("bundle", loss, drfl.Mixture(), clients, rounds)
    for name in (name for name in methods if name in MEAN):
        cells = runs[name].cells(bests[drfl.Mixture()], worst=False)
        print(" | ".join([f"{name:10}", *cells]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="the most that a method may use")
    parser.add_argument("--losses", nargs="+", default=["smooth_hinge", "hinge"])
    parser.add_argument("--methods", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    options = parser.parse_args()
    for data in options.data:
        for loss in options.losses:
            clients = DATA[data]()
            print(f"\n{data}, {loss}, {len(clients)} clients")
            print_tables(loss, clients, options.methods, options.rounds)


if __name__ == "__main__":
    main()
