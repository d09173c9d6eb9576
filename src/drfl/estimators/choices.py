"""What the user of an estimator chose, checked, and the problem that it states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from drfl import defaults
from drfl._registry import listed, lookup
from drfl.arrays import Array
from drfl.checks import number, whole
from drfl.curves import Curves, enough_rows, standard_knots
from drfl.defaults import THESE_CLIENTS, Purpose, purpose_of
from drfl.engines import Engine
from drfl.estimators import parameters
from drfl.estimators.client_table import ClientTable
from drfl.losses import Loss, Task
from drfl.problem import Problem, intercept_of
from drfl.problem.multiclass import MULTICLASS, OVR, together
from drfl.rows import Rows
from drfl.rows.parts import is_sparse
from drfl.uncertainty import Ball, Mixture


@dataclass(frozen=True)
class Additive:
    """Which columns have curves, as the user says it.

    Attributes
    ----------
    columns : "all" or tuple
        Names or numbers of columns.
    knots : tuple of float
        In standard units: standard deviations from the mean.
    shapes : dict
        Rules by column.
    """

    columns: Any
    knots: tuple[float, ...]
    shapes: dict[Any, tuple[str, ...]]

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Additive | None:
        """Check the parameters of an estimator; None: the model is linear."""
        columns, shapes = params.get("additive"), params.get("shapes") or {}
        if not isinstance(shapes, Mapping):
            raise TypeError("shapes must be a mapping from columns to rules such as 'increasing'")
        if columns is None:
            if shapes:
                raise ValueError("shapes are rules for curves: name the columns in additive too")
            return None
        if isinstance(columns, str) and columns != "all":
            raise ValueError(f"additive must be None, 'all' or a list of columns, got {columns!r}")
        if not isinstance(columns, str | Sequence | np.ndarray):
            raise TypeError(f"additive must be None, 'all' or a list of columns, got {columns!r}")
        chosen = columns if isinstance(columns, str) else tuple(columns)
        if any(isinstance(key, bool | np.bool_) for key in (*chosen, *shapes)):
            raise TypeError(
                "additive and shapes name columns, and True or False names none: give the names or "
                "numbers of the columns, such as numpy.flatnonzero(mask)"
            )
        rules = {key: _rules(key, given) for key, given in shapes.items()}
        return cls(chosen, standard_knots(params.get("knots", 4)), rules)

    def curves(self, table: ClientTable, names: Sequence[str] | None) -> Curves:
        """The curves of a table: knots in the units of its columns."""
        n = table.X.shape[1]
        chosen = (
            range(n) if isinstance(self.columns, str) else self._numbers(self.columns, n, names)
        )
        mean, deviation = _moments(table)
        knots: list[tuple[float, ...]] = [()] * n
        for j in chosen:
            if deviation[j] > 0.0:
                knots[j] = tuple(float(mean[j] + deviation[j] * z) for z in self.knots)
        rules: list[tuple[str, ...]] = [()] * n
        for key, own in self.shapes.items():
            j = self._numbers([key], n, names)[0]
            if j not in set(chosen):
                raise ValueError(f"shapes has a rule for {key!r}, which is not in additive")
            if rules[j]:
                raise ValueError(f"shapes names the column {key!r} twice: give its rules in a list")
            rules[j] = own
        wanted = Curves(tuple(knots), tuple(rules))
        return wanted.with_knots([_kept(wanted, j, table) for j in range(n)])

    @staticmethod
    def _numbers(keys: Sequence[Any], n: int, names: Sequence[str] | None) -> list[int]:
        known = {} if names is None else {name: j for j, name in enumerate(names)}
        found = []
        for key in keys:
            if isinstance(key, Integral) and 0 <= int(key) < n:
                found.append(int(key))
            elif key in known:
                found.append(known[key])
            else:
                have = listed(known) if known else f"0 to {n - 1}"
                raise ValueError(f"there is no column {key!r} for a curve: known are {have}")
        return found


def _rules(key: Any, given: Any) -> tuple[str, ...]:
    """The rules of a column, as they were given."""
    rules = (given,) if isinstance(given, str) else given
    if not isinstance(rules, Sequence):
        raise TypeError(
            f"shapes must have a rule such as 'increasing' for {key!r}, or a list of them, got "
            f"{given!r}"
        )
    return tuple(rules)


def _kept(wanted: Curves, j: int, table: ClientTable) -> list[int]:
    """Which knots of a column leave its pieces rows enough."""
    if not wanted.knots[j]:
        return []
    column = _column(table.X, j)
    own = [column[table.member == s] for s in range(len(table.names))]
    counts = np.array([wanted.counts(j, x) for x in own])
    # As the clients of a training tell it, so that both keep the same knots.
    single = all((wanted.counts(j, np.unique(x)) <= 1).all() for x in own)
    return enough_rows(counts, int(np.count_nonzero(counts.sum(axis=0))) if single else None)


def _moments(table: ClientTable) -> tuple[Array, Array]:
    rows = Rows(table.X, np.zeros(table.X.shape[0]), weights=table.weight)
    mean, square = rows.moments()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _column(X: Any, j: int) -> Array:
    column = X[:, [j]].toarray() if is_sparse(X) else X[:, j]
    return np.asarray(column, dtype=np.float64).ravel()


@dataclass(frozen=True)
class Choices:
    """The parameters of an estimator as the objects that they stand for.

    Attributes
    ----------
    loss : Loss
        With its own parameters.
    purpose : Purpose
        What "auto" stands for.
    radius : "auto", "confidence", float, dict or tuple
        As given.
    ball : Ball
        Norm, label cost and support; its radius is not meant.
    mixture : Mixture
        The set of weights.
    intercept, solver, curvature, tol, max_rounds, engine, verbose
        As given.
    seed : int
        For solvers that draw at random.
    shared_ball : bool
        One ball around the mixture of all clients instead of a ball around each.
    additive : Additive or None
        Which columns have curves.
    multiclass : str
        How more than two classes are told apart.
    """

    loss: Loss
    purpose: Purpose
    radius: parameters.Radius
    ball: Ball
    mixture: Mixture
    intercept: str
    solver: str
    curvature: str
    tol: float
    max_rounds: int
    engine: str | Engine | None
    verbose: int
    seed: int
    shared_ball: bool
    additive: Additive | None = None
    multiclass: str = OVR

    @classmethod
    def read(cls, params: Mapping[str, Any], task: Task) -> Choices:
        """Check the parameters of an estimator, before any work."""
        purpose = purpose_of(params.get("purpose", THESE_CLIENTS))
        return cls(
            loss=parameters.loss_of(params, task),
            purpose=purpose,
            radius=parameters.radius_of(params["radius"]),
            ball=Ball(
                norm=params["norm"],
                label_cost=number("label_cost", params["label_cost"], infinite=True),
                support=parameters.support_of(params["support"]),
            ),
            mixture=parameters.mixture_of(params, purpose),
            intercept=intercept_of(params["intercept"]),
            solver=params["solver"],
            curvature=parameters.curvature_of(params["curvature"]),
            tol=number("tol", params["tol"]),
            max_rounds=whole("max_rounds", params["max_rounds"]),
            engine=parameters.engine_of(params["engine"]),
            verbose=parameters.verbose_of(params["verbose"]),
            seed=parameters.seed_of(params["random_state"]),
            shared_ball=params["shared_ball"],
            additive=Additive.read(params),
            multiclass=lookup("multiclass", params.get("multiclass", OVR), MULTICLASS),
        )

    def together(
        self, classes: int | None, columns: int, curves: Curves | None
    ) -> tuple[int | None, str]:
        """How many classes one problem tells apart, and why so; see `drfl.problem.multiclass`."""
        return together(
            classes,
            columns if curves is None else curves.n_slopes,
            self.multiclass,
            loss=self.loss,
            ball=self.ball,
            intercept=self.intercept,
            solver=self.solver,
            radius=self.radius,
            shaped=self.additive is not None and any(self.additive.shapes.values()),
            shared_ball=self.shared_ball,
        )

    def problem(
        self,
        names: Sequence[Any],
        totals: Array,
        n_features: int,
        curves: Curves | None = None,
        classes: int | None = None,
    ) -> Problem:
        """The problem for clients of these names, with these total weights of rows, and columns.

        ``classes``: how many it tells apart; None: it is of one score.
        """
        if self.radius == "confidence":
            raise ValueError(
                "radius='confidence' is found by a fit of DRFLClassifier or DRFLRegressor alone: "
                "give a number here"
            )
        n_features = n_features if curves is None else curves.n_slopes
        auto = defaults.radius_of(self.purpose.factor, n_features, float(totals.sum()))
        radii = [self.shared_radius(auto)] if self.shared_ball else self.radii(names, auto)
        balls = [replace(self.ball, radius=radius) for radius in radii]
        # One ball for all makes the plainer problem, and one that other clients can use.
        ball: Ball | dict[str, Ball] = balls[0]
        if len(set(radii)) > 1:
            ball = {str(name): ball for name, ball in zip(names, balls, strict=True)}
        return Problem(
            self.loss,
            ball,
            self.mixture,
            intercept=self.intercept,
            shared_ball=self.shared_ball,
            curves=curves,
            classes=classes,
        )

    def radii(self, names: Sequence[Any], auto: float) -> list[float]:
        """The radius of every client."""
        if isinstance(self.radius, str):
            return [auto] * len(names)
        if isinstance(self.radius, dict):
            missing = [name for name in names if name not in self.radius]
            if missing:
                raise ValueError(
                    f"radius has no entry for client {missing[0]!r}: it has {listed(self.radius)}"
                )
            return [self.radius[name] for name in names]
        if isinstance(self.radius, tuple):
            if len(self.radius) != len(names):
                raise ValueError(
                    f"radius has {len(self.radius)} entries, but there are {len(names)} clients: "
                    "give one number, or one per client in the sorted order of their names"
                )
            return list(self.radius)
        return [self.radius] * len(names)

    def shared_radius(self, auto: float) -> float:
        """The radius of one ball around the mixture of all clients."""
        if isinstance(self.radius, str):
            return auto
        if isinstance(self.radius, float):
            return self.radius
        raise ValueError("there is one ball around the mixture of all clients: give one radius")
