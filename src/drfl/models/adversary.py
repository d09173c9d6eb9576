"""What the adversary does to the rows of clients at a trained model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.models.document import Model
from drfl.rows import Rows
from drfl.worst_case.oracle import Distribution

SMALL = 1e-9  # relative to a feature's scale, a smaller move is rounding


@dataclass(frozen=True, eq=False)
class Attack:
    """The worst case of one client; moves are in scaled units unless said otherwise."""

    # of the rows as they are, and at worst; of a network, at the worst that was found
    loss: float
    worst_loss: float
    bound: float  # what the worst loss is proved not to exceed: itself, where it is exact
    price: float  # what one more unit of transport would add
    # the share of the labels that change; for numbers, the share of the targets that do
    flipped: float
    # how far numeric targets move in the mean, in their own units; 0 for classes
    target_moved: float
    moved: float  # the mean distance by which rows move, in the norm of the ball
    # what each feature contributes to the changes of margins or residuals, in absolute value
    carried: Array
    features: tuple[str, ...]
    feature_moves: Array
    attained: bool  # whether the worst case is one, not only approached
    n_rows: int  # how many rows there are
    # of several classes in one problem: to which class how large a share of the labels moves
    moved_to: Mapping[str, float] = field(default_factory=dict)

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
            "bound": self.bound,
            "price": self.price,
            "labels_changed": self.flipped,
            "target_moved": self.target_moved,
            "features_moved": self.moved,
            "moves": dict(zip(self.features, self.feature_moves.tolist(), strict=True)),
            "carriers": dict(self.carriers(len(self.features))),
            "attained": self.attained,
            **({"labels_moved_to": dict(self.moved_to)} if self.moved_to else {}),
        }


def attack_of(
    model: Model,
    k: int,
    rows: Rows,
    worst_loss: float,
    price: float,
    d: Distribution,
    bound: float | None = None,
) -> Attack:
    """What a worst-case distribution does to a client's rows at the model of the k-th problem.

    ``bound``: what is proved, where the worst loss is what was found.
    """
    w, b = model.linear(k)
    loss, bound = mean_loss(model, k, rows, w, b), worst_loss if bound is None else bound
    effects = _effects(model, rows, d, w)
    return _attack(
        model, rows, d, effects, loss=loss, worst_loss=worst_loss, bound=bound, price=price
    )


def _attack(model: Model, rows: Rows, d: Distribution, effects: Array, **losses: float) -> Attack:
    """What a distribution does, with what the moves of every feature (K, n) do to the loss."""
    step = d.x - rows.take(d.source)
    return Attack(
        **losses,
        flipped=float(d.mass[d.y != rows.y[d.source]].sum()),
        target_moved=_target_moved(model, rows, d),
        moved=float(d.mass @ model.problem.balls[0].norm(step)),
        carried=np.asarray(d.mass @ np.abs(effects)),
        features=tuple(model.features),
        feature_moves=np.asarray(d.mass @ np.abs(step)) * _units(rows)[1],
        attained=bool(d.attained),
        n_rows=rows.n_rows,
        moved_to=_moved_to(model, rows, d),
    )


def found_sentence(bound: float) -> str:
    """What is said of a worst loss that was found, not proved: its bound is above it."""
    most = f"at most {bound:.5g}" if bound < math.inf else "without a bound"
    return f"the worst loss was found, and is {most}, as proved"


def network_attack(model: Model, rows: Rows, name: str) -> tuple[Attack, Distribution]:
    """What was found at a network: every row is moved, and what a column adds is to first order."""
    network = model.problem.network
    assert network is not None
    ball, at = model.problem.ball_of(name), np.arange(rows.n_rows)
    found = network.at(rows, ball, name).displaced(model.coef[0])
    mass = np.broadcast_to(rows.mass(), at.shape)
    step = found.X - rows.take(at)
    moved = float(mass @ ball.norm(step))
    where = Distribution(at, mass, found.X, rows.y, moved, found.found, attained=True, tolerance=0)
    losses = {"loss": found.loss, "worst_loss": found.found, "price": found.price}
    return _attack(model, rows, where, found.slopes * step, **losses, bound=found.bound), where


def mean_loss(model: Model, k: int, rows: Rows, w: Array, b: Any) -> float:
    """The mean loss of a model like that of the k-th problem."""
    problem = model.problem
    if problem.joint is not None:
        seen = rows if problem.curves is None else rows.ramped(problem.curves)
        return rows.mean(problem.joint.value(seen.scores_many(w, b), rows.y.astype(np.intp)))
    z = problem.scores(rows, w, b)
    arguments = z - rows.y if model.target.classes is None else rows.y * z
    return rows.mean(problem.loss.value(arguments))


def _moved_to(model: Model, rows: Rows, d: Distribution) -> dict[str, float]:
    if not model.joint or model.target.classes is None:
        return {}
    moved = d.y != rows.y[d.source]
    shares = np.bincount(d.y[moved].astype(int), d.mass[moved], len(model.target.classes))
    return {str(c): float(v) for c, v in zip(model.target.classes, shares, strict=True) if v > 0.0}


def changed_rows(
    model: Model, rows: Rows, d: Distribution, shown: int
) -> Iterator[tuple[int, str]]:
    """The rows of which most is changed: their positions, and the changes in the file's units."""
    step = d.x - rows.take(d.source)
    changed = np.abs(step).sum(axis=1) + np.abs(d.y - rows.y[d.source])
    order = np.argsort(-changed * d.mass, kind="stable")[:shown]
    for atom in order[changed[order] > SMALL].tolist():
        text = ", ".join(_changes(model, rows, d, atom, step[atom]))
        share = float(d.mass[atom] * rows.n_rows)
        part = f" ({share:.0%} of the row)" if share < 0.995 else ""
        yield int(d.source[atom]), text + part


