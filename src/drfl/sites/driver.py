"""What the server does with an order: to train, to check, or something with a model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drfl._registry import listed, load_extensions
from drfl.files import write_json
from drfl.models.plain import from_plain, to_plain
from drfl.problem import to_json
from drfl.protocols.agreement import preflight
from drfl.protocols.calibration import calibrate
from drfl.protocols.data_request import array_text
from drfl.protocols.evaluation import evaluate, probabilities
from drfl.protocols.explanation import explain, explained_facts
from drfl.protocols.federation import Remote
from drfl.run.checkpoint import cut_back
from drfl.sites.carrier import Carrier
from drfl.sites.engine import SILENT, QuorumError, SitesEngine
from drfl.sites.gate import HELLO
from drfl.sites.order import PROGRESS, SCHEMA, Order, read_order
from drfl.sites.progress import ProgressLog
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from drfl.wire import Failure, Message, WireError

STATE = "DRFL_SITES_STATE"  # the environment variable with the path of the server's own folder
LAST_WORDS = 3.0  # seconds that the coordinator has to hear the end of the story

MakeCarrier = Callable[[float, float], Carrier]
Publish = Callable[[str, Callable[[dict[str, Any]], dict[str, Any]]], None]


def drive(
    text: str, present: Iterable[str], carrier: MakeCarrier, results: Path, publish: Publish
) -> None:
    """Carry an order out, and write down what came of it.

    ``carrier`` makes the carrier from the seconds of silence and of patience, ``results`` is the
    folder that the coordinator fetches, and ``publish`` makes a function an application command.
    """
    log, missing, run = ProgressLog(), dict[str, str](), results / "RUN"
    publish(PROGRESS, log.since)
    facts: dict[str, Any] = {"status": "failed", "exit": FAILED}
    try:
        load_extensions()
        order = read_order(text)
        facts["kind"] = order.kind
        state = Path(os.environ[STATE]) / order.run

        def lose(site: str, why: str) -> None:
            missing[site] = why
            log.missing(site, why)
            if why == SILENT:
                note_silent(state, site)

        engine = _engine(order, present, carrier, lose)
        log.phase = "working"
        facts |= Work(order, engine, log, run, state).done()
    except QuorumError as error:
        log.warn(str(error))
        facts |= {"status": "quorum", "sentence": str(error)}
    except (ValueError, RuntimeError) as error:
        facts |= {"sentence": str(error)}
    outcome = {"schema": SCHEMA, **facts, "missing": missing, "resubmit": bool(missing)}
    write_json(run / "outcome.json", to_json(outcome))
    log.end("failed" if facts["exit"] == FAILED else "done", LAST_WORDS)


def _engine(
    order: Order, present: Iterable[str], carrier: MakeCarrier, lose: Callable[[str, str], object]
) -> SitesEngine:
    return SitesEngine(
        carrier(order.silence, order.patience),
        order.sites,
        present,
        quorum=order.quorum,
        deadline=order.deadline,
        lose=lose,
    )


OK, SHORT, FAILED = 0, 4, 5  # exit codes of the command that gave the order, those of `drfl train`


@dataclass
class Work:
    """What is done for an order.

    ``run`` is the folder that the coordinator gets; ``state`` is the server's folder of the run,
    which outlives the job.
    """

    order: Order
    engine: SitesEngine
    log: ProgressLog
    run: Path
    state: Path

    def done(self) -> dict[str, Any]:
        """Do it; the facts for the outcome."""
        kinds = {
            "train": self._train,
            "check": self._check,
            "inspect": self._inspect,
            "evaluate": self._evaluate,
            "explain": self._explain,
            "calibrate": self._calibrate,
        }
        return kinds[self.order.kind]()

    @cached_property
    def sites(self) -> Remote:
        """The sites that were there when the job began, if all run this version of drfl."""
        present = [site for site in self.order.sites if site not in self.engine.missing]
        sites = Remote(self.engine, present)
        replies = sites.ask(dict.fromkeys(present, Message(HELLO, 0)))
        self.guards = {name: _about(reply)["guard"] for name, reply in replies.items()}
        for name, about in ((name, _about(reply)) for name, reply in replies.items()):
            if about["drfl"] != version("drfl"):
                raise ValueError(
                    f"site {name!r} has drfl {about['drfl']}, and the server {version('drfl')}: "
                    "install the same version"
                )
        return sites

    # ------------------------------------------------------------------ training
    def _train(self) -> dict[str, Any]:
        settings = from_values(self.order.settings, dict.fromkeys(self.sites.names))
        # Attempts with other sites are other runs: they share nothing.
        names = json.dumps(self.sites.names).encode()
        checkpoint = self.state / hashlib.sha256(names).hexdigest()[:16]
        self._take_up(checkpoint)
        folder = RunFolder(self.run, checkpoint=checkpoint)
        found = train(settings, folder, self.sites, self.log, fresh=True)
        if found.model is None:
            return {"sentence": found.failure}
        worst = max(found.results, key=lambda result: result.gap).status
        if not self.engine.missing:
            exit = OK if found.complete else SHORT
            return {"status": str(worst.kind), "sentence": worst.message, "exit": exit}
        sentence = f"{listed(self.engine.missing)} did not take part to the end; {worst.message}"
        return {"status": "partial", "sentence": sentence, "exit": SHORT}

    def _take_up(self, checkpoint: Path) -> None:
        """Forget the rounds that an earlier attempt made without a site that is back."""
        silent = read_silent(self.state)
        back = [site for site in silent if site in self.sites.names]
        if back:
            for log in checkpoint.glob("model-*"):
                cut_back(log, back)
            (self.state / SILENCES).unlink()

    # ------------------------------------------------------------------ the other protocols
    def _check(self) -> dict[str, Any]:
        greeted = self.engine.map(dict.fromkeys(self.order.sites, Message(HELLO, 0)), None)
        found: dict[str, dict[str, Any]] = {}
        for name, reply in greeted.replies.items():
            about = _about(reply)
            told = {"version": about.pop("drfl"), **about}
            found[name] = told | {"ok": True, "sentence": ""}

        def ask(messages: Mapping[str, Message]) -> dict[str, Message]:
            answers = self.engine.map(messages, None)
            for name, code in answers.failures.items():
                found[name] |= {"ok": False, "sentence": Failure(code).sentence}
            if answers.failures:
                raise ValueError("not every site can take part")
            return answers.replies

        facts: dict[str, Any] = {"status": "failed", "exit": FAILED, "sites": found}
        try:
            settings = from_values(self.order.settings, dict.fromkeys(found))
            agreement = preflight(settings.data_request(), list(found), ask)
        except ValueError as error:
            return facts | {"sentence": str(error)}
        for name, rows in agreement.rows.items():
            found[name]["rows"] = rows
        exit = OK if len(found) == len(self.order.sites) else FAILED
        lines = [*agreement.describe(), *agreement.warnings]
        return facts | {"status": "ready", "exit": exit, "sentence": "", "agreement": lines}

    def _inspect(self) -> dict[str, Any]:
        """Table 1; to look at files with gaps is what this is for."""
        values = self.order.settings
        if values.get("missing", "error") == "error":
            values = {**values, "missing": "mean"}
        settings = from_values(values, dict.fromkeys(self.sites.names))
        agreement = preflight(settings.data_request(), self.sites.names, self.sites.ask)
        return {
            "status": "done",
            "exit": SHORT if self.engine.missing else OK,
            "sentence": "",
            "agreement": agreement.describe(),
            "warnings": list(agreement.warnings),
            "table": agreement.table.facts(),
        }

    def _evaluate(self) -> dict[str, Any]:
        model = from_plain(self.order.model)
        asked = dict(self.order.options)
        thresholds, by = asked.pop("thresholds"), asked.pop("by")
        found = evaluate(self.sites, model, partial=True, warn=self.log.warn, **asked)
        judged = probabilities(self.sites, model, thresholds, by)
        return self._found({"metrics": found, "probabilities": judged, "guards": self.guards})

    def _explain(self) -> dict[str, Any]:
        model = from_plain(self.order.model)
        found = explain(self.sites, model)
        return self._found([e for k, told in enumerate(found) for e in explained_facts(k, *told)])

    def _calibrate(self) -> dict[str, Any]:
        options = self.order.options
        names = list(options["sites"] or self.order.sites)
        if absent := [name for name in names if name not in self.sites.names]:
            raise ValueError(f"site {absent[0]!r} is not there: wait for it, or leave it out")
        if guarded := [name for name in names if self.guards[name]]:
            raise ValueError(
                f"site {guarded[0]!r} has a guard, and whoever chooses a model could choose whose "
                "rows a fit to its scores tells of: leave the site out (--site), or calibrate at "
                "the site, with `drfl calibrate MODEL FILE`, where the result stays"
            )
        model = calibrate(Remote(self.engine, names), from_plain(self.order.model), options["kind"])
        return self._found({"model": to_plain(model), "sites": names})

    def _found(self, result: Any) -> dict[str, Any]:
        write_json(self.run / "result.json", to_json(result), indent=None)
        exit = SHORT if self.engine.missing else OK
        return {"status": "done", "exit": exit, "sentence": ""}


SILENCES = "silent.json"  # the sites that fell silent in an attempt at the run


def note_silent(state: Path, site: str) -> None:
    """Keep for the next attempt that this one went on without a site."""
    write_json(state / SILENCES, [*read_silent(state), site], indent=None)


def read_silent(state: Path) -> list[str]:
    """Who fell silent in the attempts before."""
    try:
        found: list[str] = json.loads((state / SILENCES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return found


def _about(reply: Message) -> dict[str, Any]:
    try:
        about = array_text(reply.arrays["about"])
        known = {"drfl": str(about["drfl"]), "guard": int(about["guard"])}
        return {**known, "schema": about["schema"], "python": about["python"]}
    except (KeyError, ValueError, TypeError, RecursionError):
        raise WireError("a site did not say which drfl it has") from None
