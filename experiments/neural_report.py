"""What the experiment with networks comes to: points over FedAvg, with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drfl.arrays import Array
from experiments.records import Done
from experiments.report import Report
from experiments.statistics import band, markdown

MEASURES = ("clean", "worst", "noise")
PLAIN, RIVAL, ROBUST = "FedAvg", "Gaussian noise", "DRFL, order 2"
ROUNDS = "rounds"


def report(settings: Any, done: Sequence[Done]) -> Report:
    """Tables for every data set, and what holds."""
    tables, findings = list[str](), list[str]()
    for name in settings.data:
        rows = [d.rows for d in done if d.task["data"] == name]
        if rows:
            tables += [f"## {name}", "", *_table(rows), ""]
            findings += [f"{name}: {sentence}" for sentence in _findings(rows)]
    findings += _rounds(done)
    intro = [
        "Networks with one hidden layer of 32 units, trained over clients; step and strengths "
        "chosen on held-out training rows. Points of accuracy (abalone: hundredths of R^2): the "
        "mean over the clients, the worst client, and the mean with noise of deviation "
        f"{settings.noise:g} in the features of test rows. In brackets two standard errors of the "
        "paired difference from FedAvg."
    ]
    return Report(intro, findings, tables)


def _values(rows: Sequence[list[dict[str, Any]]], method: str) -> Array:
    """Of a method, in points (seeds, measures)."""
    found = [next(r for r in some if r["method"] == method) for some in rows]
    return 100.0 * np.array([[row[measure] for measure in MEASURES] for row in found])


def _methods(rows: Sequence[list[dict[str, Any]]]) -> list[str]:
    return [row["method"] for row in rows[0] if row["method"] != ROUNDS]


def _table(rows: Sequence[list[dict[str, Any]]]) -> list[str]:
    plain = _values(rows, PLAIN)
    lines = []
    for method in _methods(rows):
        own = _values(rows, method)
        if method == PLAIN:
            lines.append([method, *(f"{value:.1f}" for value in own.mean(axis=0))])
            continue
        mean, wide = band(own - plain)
        lines.append([method, *(f"{m:+.1f} ({w:.1f})" for m, w in zip(mean, wide, strict=True))])
    head = [f"{len(rows)} seeds", "clean", "worst client", "noise"]
    return markdown(head, lines)


def _findings(rows: Sequence[list[dict[str, Any]]]) -> list[str]:
    """Who is surely better than FedAvg, and order 2 against its honest rival."""
    plain, better, worse = _values(rows, PLAIN), list[str](), list[str]()
    for method in _methods(rows):
        mean, wide = band(_values(rows, method) - plain)
        for measure, m, w in zip(MEASURES, mean, wide, strict=True):
            if abs(m) > w:
                (better if m > 0.0 else worse).append(f"{method} ({measure})")
    mean, wide = band(_values(rows, ROBUST) - _values(rows, RIVAL))
    against = ", ".join(
        f"{measure} {m:+.1f} ({w:.1f})" for measure, m, w in zip(MEASURES, mean, wide, strict=True)
    )
    return [
        f"better than FedAvg by more than two standard errors: {', '.join(better) or 'none'}; "
        f"worse: {', '.join(worse) or 'none'}.",
        f"{ROBUST} against {RIVAL}: {against}.",
    ]


def _rounds(done: Sequence[Done]) -> list[str]:
    found = [row for d in done for row in d.rows if row["method"] == ROUNDS]
    if not found:
        return []
    pairs = ", ".join(f"{row['fedavg']} and {row['dual_admm']}" for row in found)
    return [
        "digits: rounds of FedAvg and of the dual-first ADMM to FedAvg's last objective, by seed "
        f"(-1: not within FedAvg's rounds): {pairs}."
    ]
