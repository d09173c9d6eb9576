"""The commands of the pages work as they stand, in their order, with the code between them."""

import shutil

import pytest

from kit.pages import PAGES, blocks, name, require_same, run_python
from kit.program import drfl, write_hospitals

# make test-flower and make test-torch run the commands of these.
ELSEWHERE = {"docs/flower.md", "docs/networks.md"}
WITH_COMMANDS = [p for p in PAGES if blocks(p, "console") and name(p) not in ELSEWHERE]
# These fit dozens of models.
SLOW = {"docs/command-line.md", "docs/tutorial.md"}


def as_parameter(page):
    marks = [pytest.mark.slow] if name(page) in SLOW else []
    return pytest.param(page, id=name(page), marks=marks)


@pytest.mark.parametrize("page", [as_parameter(page) for page in WITH_COMMANDS])
def test_the_commands_of_a_page_run_in_their_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What the pages speak of: a file for each of three hospitals, and one of new patients.
    write_hospitals(tmp_path)
    shutil.copy(tmp_path / "a.csv", tmp_path / "new.csv")
    namespace = {"__name__": page.stem}
    for block in blocks(page, "python", "console"):
        if block.kind == "python":
            run_python(page, block, namespace, tmp_path)
            continue
        for (program, *arguments), shown in block.commands:
            assert program == "drfl"
            require_same(shown, drfl(*arguments, cwd=tmp_path, validation=True).out)


def test_the_pages_with_commands_are_found():
    assert {"README.md", *SLOW} <= {name(page) for page in WITH_COMMANDS}


def test_output_that_a_page_makes_up_is_found():
    require_same("3 clients... 270 rows\n", "3 clients, with\n270  rows\n")
    with pytest.raises(AssertionError, match="but the program says"):
        require_same("4 clients ...\n", "3 clients\n")
