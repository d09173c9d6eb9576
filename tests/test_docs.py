"""What the pages say is true: their code runs, their links lead somewhere, their names exist."""

import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import drfl

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
MODULES = sorted(m.name for m in pkgutil.walk_packages(drfl.__path__, "drfl."))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def name(path):
    return path.relative_to(ROOT).as_posix()


def blocks(page):
    """The python blocks of a page, each preceded by as many empty lines as to keep its place."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text.count("\n", 0, m.start(1)) + m[1] for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name)
def test_python_blocks_run(page):
    # One after the other in one namespace, as a reader would type them.
    namespace = {"__name__": page.stem}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run_and_say_something(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module):
    results = doctest.testmod(
        importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert results.failed == 0


def test_the_pages_with_code_are_found():
    assert {"README.md", "docs/adding-a-loss.md"} <= {name(p) for p in PAGES if blocks(p)}


def test_notation_names_what_exists():
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in (ROOT / "docs" / "notation.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and "`" in line
    ]
    assert len(rows) > 20
    for *_, code, where in rows:
        source = "".join(
            (ROOT / "src" / "drfl" / file).read_text(encoding="utf-8")
            for file in re.findall(r"`([^`]+)`", where)
        )
        for word in re.findall(r"[A-Za-z_]\w+", " ".join(re.findall(r"`([^`]+)`", code))):
            assert re.search(rf"\b{word}\b", source), f"{word} is not in {where}"
