"""How many rounds, kilobytes and seconds a solve takes.

    python benchmarks/rounds.py [SECTION ...] [--seeds K] [--check]
        [--libsvm PATH --features n] [--arff PATH] [--solver NAME ...] [--store]

Some sections are compared with what is stored in ``rounds.json``: medians and worst of the
certified rounds over the case's divisions of the rows may not grow (``--check`` fails then;
``--store`` writes them anew). Stored rows that a run did not check are named at its end.

One row per configuration, medians over the seeds of the split. A true gap is the distance of the
best objective so far to the optimum, which a solve to 1e-8 gives; a certified gap is the one that
the run itself proves. Kilobytes (1000 bytes) are those of one client, both ways, everything
counted. Seconds are per round, those of the clients added up. One thread.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from _cases import GRID, GUARDED, SECTIONS, SHAPES, STEP_SIZES, Case
from _data import Data, MissingFileError, add_arguments, load, split
from _stored import unchecked

import drfl
from drfl.engines import SerialEngine
from drfl.engines.base import Answers
from drfl.solvers import SOLVERS, Solver, make_solver
from drfl.solvers.admm import AdLpmm, Admm
from drfl.wire import Failure

TRUE = {"true 1e-2": 1e-2, "true 1e-3": 1e-3, "true 1e-4": 1e-4, "true 1e-6": 1e-6}
OPTIMUM_TOL = 1e-8
STORED = Path(__file__).with_name("rounds.json")
# Later rounds have more cuts: server times of runs of unequal length are compared on these.
EARLY = 5
HEAD = (
    f"| {'data, S, split, loss, label cost':44} | {'solver':20} | {'true 1e-2/-3/-4/-6':18} "
    f"| {'cert. 1e-4/tol':14} | {'kB':>7} | {'server s':>8} | {'clients s':>9} | target |"
)
Measures = dict[str, float]


def measure(case: Case, solver: Solver, data: Data, seed: int) -> tuple[Measures, drfl.Result]:
    """Solve one division of the rows; every measure is better if smaller."""
    (X, y), problem = data, case.problem(*data)
    parts = split(case.split, y, case.clients, seed)
    seconds = [_product_seconds(X)] if case.products else []
    start = time.process_time()
    result = _solve(case, problem, solver, X, y, parts, case.policy, lost=(case.lost, seed))
    spent = time.process_time() - start
    seconds += [_product_seconds(X)] if case.products else []
    out = {
        "certified 1e-4": _first(result, lambda record: record.gap <= 1e-4),
        "certified": _first(result, lambda record: record.gap <= case.tol),
        "server s": result.seconds_server / result.rounds,
        "early s": result.history[:EARLY][-1].seconds_server / min(EARLY, result.rounds),
        "clients s": result.seconds_clients / result.rounds,
        "kB": _bytes(result) / 1e3,
    }
    if case.local:
        start = time.process_time()
        _solve(case, problem, "local", X, y, parts, case.policy)
        out["bundle / local"] = spent / (time.process_time() - start)
    if case.products:
        out["server / X@w"] = out["server s"] / statistics.mean(seconds)
    if case.reference:
        optimum, scale = _optimum(case, problem, X, y, parts, result)
        for name, tol in TRUE.items():
            level = optimum + tol * scale
            out[name] = _first(result, lambda record, level=level: record.objective <= level)
        out["lag"] = max(
            _first(result, lambda record, tol=tol: record.gap <= tol) - out[name]
            for name, tol in TRUE.items()
            if math.isfinite(out[name]) and tol >= case.tol
        )
    return out, result


class LosingEngine(SerialEngine):
    """Each answer is lost with this probability."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self.share, self.rng = share, np.random.default_rng(seed)

    def map(self, messages, deadline) -> Answers:
        answers = super().map(messages, deadline)
        lost = {name for name in answers.replies if self.rng.random() < self.share}
        kept = {name: reply for name, reply in answers.replies.items() if name not in lost}
        failures = dict(answers.failures) | dict.fromkeys(lost, Failure.DEADLINE)
        return Answers(kept, failures, answers.seconds)


def _solve(case, problem, solver, X, y, parts, policy, tol=None, lost=(0.0, 0)) -> drfl.Result:
    engine = LosingEngine(*lost) if lost[0] else "serial"
    clients = [
        drfl.Client(f"c{s}", X[rows], y[rows], policy=policy) for s, rows in enumerate(parts)
    ]
    return drfl.solve(
        problem,
        clients,
        solver=solver,
        tol=tol or case.tol,
        max_rounds=case.max_rounds,
        engine=engine,
    )


