"""What the pages say is true: their code runs, their links lead somewhere, their names exist."""

import doctest
import importlib
import re
import runpy
import shutil
import subprocess
import tempfile
import tomllib

import pytest

from kit.pages import PAGES, ROOT, blocks, name, run_python

NETWORKS = {ROOT / "docs" / "networks.md"}  # make test-torch runs it
EXAMPLES = sorted(ROOT.glob("examples/**/*.py"))
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
    and "torch" not in path.parts  # make test-torch runs those
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
# Code runs; text is output or a formula; the others tell the site what to make.
CODE, TEXT, SITE = (
    {"python", "console", "sh"},
    {"text", "toml"},
    {"{toctree}", "{eval-rst}", "{math}"},
)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_of_a_kind_that_runs_or_is_no_code(page):
    assert {block.kind for block in blocks(page)} <= CODE | TEXT | SITE
    for block in blocks(page, "text"):
        assert not re.search(r"^\s*(\$|>>>|from \w+ import|import \w+|def )", block.text, re.M)


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if blocks(p, "python") and not blocks(p, "console") and p not in NETWORKS],
    ids=name,
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    # One after the other in one namespace, as a reader would type them. Pages that also have
    # commands are run by tests/cli/test_cli_docs.py.
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for block in blocks(page, "python"):
        run_python(page, block, namespace, tmp_path)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "sh")], ids=name)
def test_the_targets_of_make_exist(page):
    """Building and testing inside of a test would not end: make says what it would do."""
    for block in blocks(page, "sh"):
        for line in block.text.splitlines():
            program, *targets = line.split("#")[0].split()
            assert program == "make"
            said = subprocess.run(
                ["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True
            )
            assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
@pytest.mark.sampled(2)
def test_examples_run_and_say_something(example, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.sampled(2)
def test_doctests(module):
    results = doctest.testmod(
        importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert results.failed == 0


def test_the_pages_with_code_are_found():
    pages = {name(page) for page in PAGES if blocks(page, "python")}
    assert {"README.md", "docs/adding-a-loss.md"} <= pages


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


def test_the_map_has_every_package_from_the_bottom_to_the_top():
    text = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
    table = text.split("## From", 1)[0]
    shown = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.split("\n") if "| " in row]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    height = {module: -k for k, layer in enumerate(layers) for module in re.findall(r"\w+", layer)}
    listed = [module for row in shown for module in row]
    assert sorted([*listed, "__main__"]) == sorted(height)
    order = [height[module] for module in listed]
    assert order == sorted(order)
    for file in re.findall(r"`([\w/]+\.py)`", text):
        assert (ROOT / "src" / "drfl" / file).exists() or (ROOT / file).exists(), file


def test_the_tests_that_the_theory_names_exist():
    said = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "theory.md").read_text("utf-8")))
    written = (ROOT / "tests" / "test_errata.py").read_text("utf-8")
    assert len(said) > 12
    assert {name for name in said if f"def {name}(" not in written} == set()
    # And none of the proofs is left out.
    assert set(re.findall(r"^def (test_\w+)\(", written, re.MULTILINE)) == said
