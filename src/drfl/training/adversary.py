"""What the adversary does to the rows of a file at a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.models import Model
from drfl.models.file_rows import FileRows
from drfl.rows import Rows
from drfl.worst_case import make_oracle

SMALL = 1e-9
"""Relative to a feature's scale, a smaller move is rounding."""


@dataclass(frozen=True)
class Change:
    """What happens to one row."""

    line: int
    text: str


@dataclass(frozen=True, eq=False)
class Attack:
    """The worst case of one client; moves are in scaled units unless said otherwise.

    Attributes
    ----------
    loss, worst_loss : float
        Of the rows as they are, and at worst.
    price : float
        What one more unit of transport would add.
    flipped : float
        The share of the labels that change; for numbers, the share of the targets that do.
    target_moved : float
        How far numeric targets move in the mean, in their own units; 0 for classes.
    moved : float
        The mean distance by which rows move, in the norm of the ball.
    carried : array of shape (n,)
        What each feature contributes to the changes of margins or residuals, in absolute value.
    attained : bool
        Whether the worst case is one, not only approached.
    n_rows : int
        How many rows there are.
    """

    loss: float
    worst_loss: float
    price: float
    flipped: float
    target_moved: float
    moved: float
    carried: Array
    features: tuple[str, ...]
    feature_moves: Array
    attained: bool
    n_rows: int

    def carriers(self, shown: int) -> list[tuple[str, float]]:
        """The features that carry most of the risk, with their shares."""
        total = float(self.carried.sum())
        if total <= SMALL:
            return []
        order = np.argsort(-self.carried, kind="stable")[:shown]
        shares = [(self.features[j], float(self.carried[j] / total)) for j in order]
        return [(name, share) for name, share in shares if share >= 0.005]

    def facts(self) -> dict[str, Any]:
        """For scripts; nothing of single rows."""
        return {
            "loss": self.loss,
            "worst_loss": self.worst_loss,
            "price": self.price,
            "labels_changed": self.flipped,
            "target_moved": self.target_moved,
            "features_moved": self.moved,
            "moves": dict(zip(self.features, self.feature_moves.tolist(), strict=True)),
            "carriers": dict(self.carriers(len(self.features))),
            "attained": self.attained,
        }


@dataclass(frozen=True, eq=False)
class AttackHere(Attack):
    """The same where the rows are, with what happens to each of them."""

    distribution: Any
    rows: Rows

    def changes(self, model: Model, file: FileRows, shown: int) -> list[Change]:
        """The rows of which most is changed, in the units of the file."""
        d, rows = self.distribution, self.rows
        step = d.x - rows.take(d.source)
        changed = np.abs(step).sum(axis=1) + np.abs(d.y - rows.y[d.source])
        order = np.argsort(-changed * d.mass, kind="stable")[:shown]
        order = order[changed[order] > SMALL]
        kept = np.flatnonzero(file.keep)
        lines = file.table.lines(kept[d.source[order]].tolist())
        return [
            Change(line, self._change(model, int(k), step[k]))
            for line, k in zip(lines, order, strict=True)
        ]

    def _change(self, model: Model, k: int, step: Array) -> str:
        d, rows = self.distribution, self.rows
        shift, scale = rows.shift, rows.scale
        assert shift is not None
        assert scale is not None
        parts = []
        before, after = float(rows.y[d.source[k]]), float(d.y[k])
        if before != after:
            one, other = (_target(model, value) for value in (before, after))
            parts.append(f"{model.target.name} {one} -> {other}")
        for j in np.argsort(-np.abs(step), kind="stable"):
            if abs(step[j]) > SMALL:
                new = float(d.x[k, j] * scale[j] + shift[j])
                old = new - float(step[j] * scale[j])
                parts.append(f"{self.features[j]} {old:.5g} -> {new:.5g}")
        share = float(d.mass[k] * rows.n_rows)
        return ", ".join(parts) + (f" ({share:.0%} of the row)" if share < 0.995 else "")


def attack(model: Model, k: int, name: str, file: FileRows) -> AttackHere:
    """What the adversary does to a client's file at the k-th linear model."""
    shift, scale = model.scaling(file.X)
    assert file.y is not None
    rows = Rows(file.X, model.target_of(k, file.y), shift=shift, scale=scale)
    ball = model.problem.ball_of(name)
    oracle = make_oracle(rows, model.problem.loss, ball)
    w, b = model.coef[k], float(model.intercept[k])
    worst = oracle.evaluate(w, b)
    d = worst.distribution()
    step = d.x - rows.take(d.source)
    z = oracle.arguments(rows.scores(w, b), rows.y)
    return AttackHere(
        loss=rows.mean(model.problem.loss.value(z)),
        worst_loss=worst.value,
        price=worst.multiplier,
        flipped=float(d.mass[d.y != rows.y[d.source]].sum()),
        target_moved=_target_moved(model, rows, d),
        moved=float(d.mass @ ball.norm(step)),
        carried=np.asarray(d.mass @ np.abs(_effects(model, rows, d) * w)),
        features=tuple(model.features),
        feature_moves=np.asarray(d.mass @ np.abs(step)) * scale,
        attained=d.attained,
        n_rows=rows.n_rows,
        distribution=d,
        rows=rows,
    )


def _target_moved(model: Model, rows: Rows, d: Any) -> float:
    if model.target.classes is not None:
        return 0.0
    return float(d.mass @ np.abs(d.y - rows.y[d.source])) * model.target.scale


def _effects(model: Model, rows: Rows, d: Any) -> Array:
    """By how much the adversary changes each feature in the argument of the loss (K, n)."""
    before = rows.take(d.source)
    if model.target.classes is None:
        return np.asarray(d.x - before)
    # A margin is y<w,x>: a changed label turns every feature against the model.
    return np.asarray(d.y[:, None] * d.x - rows.y[d.source][:, None] * before)


def worst_weights(model: Model, k: int, attacks: Mapping[str, Attack]) -> dict[str, float]:
    """The worst weights: of these files if they are all clients, else those of the training."""
    trained = {client.name: client for client in model.clients}
    if set(trained) == set(attacks) and not model.problem.shared_ball:
        names = list(trained)
        sizes = [attacks[name].n_rows for name in names]
        losses = np.array([attacks[name].worst_loss for name in names])
        q = model.problem.mixture.resolve(sizes).worst_weights(losses)
        return dict(zip(names, q.tolist(), strict=True))
    return {name: trained[name].weights[k] for name in attacks if name in trained}


def _target(model: Model, value: float) -> str:
    target = model.target
    if target.classes is None:
        return f"{target.shift + target.scale * value:.5g}"
    if len(target.classes) == 2:
        return str(target.classes[int(value > 0.0)])
    return "this class" if value > 0.0 else "another class"
