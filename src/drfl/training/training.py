"""A training: preflight, selection, the runs of the linear models, what is compared."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drfl.client import Party
from drfl.models import Model, write_model
from drfl.preflight.server import preflight
from drfl.problem import Problem
from drfl.result import Record, Result
from drfl.run import solve
from drfl.solvers import Solver, solver_class
from drfl.training.asking import evaluate
from drfl.training.facts import costs, make_model, preflight_facts, result_facts, round_facts
from drfl.training.federation import Federation
from drfl.training.guarding import guards_line
from drfl.training.methods import stated
from drfl.training.problems import make_problem
from drfl.training.run_folder import Records, RunFolder
from drfl.training.settings import Settings
from drfl.training.voice import Voice


@dataclass
class Training:
    """What a training works with.

    Attributes
    ----------
    settings : Settings
        All of them.
    folder : RunFolder
        Where it writes to.
    voice : Voice
        Whom it speaks to.
    records : Records
        What happened.
    federation : Federation
        The clients.
    """

    settings: Settings
    folder: RunFolder
    voice: Voice
    records: Records
    federation: Federation

    def prepare(self) -> None:
        """The preflight: from files to clients that fit together."""
        federation = self.federation
        self.agreement = agreement = preflight(
            self.settings.wishes(), federation.names, federation.ask
        )
        self.voice.say(*agreement.describe())
        for sentence in agreement.warnings:
            self.voice.warn(sentence)
        self.problem = make_problem(self.settings, agreement)
        line = guards_line(agreement.guards, self.settings, self.folder)
        if any(agreement.guards.values()):
            self._check_guards()
            self.voice.say(line)
        self.record("start", **self._versions(), seed=self.settings["seed"], guard=line)
        self.record("settings", **self.settings.all())
        self.record("preflight", **preflight_facts(agreement))
        self.record("problem", **self.problem.to_dict())

    def train(self) -> list[Result]:
        """Solve the problem of every linear model."""
        solver = _solver(self.settings)
        targets = self.targets
        results = []
        for k, positive in enumerate(targets):
            prefix = f"class {k + 1} of {len(targets)}: " if len(targets) > 1 else ""
            results.append(
                self._solve(
                    self.problem,
                    solver,
                    self.federation.place(self.agreement, positive),
                    checkpoint=self.folder.checkpoint / f"model-{k}",
                    model=k,
                    prefix=prefix,
                )
            )
        return results

    def compare(self, names: Sequence[str]) -> None:
        """Train other methods on the same clients."""
        rows = list(self.agreement.rows.values())
        for name in names:
            problem, solver = stated(name, self.problem, rows, self.settings["seed"])
            results = [
                solve(
                    problem,
                    self.federation.place(self.agreement, positive),
                    solver=solver,
                    engine=self.federation.engine,
                    tol=self.settings["tol"],
                    max_rounds=self.settings["max_rounds"],
                )
                for positive in self.targets
            ]
            self.record("comparison", **self.outcome(name, results, problem))

    @property
    def targets(self) -> list[int | None]:
        """The class that is positive, for each linear model; None for a numeric target."""
        classes = self.agreement.target.classes
        if classes is None:
            return [None]
        return [1] if len(classes) == 2 else list(range(len(classes)))

    def outcome(self, name: str, results: Sequence[Result], problem: Problem) -> dict[str, Any]:
        """How a method did, on the clients' own rows."""
        model = make_model(self.agreement, results, problem)
        # A model is worth having also if a client was lost on the way.
        found = evaluate(self.federation, model, partial=True)
        scored = {client: entry[0] for client, entry in found.items()}
        return {"method": name, **costs(results), "clients": scored}

    def finish(self, results: Sequence[Result]) -> Model:
        """Write the model, and the records with the history of all rounds."""
        model = make_model(self.agreement, results, self.problem)
        outcome = self.outcome("drfl", results, self.problem)
        self.record("result", **outcome, **result_facts(model, results))
        write_model(model, self.folder.model)
        rounds = [
            {"kind": "round", "model": k, **round_facts(record)}
            for k, result in enumerate(results)
            for record in result.history
        ]
        others = [record for record in self.records.all if record["kind"] != "round"]
        at = next(k for k, record in enumerate(others) if record["kind"] == "result")
        self.records.rewrite([*others[:at], *rounds, *others[at:]])
        return model

    def _solve(
        self,
        problem: Problem,
        solver: Solver,
        clients: Sequence[Party],
        *,
        checkpoint: Path,
        model: int,
        prefix: str,
    ) -> Result:
        def watch(record: Record) -> None:
            self.record("round", model=model, **round_facts(record))
            self.voice.progress(record, prefix)

        result = solve(
            problem,
            clients,
            solver=solver,
            engine=self.federation.engine,
            tol=self.settings["tol"],
            max_rounds=self.settings["max_rounds"],
            callbacks=[watch],
            checkpoint=checkpoint,
        )
        self.voice.clear()
        return result

    def _check_guards(self) -> None:
        if len(self.targets) > 1:
            raise ValueError(
                f"a guard knows two classes or a numeric target, and {self.agreement.target.name!r}"
                f" has {len(self.targets)} classes: each would need another ledger of the same rows"
            )
        self.federation.check(self.agreement, self.targets[0])

    def record(self, kind: str, **data: Any) -> None:
        """Add an object to the records."""
        self.voice.record(self.records.add(kind, **data))

    def _versions(self) -> dict[str, str]:
        return {
            "python": platform.python_version(),
            **{name: version(name) for name in ("drfl", "numpy", "scipy", "scikit-learn", "piqp")},
        }


def _solver(settings: Settings) -> Solver:
    """The solver, with the seed if it draws anything."""
    kind: Any = solver_class(settings["solver"])
    known = {field.name for field in fields(kind)} if is_dataclass(kind) else set[str]()
    solver: Solver = kind(seed=settings["seed"]) if "seed" in known else kind()
    return solver
