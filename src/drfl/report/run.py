"""The report of a run: from ``RUN/records.jsonl`` and the files beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drfl.files import write_text
from drfl.models import Model, ModelError, read_model
from drfl.report.evidence import Evidence, Json, read_records, sentence
from drfl.report.measure import ClientSample, Plan, measured
from drfl.report.page import page
from drfl.report.questions import QUESTIONS
from drfl.report.suppression import Groups


def write(
    run: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    data: Mapping[str, ClientSample] | None = None,
    plan: Plan = Plan(),  # noqa: B008  (frozen)
) -> Path:
    """Write the report of a run.

    Parameters
    ----------
    run : path
        The folder of a run that has ended.
    path : path, optional
        Where to; by default ``report.html`` in that folder.
    data : mapping of str to ClientSample, optional
        The rows of the clients, where they are at hand: with them the report also shows what needs
        rows, as far as the run has not recorded it.
    plan : Plan
        What is computed from these rows.

    Returns
    -------
    Path
        The page.
    """
    folder = Path(run)
    records = read_records(folder / "records.jsonl")
    model = _model(folder)
    if model is not None:
        # With a selection, the problem in the records is the one before it.
        records = [record for record in records if record["kind"] != "problem"]
        records += [{"kind": "problem", **model.problem.to_dict()}, *units_of(model)]
    if data and model is not None:
        known = {record["kind"] for record in records}
        methods = {str(r.get("method")) for r in records if r["kind"] == "comparison"}
        plan = plan.without(known, methods)
        records += [{"kind": "plan", **asdict(plan)}, *measured(model, data, plan)]
    return write_page(records, folder / "report.html" if path is None else Path(path))


def write_page(records: Iterable[Json], path: Path) -> Path:
    """Write the page that records make."""
    evidence = Evidence(records)
    groups = Groups(evidence)
    asked = [question(evidence, groups) for question in QUESTIONS]
    target = sentence(evidence.first("preflight").get("target"))
    subtitle = f"It predicts {target}." if target else ""
    write_text(path, page([section for section in asked if section is not None], subtitle))
    return path


def units_of(model: Model) -> list[Json]:
    """A record of how columns were scaled; none if every client did it by itself."""
    if model.scale == "per-client":
        return []
    shift, scale = model.scaling(None)
    target = model.target
    record: dict[str, Any] = {"kind": "units", "shift": shift.tolist(), "scale": scale.tolist()}
    return [record | {"target_shift": target.shift, "target_scale": target.scale}]


def _model(folder: Path) -> Model | None:
    try:
        return read_model(folder / "model.json")
    except ModelError:
        return None  # the records have its coefficients, of scaled columns
