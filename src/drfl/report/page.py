"""The report of a run: from ``RUN/records.jsonl`` and the files beside it to one HTML page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import singledispatch
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from drfl.files import write_text
from drfl.models import Model, ModelError, read_model
from drfl.problem import Json
from drfl.report.blocks import (
    Chart,
    FactsBlock,
    Lines,
    Marks,
    Section,
    TableBlock,
    Text,
    numbers_of,
)
from drfl.report.evidence import Evidence, read_records, sentence
from drfl.report.measure import ClientSample, Plan, measured
from drfl.report.questions import QUESTIONS
from drfl.report.suppression import Groups

LARGEST = 1_000_000
"""Bytes that a page may have."""

WITHOUT_SCRIPT = "Scripts are off: tables stand where charts would be drawn."
TITLE = "A distributionally robust federated model"
_OUTSIDE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def page(sections: Sequence[Section], subtitle: str = "") -> str:
    """The page: sections in their order, and what stands under the title."""
    style, script = _asset("report.css"), _asset("charts.js") + _asset("report.js")
    charts = [b.data() for s in sections for b in s.blocks if isinstance(b, Lines | Marks)]
    numbers = iter(range(len(charts)))
    body = "\n".join(_section(k, section, numbers) for k, section in enumerate(sections, 1))
    links = "".join(f'<a href="#{s.id}">{text(s.question)}</a>' for s in sections)
    made = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(TITLE)}</title>
<style>{style}</style>
</head>
<body>
<header>
<button type="button" id="theme" hidden>Dark</button>
<h1>{text(TITLE)}</h1>
<p>{text(subtitle)}</p>
<nav>{links}</nav>
</header>
<noscript><p class="note">{text(WITHOUT_SCRIPT)}</p></noscript>
<main>
{body}
</main>
<div id="tip" role="status" hidden></div>
<script type="application/json" id="charts">{embedded(charts)}</script>
<script>{script}</script>
</body>
</html>
"""
    if len(made.encode()) > LARGEST:
        raise ValueError("the report would be larger than 1 MB: this is a bug, please report it")
    return made


def embedded(data: Any) -> str:
    r"""JSON that may stand between the tags of a script.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    plain = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return plain.translate(_OUTSIDE)


def text(value: str) -> str:
    """A text that may stand anywhere in the page; lone surrogates have no bytes in UTF-8."""
    return html.escape(value.encode("utf-8", "replace").decode("utf-8"))


def _policy(style: str, script: str) -> str:
    rules = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{rules}; style-src '{_hash(style)}'; script-src '{_hash(script)}'"


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _asset(name: str) -> str:
    return files("drfl.report").joinpath("assets", name).read_text(encoding="utf-8")


def _section(k: int, section: Section, numbers: Iterator[int]) -> str:
    head = f'<h2><span class="number">{k}</span>{text(section.question)}</h2>'
    parts = [head, f'<p class="answer">{text(section.answer)}</p>']
    for is_chart, run in groupby(section.blocks, lambda block: isinstance(block, Lines | Marks)):
        inner = "\n".join(_html(block, numbers) for block in run)
        parts.append(f'<div class="charts">{inner}</div>' if is_chart else inner)
    return f'<section id="{section.id}">\n' + "\n".join(parts) + "\n</section>"


@singledispatch
def _html(block: object, numbers: Iterator[int]) -> str:
    raise TypeError(f"a page has no place for {type(block).__name__}")


@_html.register
def _(block: Text, numbers: Iterator[int]) -> str:
    return f'<p class="{text(block.tone) or "text"}">{text(block.text)}</p>' if block.text else ""


@_html.register
def _(block: FactsBlock, numbers: Iterator[int]) -> str:
    items = "".join(
        f"<div><dt>{text(label)}</dt><dd>{text(value)}</dd></div>" for label, value in block.items
    )
    return f'<dl class="facts">{items}</dl>'


@_html.register
def _(block: TableBlock, numbers: Iterator[int]) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        kinds = [' class="text"' if k < block.texts else "" for k in range(len(cells))]
        pairs = zip(kinds, cells, strict=True)
        return "<tr>" + "".join(f"<{tag}{c}>{text(v)}</{tag}>" for c, v in pairs) + "</tr>"

    head = row("th", block.head[: len(block.shown[0])] if block.shown else block.head)
    body = "\n".join(row("td", cells) for cells in block.shown)
    left_out = f'<p class="note">{block.left_out}.</p>' if block.left_out else ""
    caption = f"<caption>{text(block.caption)}</caption>"
    pairs = ' class="pairs"' if block.texts == len(block.head) == 2 else ""
    table = (
        f"<table{pairs}>{caption}<thead>{head}</thead><tbody>\n{body}\n</tbody></table>{left_out}"
    )
    table = f'<div class="wide" tabindex="0">{table}</div>'
    if not block.folded:
        return table
    return f"<details><summary>{text(block.caption)}</summary>{table}</details>"


@_html.register(Lines)
@_html.register(Marks)
def _(block: Chart, numbers: Iterator[int]) -> str:
    note = f'<p class="note">{text(block.note)}</p>' if block.note else ""
    title = f"<figcaption>{text(block.title)}</figcaption>"
    table = f"<noscript>{_html(numbers_of(block), numbers)}</noscript>"
    return f'<figure class="chart" data-chart="{next(numbers)}">{title}{note}{table}</figure>'


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
