"""The browser, if there is one."""

import os

import pytest
from report_browser import Browser, find_browser

REQUIRED = "DRFL_REQUIRE_BROWSER"
PATH = find_browser() if os.name == "posix" else None


def pytest_collection_modifyitems(items):
    """Skip what needs a browser; as a mark, so that the summary says it in one line."""
    if PATH is None and not os.environ.get(REQUIRED):
        skipped = pytest.mark.skip(
            "no Chromium on this machine: reports are not tried in a browser"
        )
        for item in items:
            if "browser" in item.fixturenames:
                item.add_marker(skipped)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if PATH is None:
        pytest.fail(f"there is no Chromium, and {REQUIRED} asks for one: install it")
    running = Browser(PATH, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()