def _optimum(case, problem, X, y, parts, result) -> tuple[float, float]:
    """Half-way between the best bounds known, and the unit of relative gaps."""
    # Where the norm costs next to nothing cuts take minutes to 1e-8, all rows at once seconds.
    solver = "bundle" if case.box else "local"
    near = _solve(case, problem, solver, X, y, parts, drfl.Policy(), OPTIMUM_TOL)
    upper = min(near.objective, result.objective)
    lower = min(max(near.lower_bound, result.lower_bound), upper)
    scale = max(abs(upper), 1e-3 * near.history[0].objective)
    if upper - lower > 2e-7 * scale:
        print(f"(the optimum is known to {(upper - lower) / scale:.1e} only)")
    return (upper + lower) / 2.0, scale


def _first(result: drfl.Result, good) -> float:
    """The first round whose record is good."""
    return next((float(r.round) for r in result.history if good(r)), math.inf)


def _bytes(result: drfl.Result) -> float:
    return statistics.mean(result.bytes_up[s] + result.bytes_down[s] for s in result.bytes_up)


def _product_seconds(X: np.ndarray) -> float:
    w, seconds = np.ones(X.shape[1]), []
    for _ in range(25):
        start = time.perf_counter()
        X @ w
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


class Report:
    """Runs cases, prints a row for each, remembers what was missed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.missed = options, list[str]()
        self.loaded: dict[object, Data] = {}
        self.certified: dict[str, list[float]] = {}
        self.server: dict[int, float] = {}
        self.rounds: dict[str, list[float]] = {}
        self.stored: dict[str, list[float]] = {}
        if STORED.exists():
            self.stored = json.loads(STORED.read_text(encoding="utf-8"))

    def section(self, name: str) -> None:
        print(f"\n{name}\n\n{HEAD}\n|{'---|' * 8}", flush=True)
        self.certified = {}
        for case in SECTIONS[name]:
            data = self._data(case)
            for solver in self._solvers(case, data) if data else ():
                self._row(name, case, solver, data)
        for title, rounds in self.certified.items() if len(self.certified) > 1 else ():
            print(f"{title}: median {statistics.median(rounds):g} of {len(rounds)} cases")

    def grid(self) -> None:
        """Rounds to the tolerance for every loss, norm and p, in a table of its own."""
        print("\ngrid: heart, S = 10, certified 1e-6\n\n| loss | norm | p = 1 | p = 2 | p = inf |")
        print(f"|{'---|' * 5}")
        for one, two, three in zip(GRID[::3], GRID[1::3], GRID[2::3], strict=True):
            cells = []
            for case in (one, two, three):
                row, ends = self._medians(case, case.bundle, self._data(case))
                bad = [end for end in ends if end != "certified"]
                cells.append(" ".join([_whole(row["certified"]), *bad]))
                self.missed += [f"{case.label('heart')} p={case.p:g}: {bad[0]}"] if bad else []
            print(f"| {one.loss} | {one.norm} | {' | '.join(cells)} |", flush=True)

    def _data(self, case: Case) -> Data | None:
        if case.data not in self.loaded:
            try:
                self.loaded[case.data] = load(case.data, self.options)
            except MissingFileError as missing:
                print(f"(skipped: {case.label(str(case.data))} needs {missing})")
                return None
        return self.loaded[case.data]

    def _solvers(self, case: Case, data: Data) -> Iterator[Solver]:
        yield case.bundle
        yield from (make_solver(name) for name in self.options.solver if name in SOLVERS)
        if case.rivals:
            yield self._tuned(case, data, tight=False)
            yield self._tuned(case, data, tight=True)
            yield Admm()

    def _tuned(self, case: Case, data: Data, *, tight: bool) -> AdLpmm:
        """Algorithm 1 with the step size that needs the fewest rounds on the first seed."""

        def rounds(solver: AdLpmm) -> tuple[float, ...]:
            row, _ = measure(case, solver, data, 0)
            if self.options.each:
                print(f"    {_title(solver)}: {_numbers(row)}", flush=True)
            return tuple(row[name] for name in ("true 1e-4", "true 1e-3", "true 1e-2"))

        return min((AdLpmm(c=c, tight=tight) for c in STEP_SIZES), key=rounds)

    def _row(self, section: str, case: Case, solver: Solver, data: Data) -> None:
        label = case.label(self._name(case))
        try:
            row, ends = self._medians(case, solver, data)
        except ValueError as error:
            print(f"({label}, {solver.name}: {error})", flush=True)
            return
        title = _title(solver) + (", flips not apart" if case.unsplit else "")
        self.certified.setdefault(title, []).append(row["certified"])
        bundle = solver.name == "bundle"
        if bundle and isinstance(case.data, tuple):
            self.server[case.clients] = row["early s"]
        if case.against in self.server:
            row["server growth"] = row["early s"] / self.server[case.against]
        true = "/".join(_whole(row.get(name, math.inf)) for name in TRUE) if case.reference else ""
        proved = f"{_whole(row['certified 1e-4'])}/{_whole(row['certified'])}"
        ours = bundle and SHAPES.get(str(case.data), data[0].shape) == data[0].shape
        remarks = [self._judge(label, row, case)] if ours else []
        as_stored = self._divisions(case) == case.divisions and not case.unsplit
        if ours and section in GUARDED and as_stored:
            remarks.append(self._compare(f"{section}: {label}", row))
        remarks = [remark for remark in remarks if remark]
        remarks += sorted({end for end in ends if end != "certified"})
        print(
            f"| {label:44} | {_title(solver):20} | {true:18} | {proved:14} | {row['kB']:7.2f} "
            f"| {row['server s']:8.3f} | {row['clients s']:9.3f} | {', '.join(remarks)} |",
            flush=True,
        )

    def _name(self, case: Case) -> str:
        if isinstance(case.data, tuple):
            return "synthetic {}x{}".format(*case.data)
        path = {"libsvm": self.options.libsvm, "arff": self.options.arff}.get(case.data)
        return path.stem if path else case.data

    def _medians(self, case: Case, solver: Solver, data: Data) -> tuple[Measures, list[str]]:
        rows, ends = [], []
        for seed in range(self._divisions(case)):
            row, result = measure(case, solver, data, seed)
            rows.append(row)
            ends.append(str(result.status.kind))
            if self.options.each:
                print(f"    seed {seed}: {_numbers(row)} {result.status}", flush=True)
        medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        return medians | {"worst": max(row["certified"] for row in rows)}, ends

    def _divisions(self, case: Case) -> int:
        return self.options.seeds or case.divisions

    def _compare(self, label: str, row: Measures) -> str:
        """The median and the worst of the divisions beside the stored ones."""
        found = [row["certified"], row["worst"]]
        before = self.stored.get(label)
        if before is None and math.isinf(row["worst"]):  # there are no rounds to its end
            return ""
        self.rounds[label] = found
        word = f"median {found[0]:g}, worst {found[1]:g}"
        if self.options.store:
            return word
        if before is None:
            word += " NOT STORED"
        elif found[0] > before[0] or found[1] > before[1]:
            word += f" GREW from {before[0]:g}, {before[1]:g}"
        else:
            return word
        self.missed.append(f"{label}: {word}")
        return word

    def _judge(self, label: str, row: Measures, case: Case) -> str:
        """The targets, with what was reached where they were missed."""
        words = []
        for name, most in case.targets.items():
            word = f"{name} {most:.4g}"
            if row[name] > most * (1.0 + 1e-9):
                word += f" MISSED ({row[name]:.4g})"
                self.missed.append(f"{label}: {word}")
            elif name not in ("certified", "kB") and name not in TRUE:
                word += f" ({row[name]:.3g})"
            words.append(word)
        return ", ".join(words)


def _title(solver: Solver) -> str:
    if not isinstance(solver, AdLpmm):
        return solver.name
    return f"{solver.name}{' tight' if solver.tight else ''} c={solver.c:g}"


def _whole(rounds: float) -> str:
    return f"{rounds:g}" if math.isfinite(rounds) else "-"


def _numbers(row: Measures) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in row.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("section", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--seeds", type=int, help="divisions of the rows, as of the case")
    parser.add_argument("--solver", nargs="*", default=[], help="others to run beside the bundle")
    parser.add_argument("--each", action="store_true", help="also print every seed")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--store", action="store_true", help="write rounds.json anew")
    add_arguments(parser)
    options = parser.parse_args()
    unknown = [name for name in options.section if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}: known are {', '.join(SECTIONS)}")
    for name in options.solver:
        if name not in SOLVERS:
            print(f"(skipped: there is no solver {name!r})")
    report = Report(options)
    for name in options.section or SECTIONS:
        report.grid() if name == "grid" else report.section(name)
    if options.store:
        kept = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
        text = json.dumps(kept | report.rounds, indent=1, sort_keys=True)
        STORED.write_text(text + "\n", encoding="utf-8")
    print(f"\n{len(report.missed)} missed", *report.missed, sep="\n  ")
    if options.check:
        print(unchecked(report.stored, report.rounds))
    if options.check and report.missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
