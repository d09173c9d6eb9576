"""Put the records of a run into docs/performance.md, with its pictures.

python -m benchmarks.suite.page FOLDER

What stands before the marker in the page stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.suite.memory import ROOT
from benchmarks.suite.records import read_records, table

NONE = Image.Dither.NONE
PAGE = ROOT / "docs" / "performance.md"
MARKER = "<!-- what follows is written by benchmarks/suite/page.py -->"
PICTURES = {
    "ratios": "How many times better drfl is, by row, on a logarithmic scale",
    "growth": "Seconds against rows, features and clients",
}


def main(folder: Path) -> None:
    machine, lines = read_records(folder)
    text = PAGE.read_text("utf-8").partition(MARKER)[0].rstrip()
    out = [text, "", MARKER, "", "## The table", "", _where(machine), "", *table(lines), ""]
    for name, words in PICTURES.items():
        if (folder / f"{name}.png").exists():
            picture = f"figures/performance-{name}.png"
            colours = Image.open(folder / f"{name}.png").convert("RGB").quantize(64, dither=NONE)
            colours.save(PAGE.parent / picture, optimize=True)
            out += [f"![{words}]({picture})", ""]
    PAGE.write_text("\n".join(out).rstrip() + "\n", "utf-8")


def _where(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {v}" for name, v in machine["packages"].items() if v)
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python "
        f"{machine['python']}; {packages}."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "bench"))