def _changes(model: Model, rows: Rows, d: Distribution, atom: int, step: Array) -> Iterator[str]:
    before, after = float(rows.y[d.source[atom]]), float(d.y[atom])
    if before != after:
        yield f"{model.target.name} {_target(model, before)} -> {_target(model, after)}"
    shift, scale = _units(rows)
    for j in np.argsort(-np.abs(step), kind="stable").tolist():
        if abs(step[j]) > SMALL:
            new = float(d.x[atom, j] * scale[j] + shift[j])
            yield f"{model.features[j]} {new - float(step[j] * scale[j]):.5g} -> {new:.5g}"


def _units(rows: Rows) -> tuple[Array, Array]:
    shift = np.zeros(rows.n_features) if rows.shift is None else rows.shift
    return shift, np.ones(rows.n_features) if rows.scale is None else rows.scale


def _target_moved(model: Model, rows: Rows, d: Distribution) -> float:
    if model.target.classes is not None:
        return 0.0
    return float(d.mass @ np.abs(d.y - rows.y[d.source])) * model.target.scale


def _effects(model: Model, rows: Rows, d: Distribution, w: Array) -> Array:
    """By how much the adversary changes what each feature adds to the loss's argument (K, n)."""
    if model.joint:  # what a feature adds to the score of the row's class
        before, after = rows.take(d.source), d.x
        change = np.zeros(after.shape)
        for label, own in enumerate(w):
            now, then = d.y == label, rows.y[d.source] == label
            change[now] += model.problem.parts(after[now], own)
            change[then] -= model.problem.parts(before[then], own)
        return change
    before, after = (model.problem.parts(x, w) for x in (rows.take(d.source), d.x))
    if model.target.classes is None:
        return np.asarray(after - before)
    # A margin is y<w,x>: a changed label turns every feature against the model.
    return np.asarray(d.y[:, None] * after - rows.y[d.source][:, None] * before)


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
    if model.joint:
        return str(target.classes[int(value)])
    if len(target.classes) == 2:
        return str(target.classes[int(value > 0.0)])
    return "this class" if value > 0.0 else "another class"
