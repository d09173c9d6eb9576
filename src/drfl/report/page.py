r"""Sections as one HTML page that needs nothing else.

Whatever comes from data is escaped here, and in the JSON that the charts are drawn from a ``<`` is
written as ``\u003c``; the script puts text into the page as text only. Should all of that fail,
the page's own policy lets no other script run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from functools import singledispatch
from importlib.resources import files
from itertools import groupby
from typing import Any

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

LARGEST = 1_000_000
"""Bytes that a page may have."""

WITHOUT_SCRIPT = "Scripts are off: tables stand where charts would be drawn."
TITLE = "A distributionally robust federated model"
_OUTSIDE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def page(sections: Sequence[Section], subtitle: str = "") -> str:
    """The page.

    Parameters
    ----------
    sections : sequence of Section
        In their order.
    subtitle : str
        Under the title.
    """
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
