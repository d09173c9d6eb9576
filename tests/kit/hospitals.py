"""Files of three hospitals, and a run over them."""

import shutil

import pytest

from kit.program import THREE, drfl, write_hospitals


@pytest.fixture
def files(tmp_path):
    """A folder with a.csv, b.csv and c.csv."""
    write_hospitals(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with the three files and the run RUN; do not change it."""
    folder = tmp_path_factory.mktemp("trained")
    write_hospitals(folder)
    drfl("train", *THREE, "--out", "RUN", cwd=folder)
    return folder


@pytest.fixture
def trained_copy(trained, tmp_path):
    """A copy of `trained` that may be changed."""
    copy = shutil.copytree(trained, tmp_path / "copy")
    config = copy / "RUN" / "config.toml"
    text = config.read_text()
    assert str(trained) in text
    config.write_text(text.replace(str(trained), str(copy)))
    return copy
