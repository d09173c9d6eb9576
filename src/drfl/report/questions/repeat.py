"""What is needed to repeat it?"""

from __future__ import annotations

import json

from drfl.problem import Json
from drfl.report.blocks import Section, TableBlock
from drfl.report.evidence import Evidence, clipped, number, objects_of
from drfl.report.evidence import name as short
from drfl.report.figures import plain
from drfl.report.suppression import Groups

QUESTION = "What is needed to repeat it?"
LONGEST = 200


def section(evidence: Evidence, groups: Groups) -> Section:
    """Every parameter, version and seed."""
    start = {key: value for key, value in evidence.first("start").items() if key != "kind"}
    seed = start.pop("seed", evidence.first("settings").get("seed"))
    start |= {} if seed is None else {"seed": seed}
    plan = {key: value for key, value in evidence.first("plan").items() if key != "kind"}
    settings = {k: v for k, v in evidence.first("settings").items() if k != "kind"}
    problem = _problem(evidence.first("problem"), groups)
    tables = [
        TableBlock("Versions and seed.", ["what", "value"], _rows(start), texts=2),
        TableBlock("Settings.", ["setting", "value"], _rows(_told(settings, groups)), texts=2),
        TableBlock("The problem that was solved.", ["part", "value"], _rows(problem), texts=2),
        TableBlock("What the report itself computed.", ["what", "value"], _rows(plan), texts=2),
    ]
    known = f"drfl {short(start['drfl'])}" if "drfl" in start else "The version that is named"
    drawn = "" if seed is None else f" seed {short(seed)},"
    answer = f"{known},{drawn} the settings below and the same rows."
    return Section("repeat", QUESTION, answer, [table for table in tables if table.rows])


def _rows(values: Json) -> list[list[str]]:
    return [[short(key), _shown(value)] for key, value in values.items()]


def _shown(value: object) -> str:
    if isinstance(value, str):
        return clipped(value, LONGEST)
    found = number(value)
    if found is not None:
        return plain(found, 12)
    return clipped(json.dumps(value, ensure_ascii=False), LONGEST)


def _told(settings: Json, groups: Groups) -> Json:
    """Settings, without those of clients of which nothing is told."""
    radius = settings.get("radius")
    if isinstance(radius, dict):
        radius = {client: value for client, value in radius.items() if client in groups.shown}
        return {**settings, "radius": radius}
    return settings


def _problem(problem: Json, groups: Groups) -> Json:
    """The parts of a problem, one per row."""
    parts: Json = {}
    balls = groups.balls(problem)
    ball: Json = {}
    for key in next(iter(balls.values()), {}):
        values = {client: one.get(key) for client, one in balls.items()}
        first = next(iter(values.values()))
        # Those of clients that are not shown may differ: a radius is told with its client.
        common = "" in balls or (key != "radius" and all(v == first for v in values.values()))
        ball[key] = first if common else values
    for what in (objects_of(problem.get("loss")), ball, objects_of(problem.get("mixture"))):
        prefix = "mixture " if "center" in what else "loss " if "name" in what else ""
        parts |= {f"{prefix}{key}": value for key, value in what.items()}
    flags = ("intercept", "shared_ball")
    return parts | {key: problem[key] for key in flags if key in problem}
