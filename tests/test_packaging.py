"""The wheel and the sdist: built, unpacked into an empty environment, imported and used there.

The environment sees the wheel and what the wheel declares that it needs, nothing else. Those
packages are linked from the environment of the tests, so that no network is needed.
"""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = {"excel", "flower", "onnx", "oracle", "parquet", "plots", "sites", "torch"}
TRY_OUT = """
import drfl
from drfl.datasets import load_abalone, load_breast_cancer, load_heart
for load in (load_abalone, load_breast_cancer, load_heart):
    assert load().data.size, load
print(drfl.__version__, drfl.__file__)
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """An sdist, the wheel built from it, and in `direct` the wheel built from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    _run(sys.executable, "-m", "build", "-n", "--wheel", "--outdir", folder / "direct", ROOT)
    return folder


def test_the_sdist_builds_the_same_wheel(dist):
    files = {_files(wheel) for wheel in (_wheel(dist), _wheel(dist / "direct"))}
    assert len(files) == 1


def test_the_wheel_holds_the_package_and_nothing_else(dist):
    source = ROOT / "src" / "drfl"
    expected = {
        f"drfl/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.is_file() and not {"__pycache__", ".mypy_cache"} & set(path.parts)
    }
    held = {name for name in _files(_wheel(dist)) if ".dist-info/" not in name}
    assert held == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in _files(_wheel(dist)))


def test_the_sdist_holds_what_a_checkout_holds(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"pyproject.toml", "Makefile", "constraints.txt", "README.md", "LICENSE"} <= names
    assert {"tests/conftest.py", "docs/notation.md", "examples/quickstart.py"} <= names
    assert not any(".venv" in name or "__pycache__" in name for name in names)


def test_the_wheel_works_in_a_clean_environment(dist, tmp_path):
    python = _clean_environment(tmp_path, _wheel(dist))
    said = _run(python, "-W", "error", "-c", TRY_OUT, cwd=tmp_path)
    version, _, where = said.strip().partition(" ")
    assert version in _wheel(dist).name
    assert Path(where).is_relative_to(tmp_path)
    assert "certified" in _run(python, "-W", "error", ROOT / "examples" / "quickstart.py")


def test_the_metadata_offers_the_extras(dist, tmp_path):
    metadata = _unpack(_wheel(dist), tmp_path).metadata
    assert set(metadata.get_all("Provides-Extra")) == EXTRAS
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"


def _wheel(folder):
    (wheel,) = folder.glob("*.whl")
    return wheel


def _files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


def _run(*command, cwd=None):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _clean_environment(folder, wheel):
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    for dist in _closure(_unpack(wheel, site)):
        for top in {file.parts[0] for file in dist.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(dist.locate_file(top)).resolve())
    return folder / "env" / "bin" / "python"


def _unpack(wheel, folder):
    # A pure wheel is a folder tree; unpacking is all that an installer does with it.
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (info,) = folder.glob("drfl-*.dist-info")
    return importlib.metadata.PathDistribution(info)


def _closure(dist):
    """What a distribution requires without extras, directly and indirectly."""
    found, todo = {}, [dist]
    while todo:
        for text in todo.pop().requires or ():
            need = Requirement(text)
            if need.name not in found and (not need.marker or need.marker.evaluate({"extra": ""})):
                found[need.name] = importlib.metadata.distribution(need.name)
                todo.append(found[need.name])
    return found.values()
