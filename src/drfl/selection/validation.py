r"""How good a model is on rows and at clients it has not seen, beside simple alternatives.

Two questions: new rows of the same clients (every client holds out a fold of its own rows in turn),
and a new client (every client is left out of the training in turn). Four answers to each: the
majority class (or the mean), models of single clients, federated empirical risk minimisation, and
the model. Clients answer with one number per model and measure; no row leaves them.

The radius that a client would have needed when it was left out,

.. math:: \\rho_s=\\frac{E_{\\hat P_s}L-\\sum_{t\\ne s}\\hat q_tE_{\\hat P_t}L}
          {\\mathrm{Lip}(L)\\,\\|w\\|_*},

is what its loss exceeds that of the others by, in units of the price of transport.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from drfl import checks
from drfl.arrays import Array
from drfl.client import Party
from drfl.defaults import FEW_ROWS
from drfl.engines import Engine, make_engine
from drfl.estimators.base import RobustModel
from drfl.estimators.fitting import NoModelError, find_model
from drfl.estimators.parameters import seed_of
from drfl.estimators.shared import solvable
from drfl.metrics.counts import (
    ALL_CLIENTS,
    Told,
    added,
    coarsened,
    facts_of,
    recalibrated,
)
from drfl.named_problems import NO_RULES, restated
from drfl.one_vs_rest import against_the_rest
from drfl.problem import Problem
from drfl.run.result import Result, stacked
from drfl.selection.client_half import alone, probabilities, scores
from drfl.selection.client_half.folds import FoldEngine, Part, on_parts
from drfl.selection.client_half.probabilities import Wanted
from drfl.selection.clients import SelectionClients, sorted_table
from drfl.selection.cross_validation import (
    Split,
    answered,
    ask_scores,
    folds_of_everyone,
    one_client_out,
    solver_for,
)
from drfl.selection.grid import candidate, for_clients
from drfl.selection.warm import WarmBundle
from drfl.solvers import Solver
from drfl.wire import Message

NEW_ROWS, NEW_CLIENT = "new rows", "a new client"
METHODS = MAJORITY, LOCALS, ERM, MODEL = "majority", "local", "erm", "model"
TOL = 1e-3
"""Of the fits: measures do not see more digits."""
LEVEL = 0.95
MEASURES: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy", "auc", "log_loss", "sensitivity", "specificity"),
    "regression": ("squared_error", "absolute_error"),
}
NEGATED = ("log_loss", "squared_error", "absolute_error", "loss")
"""Measures that are smaller if they are better."""


@dataclass(frozen=True)
class Measured:
    """A measure of a method: its mean, an interval of it, and the clients' own.

    Attributes
    ----------
    mean, low, high : float
        The mean, and a 95 % interval (Student's) over the folds, or over the clients left out; NaN
        with fewer than two.
    clients : dict of str to float
        By client.
    """

    mean: float
    low: float
    high: float
    clients: dict[str, float]


@dataclass(frozen=True)
class Validation:
    """What was found out.

    Attributes
    ----------
    measures : dict
        By question ("new rows", "a new client"), method ("majority", "local", "erm", "model") and
        measure.
    radii : dict of str to float
        The radius that each client would have needed when it was left out.
    radius : float
        The mean radius of the model.
    rounds : int
        What all of it cost.
    probabilities : dict
        What the model's probabilities are worth on held-out rows, of all clients together and of
        each (`drfl.metrics.counts.facts_of`); with more than two classes, by class, each against
        the rest, of all clients together. Empty where there are none.
    groups : dict
        The same of groups of rows of all clients.
    shaped : bool
        Whether the model follows rules for shapes, which "erm" does not.
    """

    measures: dict[str, dict[str, dict[str, Measured]]]
    radii: dict[str, float]
    radius: float
    rounds: int
    probabilities: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    shaped: bool = False

    def facts(self) -> dict[str, Any]:
        """For records."""
        return asdict(self)

    def __str__(self) -> str:
        lines = []
        for question, methods in self.measures.items():
            names = list(methods[MODEL])
            width = max(17, *(len(name) + 2 for name in names))
            lines += [f"on {question}".ljust(16) + "".join(f"{name:>{width}}" for name in names)]
            for method, found in methods.items():
                cells = "".join(f"{_interval(found.get(name)):>{width}}" for name in names)
                lines.append(f"  {method:14}" + cells)
        return "\n".join([*lines, *self.sentences()])

    def sentences(self) -> list[str]:
        """What the table does not say, and what the needed radii mean."""
        told = [f"{NO_RULES}."] if self.shaped else []
        if NEW_ROWS not in self.measures:
            told.append("No rows are held out: a client has one row only.")
        if not self.radii:
            return told
        worst = max(self.radii, key=lambda name: self.radii[name])
        k = len(self.radii)
        return [
            *told,
            "radius that a client would have needed when left out: largest "
            f"{self.radii[worst]:.3g} ({worst}), the model's is {self.radius:.3g}.",
            f"A client exchangeable with these {k} is covered by the largest about {k} times in "
            f"{k + 1}. The certified objective is not a bound for a client that was not there.",
        ]


def _interval(found: Measured | None) -> str:
    if found is None:
        return "-"
    if math.isnan(found.low):
        return f"{found.mean:.3f}"
    return f"{found.mean:.3f} ±{(found.high - found.low) / 2:.3f}"


def validate(
    estimator: RobustModel,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    folds: int = 5,
    random_state: Any = None,
    sample_weight: Any = None,
) -> Validation:
    """How good an estimator with these parameters is on rows and clients it has not seen.

    Parameters
    ----------
    estimator : DRFLClassifier, DRFLRegressor or one of drfl.baselines
        Fitted or not; it is not changed.
    X, y, clients, sample_weight
        As for its ``fit``.
    folds : int
        Into how many folds clients split their rows.
    random_state : None, int or RandomState
        Decides which rows are in which fold.
    """
    reader = type(estimator)(**estimator.get_params(deep=False))
    table = sorted_table(reader.read_rows(X, y, clients, sample_weight))
    taking_part = SelectionClients.read(reader, table, named=clients is not None)
    return validate_clients(reader, taking_part, folds=folds, seed=seed_of(random_state))


def validate_clients(
    estimator: RobustModel,
    clients: SelectionClients,
    *,
    folds: int = 5,
    seed: int = 0,
    wanted: Wanted = Wanted(),  # noqa: B008  (frozen)
) -> Validation:
    """The same with clients wherever they are; ``wanted`` is counted of probabilities."""
    folds = min(checks.whole("folds", folds, least=2), min(clients.rows))
    S = len(clients.names)
    questions = {NEW_ROWS: folds_of_everyone(S, folds, seed)} if folds > 1 else {}
    if S > 2:
        questions[NEW_CLIENT] = one_client_out(S)
    point = candidate(estimator, {}, clients)
    choices = replace(point.choices, tol=max(TOL, point.choices.tol), verbose=0)
    wish = choices.engine
    with make_engine("serial" if wish is None else wish) as engine:
        # As quick as measures allow: without the clients' own optima, and any optimum of ERM.
        solver = solver_for(
            replace(point, choices=choices), clients, warm_start=False, smallest=False
        )
        handlers = {**on_parts(solver.handlers), **scores.HANDLERS, **alone.HANDLERS}
        handlers |= probabilities.HANDLERS
        engine.start([c for group in clients.groups for c in group], point.shell, handlers)
        work = _Work(clients, point.problem, choices, solver, engine)
        measures = {name: work.answer(splits) for name, splits in questions.items()}
        radii = work.needed_radii(questions.get(NEW_CLIENT, []))
        worth, groups = work.probabilities(questions.get(NEW_ROWS, []), wanted)
    curves = point.problem.curves
    shaped = curves is not None and curves.shaped
    return Validation(measures, radii, point.radius, work.rounds, worth, groups, shaped)


class _Work:
    """Clients that are placed, and what is asked of them."""

    def __init__(
        self,
        clients: SelectionClients,
        problem: Problem,
        choices: Any,
        solver: Solver,
        engine: Engine,
    ) -> None:
        self.clients, self.problem, self.choices = clients, problem, choices
        self.solver, self.engine, self.rounds = solver, engine, 0
        self.names = [
            name
            for name in MEASURES[problem.loss.task]
            if not (name == "log_loss" and scores.score_of(None, problem.loss) != name)
            and not (clients.classes not in (None, 2) and name in scores.OF_TWO)
        ]
        self.guess = self._shares()
        self.fits: dict[tuple[str, Split], list[Result]] = {}
        self.own: dict[tuple[int, Part], list[Any]] = {}

    def answer(self, splits: Sequence[Split]) -> dict[str, dict[str, Measured]]:
        """The measures of every method over these splits."""
        q = self.clients.totals / self.clients.totals.sum()
        told = np.array([self._told(split) for split in splits])  # (splits, methods, M, S)
        return {
            method: {
                name: _measured(told[:, k, m], q, self.clients.labels, name)
                for m, name in enumerate(self.names)
            }
            for k, method in enumerate(METHODS)
        }

    def needed_radii(self, splits: Sequence[Split]) -> dict[str, float]:
        """Of every client that a split leaves out; see the module."""
        if len(self.clients.groups) > 1:
            return {}
        found = {}
        for split in splits:
            (out,) = split.scored
            try:
                (result,) = self._fit(MODEL, split)
            except NoModelError:
                continue
            everyone = replace(split, scored=tuple(range(len(self.clients.names))))
            losses = -self._ask(everyone, [[result]], ["loss"])[:, 0, 0]
            kept = list(split.trained)
            q = self.problem.mixture.resolve(self.clients.totals).weights[kept]
            gauge = self.problem.gauge(result.coef.size)
            price = self.problem.loss.lipschitz * gauge.value(result.coef.ravel())
            excess = float(losses[out] - q @ losses[kept] / q.sum())
            label = self.clients.labels[out]
            found[label] = max(0.0, excess / price) if price > 0.0 else math.inf
        return found

    def probabilities(
        self, splits: Sequence[Split], wanted: Wanted
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """What the model's probabilities are worth on the rows that splits hold out.

        Of all clients together, of each of them, and of groups of all their rows.
        """
        logistic = scores.score_of(None, self.problem.loss) == "log_loss"
        if not splits or not logistic:
            return {}, {}
        tables: dict[str, list[list[Told]]] = {ALL_CLIENTS: []}  # a row of classes per part of rows
        groups: dict[str, list[list[Told]]] = {each.label: [] for each in wanted.groups}
        for split in splits:
            for s, by_class in self._judged(split, wanted).items():
                whole, *some = (list(column) for column in zip(*by_class, strict=True))
                tables[ALL_CLIENTS].append(whole)
                if self.clients.classes == 2:
                    tables.setdefault(self.clients.labels[s], []).append(whole)
                for label, found in zip(groups, some, strict=True):
                    groups[label].append(found)
        return self._summed(tables), self._summed(groups)

    def _judged(self, split: Split, wanted: Wanted) -> dict[int, list[list[Told]]]:
        """What clients tell of the rows that a split holds out: by class, all rows and groups."""
        try:
            results, seats = self._fit(MODEL, split), self.clients.groups
        except NoModelError:  # a class without rows in this split
            return {}
        coef = stacked(results)[0]
        messages = {
            seat[s].name: probabilities.request(
                split.parts[s], coef, scores.intercepts_of([results], seat[s].name)[0], k, wanted
            )
            for k, seat in enumerate(seats)
            for s in split.scored
        }
        replies = answered(self.engine, messages)
        at_once = self.problem.classes or 1
        return {
            s: [
                of_class
                for seat in seats
                for of_class in probabilities.read(replies[seat[s].name], wanted, at_once)
            ]
            for s in split.scored
        }

    def _summed(self, tables: Mapping[str, Sequence[Sequence[Told]]]) -> dict[str, dict[str, Any]]:
        """What parts of rows tell together by class, without small cells.

        Of several classes, nothing where one has 1 to 4 rows: the others would give it away.
        """
        found = {}
        for name, parts in tables.items():
            every = [added(list(column)) for column in zip(*parts, strict=True)]
            small = [told for told in every if 0.0 < told.bins[:, 1].sum() < FEW_ROWS]
            for k, told in enumerate(every):
                known = name if len(every) == 1 else self._class_name(name, k)
                hidden = len(every) > 1 and small
                shown = replace(told, bins=0.0 * told.bins) if hidden else told
                found[known] = facts_of(coarsened(recalibrated(shown)))
        return found

    def _class_name(self, name: str, k: int) -> str:
        names = self.clients.class_names
        label = names[k] if names else str(k)
        return label if name == ALL_CLIENTS else against_the_rest(name, label)

    def _told(self, split: Split) -> Array:
        """Measures (methods, M, S) on what a split holds out, NaN for clients that hold nothing."""
        found = np.full((len(METHODS), len(self.names), len(self.clients.names)), np.nan)
        try:
            # ERM begins where the model ended: the rows are the same.
            model, erm = self._fit(MODEL, split), self._fit(ERM, split)
        except NoModelError:  # a class without rows in this split: it tells nothing
            return found
        own = self._alone(split)
        told = self._ask(split, [self._constant(split), erm, model, *own], self.names)
        for s, scored in zip(split.scored, told, strict=True):  # (M, P)
            # A client that was there has its own local model, a new one any of them.
            which = [split.trained.index(s)] if s in split.trained else range(len(own))
            by_method = {MAJORITY: scored[:, 0], ERM: scored[:, 1], MODEL: scored[:, 2]}
            by_method[LOCALS] = scored[:, [3 + k for k in which]].mean(axis=1)
            found[:, :, s] = [by_method[method] for method in METHODS]
        return found

    def _fit(self, method: str, split: Split) -> list[Result]:
        key = method, replace(split, scored=())
        if key not in self.fits:
            self.fits[key] = [self._solve(method, split, group) for group in self.clients.groups]
        return self.fits[key]

    def _solve(self, method: str, split: Split, group: Sequence[Party]) -> Result:
        some = [group[s] for s in split.trained]
        names = [client.name for client in some]
        problem = for_clients(self.problem, self.clients, split.trained, names)
        if method == ERM:
            problem = restated(problem, "erm", [self.clients.totals[s] for s in split.trained])
        elif isinstance(self.solver, WarmBundle):
            self.solver.forget()  # cuts of other rows
        parts = {group[s].name: split.parts[s] for s in split.trained}
        engine = FoldEngine(self.engine, parts)
        choices = replace(self.choices, engine=engine)
        result = find_model(solvable(problem, len(some), self.solver), some, choices, self.solver)
        self.rounds += result.rounds
        return result

    def _alone(self, split: Split) -> list[list[Any]]:
        """The own model of every training client, of the rows that it trains on."""
        if not alone.possible(self.problem):
            return [self._fit(MODEL, replace(split, trained=(s,))) for s in split.trained]
        new = [s for s in split.trained if (s, split.parts[s]) not in self.own]
        answers: dict[str, Message] = {}
        for group in self.clients.groups if new else []:
            some = [group[s] for s in new]
            names = [client.name for client in some]
            engine = FoldEngine(self.engine, {group[s].name: split.parts[s] for s in new})
            problem = for_clients(self.problem, self.clients, new, names)
            engine.start(some, problem, {})
            answers |= answered(engine, dict.fromkeys(names, alone.request(self.choices.tol)))
        for s in new:
            self.own[s, split.parts[s]] = [
                _Linear(*alone.read(answers[group[s].name], self.problem, self._zero().shape[-1]))
                for group in self.clients.groups
            ]
        return [self.own[s, split.parts[s]] for s in split.trained]

    def _ask(self, split: Split, models: Sequence[Sequence[Any]], names: Sequence[str]) -> Array:
        """Scores (clients, M, P) of P models at the clients that a split names."""
        return ask_scores(self.engine, self.clients.groups, split, models, names)

    def _shares(self) -> Array:
        """The share of every class at every client (S, K'), or its mean target (S, 1)."""
        S, K = len(self.clients.names), len(self.clients.groups)
        whole = Split((), tuple(range(S)), (Part(0, 1, 0),) * S)
        zero = self._zero()
        if self.problem.loss.task == "regression":
            guesses = [[_Linear(zero, 0.0)], [_Linear(zero, 1.0)]]
            at_zero, at_one = self._ask(whole, guesses, ["squared_error"])[:, 0].T
            # E(y - 1)^2 - E y^2 = 1 - 2 E y, and scores have a minus.
            return np.asarray((at_one - at_zero + 1.0) / 2.0)[:, None]
        if self.problem.classes is not None:
            guesses = [[_Linear(zero, b)] for b in np.eye(self.problem.classes)]
        else:
            guesses = [[_Linear(zero, float(b)) for b in row] for row in np.eye(K)]
        return np.asarray(self._ask(whole, guesses, ["accuracy"])[:, 0])

    def _constant(self, split: Split) -> list[Any]:
        """The class shares of the training clients as a model, or their mean target."""
        kept = list(split.trained)
        shares = self.clients.totals[kept] @ self.guess[kept] / self.clients.totals[kept].sum()
        if self.problem.classes is not None:
            return [_Linear(self._zero(), np.log(np.clip(shares, 1e-6, 1.0)))]
        if self.problem.loss.task == "classification":
            shares = np.clip(shares, 1e-6, 1.0 - 1e-6)
            shares = np.log(shares / (1.0 - shares))
        return [_Linear(self._zero(), float(share)) for share in shares]

    def _zero(self) -> Array:
        """No coefficients: (n,), or (K, n) of K classes at once."""
        zero = np.zeros(self.problem.coefficients(self.clients.n_features))
        return zero if self.problem.classes is None else zero.reshape(self.problem.classes, -1)


@dataclass(frozen=True)
class _Linear:
    coef: Array
    intercept: float | Array


def _measured(told: Array, q: Array, labels: Sequence[str], name: str) -> Measured:
    """From scores (splits, clients) to a mean and its interval."""
    told = -told if name in NEGATED else told
    known = ~np.isnan(told)
    weight = np.where(known, q, 0.0)
    filled = np.where(known, told, 0.0)
    scored = weight.sum(axis=1) > 0.0
    each = (filled * weight).sum(axis=1)[scored] / weight.sum(axis=1)[scored]
    counts = known.sum(axis=0)
    means = np.where(counts > 0, filled.sum(axis=0) / np.maximum(counts, 1), np.nan)
    mean = float(each.mean()) if len(each) else math.nan
    half = math.nan
    if len(each) > 1:
        error = float(each.std(ddof=1) / math.sqrt(len(each)))
        half = error * float(stats.t.ppf((1.0 + LEVEL) / 2.0, len(each) - 1))
    return Measured(mean, mean - half, mean + half, dict(zip(labels, means.tolist(), strict=True)))
