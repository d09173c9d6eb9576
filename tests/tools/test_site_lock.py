"""What a site installs: pinned, with hashes, without what no process there loads; and the bill."""

import json
import re
import runpy
import subprocess
import sys

import pytest

from kit.pages import ROOT

LOCK = runpy.run_path(str(ROOT / "tools" / "site_lock.py"))
FILE = (ROOT / "requirements-site.txt").read_text("utf-8")
PACKAGES = LOCK["read"](FILE)


def test_the_file_is_what_is_written_of_it():
    assert LOCK["requirements"](PACKAGES) == FILE
    bill = json.loads((ROOT / "sbom-site.json").read_text("utf-8"))
    assert bill == LOCK["bill"](PACKAGES)
    assert "://" not in FILE + json.dumps(bill)


def test_versions_are_those_of_the_tests():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {line.lower().replace("_", "-") for line in lines if "==" in line}
    for name, (version, hashes) in PACKAGES.items():
        assert f"{name}=={version}" in pinned
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes)


@pytest.mark.parametrize("text", ["", "numpy==2.0.0\n", "numpy==2.0.0 \\\n  --hash=md5:00\n"])
def test_a_package_without_hashes_is_refused(text):
    with pytest.raises(ValueError, match=r"hashes|no package"):
        LOCK["read"](text)


BLOCKED = """
import sys
from importlib import import_module

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.replace("_", "-") in {names!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocker())
for module in {modules!r}:
    import_module(module)
"""


MODULES = (
    "nvflare.private.fed.app.client.client_train",
    "nvflare.private.fed.app.client.worker_process",
    "nvflare.collab.runtime.executor",
    "nvflare.fuel.f3.drivers.grpc_driver",
    "drfl.sites.flare.start",
    "drfl.sites.flare.app",
    "drfl.sites.flare.launcher",
    "drfl.protocols.station",
)
"""What a site starts, and what that loads."""


def test_a_site_does_without_what_is_left_out():
    code = BLOCKED.format(names={*LOCK["LEFT_OUT"], "jwt", "attr"}, modules=MODULES)
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_fresh_environment_of_the_list_is_a_site(tmp_path):
    """The two commands of docs/sites.md, to their end; then the program, and FLARE's client."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    install = [python, "-m", "pip", "install", "-qq", "--no-deps"]
    listed = ["--require-hashes", "-r", ROOT / "requirements-site.txt"]
    subprocess.run([*install, *listed], check=True)
    subprocess.run([*install, ROOT], check=True)
    there = json.loads(subprocess.check_output([python, "-m", "pip", "list", "--format", "json"]))
    versions = {one["name"].lower().replace("_", "-"): one["version"] for one in there}
    assert {name: versions[name] for name in PACKAGES} == {n: v for n, (v, _) in PACKAGES.items()}
    assert set(versions) - set(PACKAGES) <= {"drfl", "pip", "setuptools"}
    said = subprocess.check_output([tmp_path / "bin" / "drfl", "sites", "--help"], text=True)
    assert "join" in said
    subprocess.run([python, "-c", f"import {', '.join(MODULES)}"], check=True)
