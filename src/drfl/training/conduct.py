"""A training from its beginning to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drfl.models import Model
from drfl.result import Result
from drfl.solvers import StatusKind
from drfl.training.federation import Federation, Files
from drfl.training.guarding import guards
from drfl.training.problems import make_problem
from drfl.training.run_folder import Records, RunFolder
from drfl.training.settings import Settings
from drfl.training.station import Station
from drfl.training.training import Training
from drfl.training.voice import Voice, warnings_as_sentences

DONE = (StatusKind.CERTIFIED, StatusKind.LOCAL)


@dataclass(frozen=True)
class Outcome:
    """What came out.

    Attributes
    ----------
    model : Model or None
        None if a run failed; the reason is in its status.
    results : sequence of Result
        Of every linear model.
    records : Records
        What happened.
    """

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


def conduct(
    settings: Settings, folder: RunFolder, federation: Federation, voice: Voice, *, fresh: bool
) -> Outcome:
    """Train, and write everything down as it happens.

    Parameters
    ----------
    settings : Settings
        All of them.
    folder : RunFolder
        Where to; before the preflight has succeeded only what guards remember is written.
    federation : Federation
        The clients.
    voice : Voice
        Whom to speak to.
    fresh : bool
        Whether this is no resumed run.
    """
    if not fresh:
        folder.check_identity(settings)
    training = Training(settings, folder, voice, Records(), federation)
    training.prepare()
    if fresh:
        folder.create(settings)
        folder.check_identity(settings)
    training.records.open(folder.records)
    if settings["select"]:
        from drfl.training.selecting import chosen_radius  # and with it scikit-learn

        training.settings = settings.with_values(radius=chosen_radius(training))
        training.problem = make_problem(training.settings, training.agreement)
    with warnings_as_sentences(voice):
        results = training.train()
    if any(result.status.kind is StatusKind.FAILED for result in results):
        return Outcome(None, results, training.records)
    model = training.finish(results)
    training.compare(settings["compare"])
    return Outcome(model, results, training.records)


def files_here(settings: Settings, folder: RunFolder) -> Files:
    """The clients of settings that name their files."""
    guard = guards(settings, folder)
    stations = [Station(name, path, guard[name]) for name, path in settings.files().items()]
    return Files(stations, settings["engine"])
