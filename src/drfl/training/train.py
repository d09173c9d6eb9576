"""A training from its beginning to its end: preflight, selection, rounds, model, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.files import PRIVATE
from drfl.inference import Estimate
from drfl.models import ClientPart, Model, ProofRecord, write_model
from drfl.models.curve_facts import curve_facts, slope_estimates
from drfl.models.document import Calibration
from drfl.one_vs_rest import positives
from drfl.privacy.refusals import require_two
from drfl.problem import Problem
from drfl.protocols.agreement import Agreement, preflight
from drfl.protocols.curve_rows import agreed_pieces
from drfl.protocols.evaluation import evaluate
from drfl.protocols.explanation import explain
from drfl.protocols.federation import Federation
from drfl.run import solve
from drfl.run.result import Record, Result, intercepts_at, stacked
from drfl.solvers import Solver, StatusKind, configured, settings_of, solver_class
from drfl.training.left_out import FEWEST, unexplained, without
from drfl.training.left_out import KIND as LEFT_OUT
from drfl.training.local_files import guards_line
from drfl.training.problems import (
    advice,
    check_compared,
    check_folds,
    check_solver,
    classes_together,
    configured_method,
    make_problem,
    stated,
    wanted_curves,
)
from drfl.training.progress import Listener, warnings_as_sentences
from drfl.training.run_folder import (
    Records,
    RunFolder,
    costs,
    message_facts,
    preflight_facts,
    result_facts,
    round_facts,
    versions,
)
from drfl.training.settings import Settings

WITHOUT_GUARD = (
    "WITHOUT A GUARD: what the clients send is exact, and whoever sees it can work out some of "
    "their rows; "
)
PREVENTED, NETWORK_UNGUARDED = "--guard 5 prevents that", "no guard knows networks"
NOT_EXACT = (
    "the solver is 'private': clients tell noisy means only, and what is proved holds with "
    "probability 99 %; the means and deviations above are the middles and halves of public ranges"
)
CLOSE_ENOUGH = 1e-3  # a gap at which the losses of others are known well enough to be compared
LINES = "lines"  # what the linear model beside an additive one is called
ENDS = ("interval", "inference", "messages", "result")
"""The kinds of records that come after the rounds."""
DONE = (StatusKind.CERTIFIED, StatusKind.LOCAL, StatusKind.PRIVATE)
MADE = (StatusKind.MAX_ROUNDS, StatusKind.STOPPED)


@dataclass(frozen=True)
class Trained:
    """What came out: the model, None if a run failed; the results of all problems; the records."""

    model: Model | None
    results: Sequence[Result]
    records: Records

    @property
    def failure(self) -> str:
        """Why there is no model."""
        failed = [r for r in self.results if r.status.kind is StatusKind.FAILED]
        return failed[0].status.message if failed else ""

    @property
    def proved(self) -> bool:
        """Whether every run got to its tolerance."""
        return all(result.status.kind in DONE for result in self.results)

    @property
    def complete(self) -> bool:
        """Whether more cannot be asked for: of a network, that all its rounds were made."""
        network = self.model is not None and self.model.problem.network is not None
        return self.proved or (network and all(r.status.kind in MADE for r in self.results))


def train(
    settings: Settings,
    folder: RunFolder,
    federation: Federation,
    listener: Listener,
    *,
    fresh: bool,
) -> Trained:
    """Train, and write everything down as it happens.

    Before the preflight has succeeded only what guards remember is written; ``fresh`` says that
    this is no resumed run.
    """
    fresh = fresh or not folder.begun
    if not fresh:
        folder.check_identity(settings)
    training = Training(settings, folder, listener, Records(), federation)
    with folder.as_found_if_refused():
        training.prepare()
    folder.close_to_others()
    if fresh:
        folder.create(settings)
        folder.check_identity(settings)
    folder.write_table(training.agreement.table.lines())
    training.records.open(folder.records)
    if settings["select"]:
        from drfl.training.held_out import chosen_radii  # and with it scikit-learn

        chosen, training.curves = chosen_radii(training)
        training.settings = settings.with_values(**chosen)
        training.problem = training.problem_now()
    if settings["radius"] == "confidence":
        from drfl.training.intervals import confidence_radii

        found = confidence_radii(training)
        training.settings = settings.with_values(radius=found)
        training.problem = training.problem_now()
    with warnings_as_sentences(listener):
        results = training.train()
    if any(result.status.kind is StatusKind.FAILED for result in results):
        return Trained(None, results, training.records)
    model = training.finish(results)
    training.compare(settings["compare"])
    training.leave_out(results)
    if settings["validation"]:
        from drfl.training.held_out import validated

        with warnings_as_sentences(listener):
            validated(training)
    outcome = Trained(model, results, training.records)
    # Noisy answers may stay, and make a resumed run free.
    if outcome.proved and not settings["keep_cuts"] and not settings.private:
        folder.forget_cuts()  # they tell of rows, and nothing is left to resume
    return outcome


@dataclass
class Training:
    """What a training works with: where it writes to, whom it speaks to, who the clients are."""

    settings: Settings
    folder: RunFolder
    listener: Listener
    records: Records
    federation: Federation

    def prepare(self) -> None:
        """The preflight: from files to clients that fit together."""
        federation = self.federation
        self.agreement = agreement = preflight(
            self.settings.data_request(), federation.names, federation.ask
        )
        self.listener.say(*agreement.describe())
        for sentence in [*agreement.warnings, *advice(self.settings, agreement)]:
            self.listener.warn(sentence)
        self.curves, self.pieces = self._agreed_curves()
        self.classes, apart = classes_together(self.settings, agreement, self.curves)
        if apart:
            self.listener.say(f"each class is told from the rest by a model of its own: {apart}")
        self.problem = self.problem_now()
        check_solver(self.settings, agreement, self.problem, _solver(self.settings))
        check_compared(self.settings, self.problem, list(agreement.rows.values()))
        check_folds(self.settings, agreement.rows)
        if self.settings["by"]:
            from drfl.training.held_out import wanted_groups

            wanted_groups(self.settings, agreement)  # what is wrong with them is said now
        line = guards_line(agreement.guards, self.settings, self.folder)
        if self.settings.private:
            self.listener.say(line, NOT_EXACT)
        elif any(agreement.guards.values()):
            self._check_guards()
            self.listener.say(line)
        else:
            network = self.problem.network is not None
            self.listener.warn(WITHOUT_GUARD + (NETWORK_UNGUARDED if network else PREVENTED))
        made_with = versions() if self.settings["module"] is None else versions("torch")
        self.record("start", **made_with, seed=self.settings["seed"], guard=line)
        self.record("settings", **self.settings.all())
        self.record("preflight", **preflight_facts(agreement))
        if self.pieces:
            self.record("pieces", rows=self.pieces, features=agreement.features)
        self.record("problem", **self.problem.to_dict())

    def problem_now(self) -> Problem:
        """The problem as the settings are now."""
        return make_problem(self.settings, self.agreement, self.curves, self.classes)

    def _agreed_curves(self) -> tuple[Curves | None, dict[str, list[int]]]:
        """The curves that are asked for, where the clients have rows enough, and these rows."""
        wanted = wanted_curves(self.settings, self.agreement)
        if wanted is None:
            return None, {}
        curves, rows = agreed_pieces(self.federation, self.agreement, wanted)
        for j, name in enumerate(self.agreement.features):
            fewer = len(wanted.knots[j]) - len(curves.knots[j])
            if fewer and not curves.knots[j]:
                self.listener.say(f"column {name!r} stays linear: too few rows, or values")
            elif fewer:
                left = len(curves.knots[j])
                self.listener.say(f"the curve of {name!r} has {left} knots: rows or values are few")
        return curves, rows

    def train(self) -> list[Result]:
        """Solve the problem of every linear model."""
        solver, targets = _solver(self.settings), self.targets
        results = []
        for k, positive in enumerate(targets):
            prefix = f"class {k + 1} of {len(targets)}: " if len(targets) > 1 else ""

            def watch(record: Record, k: int = k, prefix: str = prefix) -> None:
                self.record("round", model=k, **round_facts(record))
                self.listener.progress(record, prefix)

            written: dict[str, Any] = {"callbacks": [watch], "checkpoint": self.folder.cuts(k)}
            results.append(self._solved(self.problem, solver, positive, **written))
            self.listener.clear()
        return results

    def compare(self, names: Sequence[str]) -> None:
        """Train other methods on the same clients."""
        rows = list(self.agreement.rows.values())
        for name in names:
            problem, solver = stated(name, self.problem, rows, self.settings["seed"])
            targets = self.targets_of(problem)
            if len(targets) > len(self.targets):
                self.listener.say(f"{name} is of one score: it tells each class from the rest")
            results = [self._solved(problem, solver, positive) for positive in targets]
            self.record("comparison", **self.outcome(name, results, problem))

    def leave_out(self, results: Sequence[Result]) -> None:
        """Train without each client in turn: what does it do to the worst-case losses of others?

        A report of rows at hand does the same with these. Under a guard it costs the ledgers about
        as much again per client, so that it has to be asked for.
        """
        rows, wanted = self.agreement.rows, self.settings["leave_out"]
        if wanted is None:
            elsewhere = all(path is None for path in self.settings.clients.values())
            wanted = (
                elsewhere and not self.settings.private and not any(self.agreement.guards.values())
            )
            wanted = wanted and self.problem.network is None  # another training for each client
        for name in rows if wanted and len(rows) >= FEWEST else ():
            others = [other for other in rows if other != name]
            fits = [self._without(name, positive) for positive in self.targets]
            if any(fit.status.kind is StatusKind.FAILED for fit in fits):
                continue
            before, after = (
                float(np.mean([fit.client_losses[other] for fit in found for other in others]))
                for found in (results, fits)
            )
            if not (before > 0.0 and np.isfinite(after)):
                continue  # somebody was lost on the way
            weight = max(result.weights[name] for result in results)
            facts = {"client": name, "weight": weight, "with": before, "without": after}
            self.record(LEFT_OUT, **facts)
            if sentence := unexplained(name, weight, before, after):
                self.listener.warn(sentence)

    def _without(self, name: str, positive: int | None) -> Result:
        problem, solver = without(self.problem, self.agreement.rows, name), _solver(self.settings)
        return self._solved(problem, solver, positive, tol=self._rough, left_out=name)

    @property
    def _rough(self) -> float:
        """The tolerance of models that others are compared with."""
        return float(max(self.settings["tol"], CLOSE_ENOUGH))

    def _solved(
        self,
        problem: Problem,
        solver: Solver,
        positive: int | None,
        *,
        tol: float | None = None,
        left_out: str | None = None,
        **watched: Any,
    ) -> Result:
        """A problem on the clients, all of them or all but one, with this class as +1."""
        parties = self.federation.place(self.agreement, positive)
        return solve(
            problem,
            [party for party in parties if party.name != left_out],
            solver=self._told(solver),
            engine=self.federation.engine,
            tol=self.settings["tol"] if tol is None else tol,
            max_rounds=self.settings["max_rounds"],
            **watched,
        )

    def _told(self, solver: Solver) -> Solver:
        """With what the preflight says of the clients' columns, if the solver makes use of it."""
        settings: Any = solver.under_guards() if any(self.agreement.guards.values()) else solver
        if "column_sizes" not in settings_of(type(solver)):
            return solver
        told: Solver = replace(settings, column_sizes=self.agreement.column_sizes)
        return told

    @property
    def targets(self) -> list[int | None]:
        """The class that is positive, for each of the model's problems."""
        return self.targets_of(self.problem)

    def targets_of(self, problem: Problem) -> list[int | None]:
        """The class that is positive in each such problem; None for numbers and classes at once."""
        classes, network = self.agreement.target.classes, problem.network
        several = problem.classes is not None or (network is not None and not network.signed)
        if classes is None or several:
            return [None]
        return list(positives(len(classes)))

    def outcome(self, name: str, results: Sequence[Result], problem: Problem) -> dict[str, Any]:
        """How a method did, on the clients' own rows."""
        model = make_model(self.agreement, results, problem)
        # A model is worth having also if a client was lost on the way. Under differential privacy
        # clients tell nothing of how it does on their rows.
        found = {} if self.settings.private else evaluate(self.federation, model, partial=True)
        scored = {client: entry[0] for client, entry in found.items()}
        return {"method": name, **costs(results), "clients": scored}

    def finish(self, results: Sequence[Result]) -> Model:
        """Write the model, and the records with the history of all rounds."""
        model = make_model(self.agreement, results, self.problem)
        from drfl.training.intervals import standard_errors

        if self.problem.network is not None:
            self._intervals(model)
        outcome = self.outcome("drfl", results, self.problem)
        asked, estimates = standard_errors(self, results)
        for sent in message_facts(results, asked):
            self.record("messages", **sent)
        lines, beside = self._lines()
        drawn = self._drawn(model, estimates, lines)
        self.record("result", **outcome, **result_facts(model, results), **drawn)
        if beside:
            self.record("comparison", **beside)
        write_model(model, self.folder.model, mode=PRIVATE)
        rounds = [
            {"kind": "round", "model": k, **round_facts(record)}
            for k, result in enumerate(results)
            for record in result.history
        ]
        others = [record for record in self.records.all if record["kind"] != "round"]
        at = next(k for k, record in enumerate(others) if record["kind"] in ENDS)
        self.records.rewrite([*others[:at], *rounds, *others[at:]])
        return model

    def _drawn(
        self, model: Model, estimates: Mapping[int, Estimate], lines: Array | None
    ) -> dict[str, Any]:
        """The curves with their bands, the rows under them and lines beside, for the records."""
        curves = model.problem.curves
        if curves is None:
            return {}
        bands = slope_estimates(model, estimates)
        rows = np.sum(list(self.pieces.values()), axis=0).tolist()
        return {"curves": curve_facts(model, estimates=bands, lines=lines, rows=rows)}

    def _lines(self) -> tuple[Array | None, dict[str, Any]]:
        """Linear models beside an additive one (K, n), and how good they are.

        They keep the rules that lines can.
        None without curves, nor under a guard, where they would cost answers.
        """
        if self.problem.curves is None or any(self.agreement.guards.values()):
            return None, {}
        straight = self.problem.curves.straight()
        problem = make_problem(self.settings, self.agreement, straight, self.classes)
        solver = _solver(self.settings)
        results = [self._solved(problem, solver, p, tol=self._rough) for p in self.targets]
        if any(result.status.kind is StatusKind.FAILED for result in results):
            return None, {}
        outcome = self.outcome(LINES, results, problem)
        return stacked(results)[0], outcome

    def _intervals(self, model: Model) -> None:
        """Ask every client between which bounds its worst case lies, and write it down."""
        ((attacks, _),) = explain(self.federation, model, partial=True)
        for name, found in attacks.items():
            self.record("interval", client=name, lower=found.worst_loss, upper=found.bound)

    def _check_guards(self) -> None:
        require_two(len(self.agreement.target.classes or ()))
        self.federation.check(self.agreement, self.targets[0], self.problem)

    def record(self, kind: str, **data: Any) -> None:
        """Add an object to the records."""
        self.listener.record(self.records.add(kind, **data))


def _solver(settings: Settings) -> Solver:
    """The solver, with the seed if it draws anything; of a network its method."""
    if settings["module"] is not None:
        from drfl.native import METHODS

        return configured_method(settings, METHODS[settings["solver"]])
    return configured(solver_class(settings["solver"]), seed=settings["seed"])


def make_model(agreement: Agreement, results: Sequence[Result], problem: Problem) -> Model:
    """A model from what was agreed upon and what was found."""
    names, (coef, intercept) = list(agreement.rows), stacked(results)
    return Model(
        target=agreement.target,
        columns=agreement.columns,
        scale=agreement.scale,
        missing=agreement.missing,
        coef=coef,
        intercept=intercept,
        problem=problem,
        certificates=tuple(ProofRecord.of(result) for result in results),
        clients=tuple(
            ClientPart(
                name,
                agreement.rows[name],
                tuple(r.weights[name] for r in results),
                tuple(r.client_losses[name] for r in results),
            )
            for name in names
        ),
        version=version("drfl"),
        calibrations={
            name: Calibration.trained(intercepts_at(results, name))
            for name in names
            if problem.own_intercepts and np.isfinite(intercepts_at(results, name)).all()
        },
    )
