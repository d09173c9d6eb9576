"""The face of the package: version, public names, types, a light import."""

import importlib.metadata
import importlib.resources
import inspect
import json
import pkgutil
import subprocess
import sys

import pytest

import drfl

HEAVY = {"clarabel", "cvxpy", "flwr", "matplotlib", "nvflare", "onnx", "pandas", "pyarrow", "torch"}
# In the core, but half a second of import that a client without estimators does not need.
LATER = {"drfl.baselines", "drfl.estimators", "joblib", "sklearn"}
SUBMODULES = {module.name for module in pkgutil.iter_modules(drfl.__path__)}


def test_version_is_the_installed_one():
    assert importlib.metadata.version("drfl") == drfl.__version__


def test_all_lists_every_public_name_once():
    # In a fresh process: a name that was looked up before may be in the module by now.
    code = "import drfl, json; print(json.dumps([sorted(vars(drfl)), drfl.__all__, dir(drfl)]))"
    at_once, listed, seen = json.loads(_output(code))
    helpers = {"Any", "TYPE_CHECKING", "import_module"}
    public = {
        name
        for name in at_once
        if not name.startswith("_") and name not in helpers and name not in SUBMODULES
    }
    assert listed == sorted(set(listed))
    assert public <= set(listed) <= set(seen)
    for name in listed:
        assert getattr(drfl, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'drfl' has no attribute 'DRFLClassifer'"):
        _ = drfl.DRFLClassifer


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
    assert not (HEAVY | LATER) & loaded


def test_estimators_come_with_scikit_learn_but_nothing_heavier():
    loaded = _modules_after("from drfl import *")
    assert loaded >= LATER
    # scikit-learn imports pandas where it finds it, and pandas pyarrow.
    assert not (HEAVY - {"pandas", "pyarrow"}) & loaded


def _modules_after(statement):
    return set(
        json.loads(_output(f"{statement}; import sys, json; print(json.dumps([*sys.modules]))"))
    )


def _output(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout
