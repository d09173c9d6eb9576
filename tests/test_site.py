"""``make docs``: the site is built without a warning, knows every public name, works offline."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import drfl

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"torch"}  # what is not installed here has a page of its own
MODULES = [
    f"drfl.{m.name}"
    for m in pkgutil.iter_modules(drfl.__path__)
    if m.name[0] != "_" and m.name not in ELSEWHERE
]
SOLVERS = ["drfl.solvers.bundle", "drfl.solvers.admm", "drfl.solvers.local"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    program = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    cache = ["-d", str(folder / "cache")]
    done = subprocess.run(
        [*program, *cache, str(ROOT / "docs"), str(folder / "html")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


def public_names(module):
    """Classes and functions that a module offers: in ``__all__``, or its own ones."""
    made = importlib.import_module(module)
    listed = getattr(made, "__all__", [n for n in vars(made) if n[0] != "_"])
    found = {n: getattr(made, n) for n in listed}
    things = {n: v for n, v in found.items() if inspect.isclass(v) or inspect.isfunction(v)}
    return [n for n, v in things.items() if hasattr(made, "__all__") or v.__module__ == module]


def test_every_public_name_has_its_place(site):
    # The inventory is what other sites link to.
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind in inventory.data if kind[:3] == "py:" for name in inventory.data[kind]}
    assert {module for module in MODULES if module not in known} == set()
    names = [f"{m}.{name}" for m in [*MODULES, *SOLVERS] for name in public_names(m)]
    assert len(names) > 150
    assert [name for name in names if name not in known] == []
    # Those of drfl itself are shown where they are defined.
    text = (site / "reference" / "user.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'class="pre">(\w+)</span>', text))
    assert {name for name in drfl.__all__ if name[0] != "_"} <= shown


def test_every_page_of_the_folder_is_in_the_site(site):
    pages = [page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")]
    pages = [page for page in pages if not page.parts[0].startswith("_")]
    contents = (site / "index.html").read_text(encoding="utf-8")
    for page in pages:
        assert (site / page.with_suffix(".html")).is_file()
        if len(page.parts) == 1 and page.stem != "index":
            assert f'href="{page.stem}.html"' in contents


def test_formulas_are_drawn_by_the_browser_itself(site):
    theory = (site / "theory.html").read_text(encoding="utf-8")
    assert theory.count("<math ") > 20
    assert "$" not in re.sub(r"<pre.*?</pre>|<script.*?</script>", "", theory, flags=re.DOTALL)


def test_nothing_is_fetched_from_a_network(site):
    loads = re.compile(r"""<(?:script|img|iframe|source)[^>]*\bsrc=["'](?:https?:)?//""")
    sheets = re.compile(r"""<link[^>]*\brel=["'](?!canonical)[^>]*\bhref=["'](?:https?:)?//""")
    for page in site.glob("**/*.html"):
        text = page.read_text(encoding="utf-8")
        assert not loads.search(text), page.name
        assert not sheets.search(text), page.name
    for style in site.glob("_static/**/*.css"):
        assert not re.search(r"url\(['\"]?https?:", style.read_text(encoding="utf-8"))
