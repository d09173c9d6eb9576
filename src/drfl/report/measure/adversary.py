"""What the adversary does to the rows of the clients at a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from drfl.client import Client
from drfl.models import Model
from drfl.report.measure.sample import Array, Sample, clients_of
from drfl.rows import Rows
from drfl.worst_case import make_oracle
from drfl.worst_case.oracle import Distribution

Json = dict[str, Any]

SMALL = 1e-9
"""Relative to a column's scale, a smaller move is rounding."""


def adversary(model: Model, data: Mapping[str, Sample], shown: int) -> Iterator[Json]:
    """Records "adversary" of every client and linear model, then records "row" if some are wanted.

    A shared ball lies around the mixture, not around a client, and is left out.
    """
    if model.problem.shared_ball:
        return
    for k in range(len(model.coef)):
        clients = clients_of(model, k, data)
        found = [_attack(model, k, client) for client in clients]
        sizes = [client.rows.total for client in clients]
        losses = np.array([record["worst_loss"] for record, _ in found])
        q = model.problem.mixture.resolve(sizes).worst_weights(losses)
        for client, (record, d), weight in zip(clients, found, q.tolist(), strict=True):
            yield {
                "kind": "adversary",
                "model": k,
                "client": client.name,
                "weight": weight,
            } | record
            yield from _rows(model, client, d, data[client.name].lines, shown)


def _attack(model: Model, k: int, client: Client) -> tuple[Json, Distribution]:
    rows, ball = client.rows, model.problem.ball_of(client.name)
    oracle = make_oracle(rows, model.problem.loss, ball)
    w, b = model.coef[k], float(model.intercept[k])
    worst = oracle.evaluate(w, b)
    d = worst.distribution()
    step = d.x - rows.take(d.source)
    moves: Array = np.asarray(d.mass @ np.abs(step))
    record = {
        "loss": rows.mean(model.problem.loss.value(oracle.arguments(rows.scores(w, b), rows.y))),
        "worst_loss": worst.value,
        "price": worst.multiplier,
        "labels_changed": float(d.mass[d.y != rows.y[d.source]].sum()),
        "features_moved": float(d.mass @ ball.norm(step)),
        "scaled_moves": dict(zip(model.features, moves.tolist(), strict=True)),
        "attained": bool(d.attained),
    }
    return record, d


def _rows(
    model: Model, client: Client, d: Distribution, lines: Sequence[int] | None, shown: int
) -> Iterator[Json]:
    """The rows of which most is changed, in the units of the file."""
    rows = client.rows
    step = d.x - rows.take(d.source)
    changed = np.abs(step).sum(axis=1) + np.abs(d.y - rows.y[d.source])
    order = np.argsort(-changed * d.mass, kind="stable")[:shown]
    for atom in order[changed[order] > SMALL].tolist():
        row = int(d.source[atom])
        change = ", ".join(_changes(model, rows, d, atom, step[atom]))
        where = row + 1 if lines is None else int(lines[row])
        yield {"kind": "row", "client": client.name, "row": where, "change": change}


def _changes(model: Model, rows: Rows, d: Distribution, atom: int, step: Array) -> Iterator[str]:
    before, after = float(rows.y[d.source[atom]]), float(d.y[atom])
    if before != after:
        yield f"{model.target.name} {_target(model, before)} → {_target(model, after)}"
    n = len(step)
    shift = np.zeros(n) if rows.shift is None else rows.shift
    scale = np.ones(n) if rows.scale is None else rows.scale
    for j in np.argsort(-np.abs(step), kind="stable").tolist():
        if abs(step[j]) > SMALL:
            new = float(d.x[atom, j] * scale[j] + shift[j])
            yield f"{model.features[j]} {new - float(step[j] * scale[j]):.5g} → {new:.5g}"


def _target(model: Model, value: float) -> str:
    target = model.target
    if target.classes is None:
        return f"{target.shift + target.scale * value:.5g}"
    if len(target.classes) == 2:
        return str(target.classes[int(value > 0.0)])
    return "this class" if value > 0.0 else "another class"
