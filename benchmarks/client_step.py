"""How long a client step of Algorithm 1 takes, beside the paper's own program in cvxpy + Clarabel.

    python benchmarks/client_step.py [--rows 1000] [--features 10] [--rounds 300] [--check]

One thread, CPU time. Five clients run Algorithm 1; the points that the first one is asked to
project are noted, and then both methods solve the step at these points: ours at all of them in
order, as in a run (the first without any old cut), the convex program at a few. "program" is the
time to state, compile and solve it. "warm" is the second half of the run, when the cuts that
are kept from round to round serve; the target is for it, the whole run has none. The answers are
compared: the last column is how much better (negative: worse) our objective is than Clarabel's,
relatively, at its worst.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import cvxpy as cp
import numpy as np

import drfl
from drfl.client import Site
from drfl.reference.client_rows import make_client
from drfl.reference.programs import client_program
from drfl.solvers.admm import AdLpmm
from drfl.solvers.admm.ad_lpmm import AdLpmmSession
from drfl.solvers.admm.client_step import ClientStep
from drfl.solvers.admm.multipliers import ClientMultipliers

CLIENTS, C = 5, 0.1
Point = tuple[np.ndarray, float]


@dataclass(frozen=True)
class Case:
    """A loss and a ball; ``target``: how many times faster than the program we have to be."""

    name: str
    loss: str
    ball: drfl.Ball
    target: float | None = None

    @property
    def problem(self) -> drfl.Problem:
        return drfl.Problem(self.loss, self.ball, drfl.Mixture(radius=0.1), intercept="none")


BOX = drfl.Box(-1.0, 1.0)
CASES = [
    Case("hinge, box, label cost 1", "hinge", drfl.Ball(0.1, "l1", 1.0, BOX), 1000),
    Case("hinge, box, labels fixed", "hinge", drfl.Ball(0.1, "l1", math.inf, BOX), 1000),
    Case("eps-insensitive, box", "epsilon_insensitive", drfl.Ball(0.1, "l1", 1.0, BOX), 1000),
    Case("pinball, box", "pinball", drfl.Ball(0.1, "l1", 1.0, BOX), 1000),
    Case("hinge, whole space", "hinge", drfl.Ball(0.1, "l1", 1.0)),
    Case("smooth hinge, whole space", "smooth_hinge", drfl.Ball(0.1, "l1", 1.0)),
    Case("logistic, whole space", "logistic", drfl.Ball(0.1, "l1", 1.0)),
    Case("Huber, whole space", "huber", drfl.Ball(0.1, "l1", 1.0)),
]


def make_sites(case: Case, N: int, n: int) -> list[Site]:
    """Clients with rows in the box, each with a model of its own."""
    rng, problem = np.random.default_rng(0), case.problem
    common, sites = rng.normal(size=n), []
    for s in range(CLIENTS):
        X = rng.uniform(-1.0, 1.0, size=(N, n))
        y = X @ (common + 0.3 * rng.normal(size=n)) + rng.normal(size=N)
        if problem.loss.task == "classification":
            y = np.where(y > 0.0, 1.0, -1.0)
        sites.append(Site(drfl.Client(f"c{s}", X, y), problem))
    return sites


def points_of_a_run(case: Case, sites: list[Site], rounds: int) -> list[Point]:
    """What the first client of Algorithm 1 projects, round after round."""
    solver = AdLpmm(c=C, certify_every=rounds + 1)
    names, n = [site.name for site in sites], sites[0].n_features
    session = solver.start(case.problem, names, n, tol=1e-12, max_rounds=rounds + 1)
    assert isinstance(session, AdLpmmSession)
    points = []
    for _ in range(rounds):
        state = ClientMultipliers(session.dual[0], session.last[0])
        centre = state.centre(np.append(session.w, session.z[0]), session.penalty)
        points.append((centre[:-1], float(centre[-1])))
        messages = session.propose()
        answers = {s.name: s.answer(messages[s.name], solver.handlers) for s in sites}
        session.absorb(answers, {})
    return points


def by_program(site: Site, point: Point) -> tuple[float, float]:
    """Seconds and objective."""
    a, e = point
    start = time.process_time()
    rows, ball, loss = site.rows, site.oracle.ball, site.oracle.loss
    client = make_client(
        loss, rows.X, rows.y, None, ball.radius, ball.label_cost, ball.norm, ball.support
    )
    v = cp.Variable(len(a))
    pi, constraints = client_program(client, loss, v, 0.0, "paper")
    objective = cp.Minimize(cp.sum_squares(v - a) / 2 + cp.square(pi - e) / 2)
    value = cp.Problem(objective, constraints).solve(solver="CLARABEL")
    return time.process_time() - start, float(value)


def by_projection(site: Site, points: list[Point]) -> tuple[list[float], list[float], float]:
    """Seconds and objective of every step, and the passes over the rows of one step."""
    step, seconds, values, passes = ClientStep(site.oracle, site.dimension), [], [], 0
    for a, e in points:
        start = time.process_time()
        found = step.project(a, e)
        seconds.append(time.process_time() - start)
        passes += found.passes
        values.append(float((found.v - a) @ (found.v - a)) / 2 + (found.value - e) ** 2 / 2)
    return seconds, values, passes / len(points)


def measure(case: Case, options: argparse.Namespace) -> bool:
    """Print a row; whether the target is met."""
    sites = make_sites(case, options.rows, options.features)
    points = points_of_a_run(case, sites, options.rounds)
    seconds, values, passes = by_projection(sites[0], points)
    chosen = [int(k) for k in np.linspace(0, len(points) - 1, options.programs)]
    programs = {k: by_program(sites[0], points[k]) for k in chosen}
    program = statistics.median(t for t, _ in programs.values())
    better = min((v - values[k]) / max(v, 1e-12) for k, (_, v) in programs.items())
    run, warm = statistics.mean(seconds), statistics.mean(seconds[len(seconds) // 2 :])
    good = case.target is None or program / warm >= case.target
    print(
        f"{case.name:26} {1e3 * seconds[0]:8.2f} {1e3 * run:8.3f} {1e3 * warm:8.3f} {passes:6.1f} "
        f"{1e3 * program:10.0f} {program / run:8.0f} {program / warm:8.0f} "
        f"{case.target or '':>6} {better:9.1e}{'' if good else '  MISSED'}",
        flush=True,
    )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000, help="of one client")
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=300, help="steps of the run")
    parser.add_argument("--programs", type=int, default=3, help="of them solved by Clarabel")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    print(
        f"{'':26} {'first ms':>8} {'run ms':>8} {'warm ms':>8} {'passes':>6} {'program ms':>10} "
        f"{'run x':>8} {'warm x':>8} {'target':>6} {'better by':>9}"
    )
    met = [measure(case, options) for case in CASES]
    if options.check and not all(met):
        sys.exit(1)


if __name__ == "__main__":
    main()
