"""A project that is written once."""

import pytest

from kit.real_sites import write_project


@pytest.fixture(scope="session")
def layout(tmp_path_factory):
    """A project of two sites, written; do not change it."""
    made = write_project(tmp_path_factory.mktemp("project"), ["north", "south"])
    made.create(with_kits=True)
    return made
