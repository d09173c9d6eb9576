"""What the paper's comparison comes to: tables, and sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drfl.arrays import Array
from experiments.methods import METHODS
from experiments.protocol import Protocol
from experiments.records import Done
from experiments.report import Report
from experiments.rules import ORACLE, TITLES
from experiments.statistics import Tally, band, best_count, markdown, tally

RIVALS = tuple(name for name in METHODS if name != "drfl")
SWEEPS = ("mean", "sd", "ratio")


class Findings:
    """The measures of finished seeds, by rule and method.

    Parameters
    ----------
    protocol : Protocol
        What was run.
    done : sequence of Done
        The seeds; their order does not matter.
    """

    def __init__(self, protocol: Protocol, done: Sequence[Done]) -> None:
        self.protocol = protocol
        self.seeds = sorted(done, key=lambda d: int(d.task["seed"]))
        self._rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for one in self.seeds:
            for row in one.rows:
                self._rows.setdefault((row["rule"], row["method"]), []).append(row)

    def sweep(self, rule: str, method: str, sweep: str) -> Array:
        """Measures (seeds, levels) along a sweep."""
        return np.array([row["sweeps"][sweep] for row in self._rows[rule, method]])

    def one(self, rule: str, method: str, name: str) -> Array:
        """Measures (seeds,) of one kind: "clean" or "worst"."""
        return np.array([row[name] for row in self._rows[rule, method]])

    def cells(self, rule: str, method: str, upper: bool = False) -> Array:
        """Measures (seeds, cells) at all levels of all sweeps, or at the upper half of them."""
        parts = [self.sweep(rule, method, sweep) for sweep in SWEEPS]
        return np.concatenate([p[:, p.shape[1] // 2 :] if upper else p for p in parts], axis=1)

    def tally(self, rule: str, rival: str, upper: bool = False) -> Tally:
        """DRFL against a rival in all cells."""
        own, other = (self.cells(rule, name, upper) for name in ("drfl", rival))
        return tally(own, other, smaller_is_better=self.protocol.is_regression)

    def report(self) -> Report:
        """What was measured, what holds, and the tables."""
        what = "mean squared error" if self.protocol.is_regression else "accuracy"
        intro = (
            f"Seeds: {len(self.seeds)}; {what}, mean over the test clients. A cell is a level of a "
            "sweep; a win is a paired difference of more than two standard errors."
        )
        return Report([intro], self.sentences(), [*self._tallies(), "", *self._means()])

    def _tallies(self) -> list[str]:
        cells = self.cells("mean", "drfl").shape[1]
        rows = []
        for rule in self.protocol.rules:
            everyone = {name: self.cells(rule, name) for name in METHODS}
            smaller = self.protocol.is_regression
            best = best_count(everyone, "drfl", smaller_is_better=smaller)
            counts = [str(self.tally(rule, rival)) for rival in RIVALS]
            rows.append([_title(rule), *counts, f"{best} of {cells}"])
        head = ["selection rule", *(f"DRFL against {name.upper()}" for name in RIVALS)]
        return [
            "Wins / losses / ties of DRFL:",
            "",
            *markdown([*head, "DRFL has the best mean"], rows),
        ]

    def _means(self) -> list[str]:
        rows = []
        for rule in self.protocol.rules:
            for method in METHODS:
                columns = [self.one(rule, method, "clean"), self.one(rule, method, "worst")]
                columns += [self.sweep(rule, method, sweep)[:, -1] for sweep in SWEEPS]
                shown = [self._shown(values) for values in columns]
                rows.append([_title(rule), method.upper(), *shown])
        head = ["selection rule", "method", "no noise", "no noise, worst client"]
        noises = [self.protocol.sweeps[sweep][-1] for sweep in SWEEPS]
        head += [f"N({m:g}, {s:g}²)" for m, s in noises]
        return ["Means and two standard errors:", "", *markdown(head, rows)]

    def _shown(self, values: Array) -> str:
        mean, wide = (float(v) for v in band(values))
        if self.protocol.is_regression:
            return f"{mean:.3g} ± {wide:.2g}"
        return f"{100 * mean:.1f} ± {100 * wide:.1f} %"

    def sentences(self) -> list[str]:
        """Findings in words."""
        found = []
        for rule in self.protocol.rules:
            own = sum((self.tally(rule, rival, upper=True) for rival in RIVALS), Tally())
            verdict = "holds" if own.wins > own.total / 2 else "does not hold"
            found.append(
                f"{_title(rule)}: that DRFL is better at high noise in most cases {verdict}; in "
                f"the upper half of the levels it wins {own.wins}, loses {own.losses} and ties "
                f"{own.ties} of {own.total} comparisons."
            )
        found.append(self._leak())
        if self.protocol.is_regression:
            found.append(self._remark())
        return found

    def _leak(self) -> str:
        honest, leaked = (
            sum((self.tally(rule, rival) for rival in RIVALS), Tally()) for rule in ("mean", ORACLE)
        )
        return (
            f"Picking parameters on the test noise turns {honest.wins} wins of {honest.total} into "
            f"{leaked.wins}: it favours the method with the largest grid, and proves nothing."
        )

    def _remark(self) -> str:
        """Whether DRFA and standard Huber regression coincide."""
        erm, drfa = (self.cells("mean", name) for name in ("erm", "drfa"))
        apart = np.abs(drfa - erm) / erm
        counts = tally(drfa, erm, smaller_is_better=True)
        verdict = "holds" if apart.max() < 1e-3 else "does not hold"
        return (
            f"The remark that DRFA and standard Huber regression coincide {verdict}: their errors "
            f"differ by {100 * apart.mean():.1f} % in the mean and by up to "
            f"{100 * apart.max():.0f} %; DRFA is better in {counts.wins}, worse in "
            f"{counts.losses} of {counts.total} cells."
        )


def _title(rule: str) -> str:
    return TITLES[rule] if rule != ORACLE else f"**{TITLES[rule]}**"
