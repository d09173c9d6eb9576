"""The commands of the pages work as they stand."""

import re
import shlex
from pathlib import Path

import pytest
from program import drfl, write_hospitals

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize(
    "page", ["README.md", pytest.param("docs/command-line.md", marks=pytest.mark.slow)]
)
def test_the_commands_of_a_page_run_in_their_order(page, tmp_path):
    write_hospitals(tmp_path)
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "new.csv").write_text(text)
    found = commands(page)
    assert any("--client a.csv --client b.csv --client c.csv" in line for line in found)
    for line in found:
        program, *arguments = shlex.split(line)
        assert program == "drfl"
        drfl(*arguments, cwd=tmp_path)
