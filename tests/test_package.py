"""The face of the package: version, public names, types, a light import."""

import importlib.metadata
import importlib.resources
import inspect
import json
import subprocess
import sys

import pytest

import drfl

HEAVY = {"clarabel", "cvxpy", "matplotlib", "nvflare", "onnx", "pandas", "pyarrow", "torch"}


def test_version_is_the_installed_one():
    assert importlib.metadata.version("drfl") == drfl.__version__


def test_all_lists_every_public_name_once():
    public = {
        name
        for name, value in vars(drfl).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    modules = {name for name in drfl.__all__ if inspect.ismodule(getattr(drfl, name))}
    assert list(drfl.__all__) == sorted(set(drfl.__all__))
    assert set(drfl.__all__) - modules - {"__version__"} == public


@pytest.mark.parametrize("name", sorted(set(drfl.__all__) - {"__version__"}))
def test_public_name_is_documented(name):
    doc = inspect.getdoc(getattr(drfl, name))
    assert doc
    # dataclass writes the signature where a docstring is missing
    assert not doc.startswith(f"{name}(")


def test_types_are_shipped():
    assert importlib.resources.files("drfl").joinpath("py.typed").is_file()


def test_import_is_light():
    loaded = _modules_after("import drfl, drfl.datasets")
    assert "drfl" in loaded
    assert not HEAVY & loaded


def _modules_after(statement):
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout))
