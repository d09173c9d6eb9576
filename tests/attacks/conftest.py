"""The table of attacks in docs/privacy.md, from what the tests measure; `make attacks` does it."""

import os
from pathlib import Path

import pytest

BEGIN, END = "<!-- attacks -->", "<!-- end of attacks -->"
HEAD = "| Attack | Without a guard | With it |\n|---|---|---|\n"


@pytest.fixture
def table(record_property):
    """Note what an attack got, without a guard and with one: numbers of a unit, or words.

    Several cases of one attack become a range.
    """

    def note(attack, without, within, unit=""):
        cells = [v if isinstance(v, str) else float(v) for v in (without, within)]
        record_property("attack", [attack, *cells, unit])

    return note


def cell(values, unit):
    """A number, a range or words."""
    words = sorted({value for value in values if isinstance(value, str)})
    if words:
        return "; ".join(words)
    low, high = (_plain(value) for value in (min(values), max(values)))
    text = low if low == high else f"{low} to {high}"
    return f"{text} {unit.removesuffix('s') if text == '1' else unit}".strip()


def _plain(value):
    if value == round(value) and abs(value) < 1e5:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def pytest_terminal_summary(terminalreporter):
    page = os.environ.get("ATTACKS")
    if not page:
        return
    found = {}
    passed = terminalreporter.stats.get("passed", [])
    if any(terminalreporter.stats.get(word) for word in ("failed", "error", "deselected")):
        terminalreporter.write_line(f"{page} stays as it is: not all attacks ran and passed")
        return
    for report in sorted(passed, key=lambda one: one.location[:2]):  # whoever ended first
        for name, entry in report.user_properties:
            if name == "attack":
                found.setdefault((entry[0], entry[3]), []).append(entry[1:3])
    lines = [
        f"| {attack} | {' | '.join(cell(values, unit) for values in zip(*pairs, strict=True))} |"
        for (attack, unit), pairs in found.items()
    ]
    text = Path(page).read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    written = f"{before}{BEGIN}\n{HEAD}" + "\n".join(lines) + f"\n{END}{after}"
    Path(page).write_text(written, "utf-8")
    terminalreporter.write_line(f"{len(lines)} attacks in {page}")
