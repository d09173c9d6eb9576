"""What a site takes from others: a kit whose texts break its reader, a package that was changed."""

import hashlib
import re
import subprocess
import sys
import zipfile

import pytest

from drfl.sites.flare.validator import OnlyDrfl
from drfl.sites.setup.kit import Kit
from kit.pages import ROOT
from kit.real_sites import write_project


@pytest.mark.parametrize("deep", ["[" * 90_000, '{"a":' * 19_000])
def test_a_deep_description_is_refused_in_a_sentence(tmp_path, deep, table):
    """Too deep for Python's reader of JSON, which raises what nobody expects."""
    layout = write_project(tmp_path, ["north"])
    layout.create(with_kits=True)
    (tmp_path / "kit.json").write_text(deep)
    with pytest.raises(ValueError, match="is no kit of this version"):
        Kit.find(tmp_path)
    path = tmp_path / "north.zip"
    with zipfile.ZipFile(layout.kit("north")) as good, zipfile.ZipFile(path, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, deep if name == "kit.json" else good.read(name))
    with pytest.raises(ValueError, match="is no kit of this version"):
        Kit.open(path)
    job = tmp_path / "app" / "config" / "config_fed_client.json"
    job.parent.mkdir(parents=True)
    job.write_text(deep)
    assert "another client" in OnlyDrfl().validate(str(tmp_path / "app"))[0]
    table("a kit or a job with deep JSON", "–", "a sentence")


def wheel(folder, text):
    """A package of one file."""
    folder.mkdir(exist_ok=True)
    path, info = folder / "helper-1.0-py3-none-any.whl", "helper-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("helper.py", text)
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: helper\nVersion: 1.0\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", f"helper.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_package_that_was_changed_is_not_installed(tmp_path, table):
    """The same name and version from the same place, with other bytes."""
    digest = wheel(tmp_path / "index", "")
    pinned, hashed = tmp_path / "pinned.txt", tmp_path / "hashed.txt"
    pinned.write_text("helper==1.0\n")
    hashed.write_text(f"helper==1.0 \\\n    --hash=sha256:{digest}\n")
    wheel(tmp_path / "index", "stolen = True\n")
    offline = ("--no-index", "--find-links", str(tmp_path / "index"), "--no-deps")

    def installed(place, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", *offline, "--target", place, *arguments],
            capture_output=True,
            text=True,
        )
        return done.returncode == 0, (place / "helper.py").exists(), done.stderr

    assert installed(tmp_path / "a", "-r", pinned)[:2] == (True, True)
    *there, said = installed(tmp_path / "b", "--require-hashes", "-r", hashed)
    assert there == [False, False]
    assert "DO NOT MATCH THE HASHES" in said
    table("a package with a pinned version and other bytes", "installed", "refused")


def test_everything_that_a_site_installs_has_its_hashes():
    """The command in docs/sites.md, and nothing in the list that it could not check."""
    page = (ROOT / "docs" / "sites.md").read_text("utf-8")
    assert "pip install --no-deps --require-hashes -r requirements-site.txt" in page
    text = (ROOT / "requirements-site.txt").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) > 10
    assert all(re.match(r"[\w.-]+==\S+(\s+--hash=sha256:[0-9a-f]{64})+\s*$", t) for t in lines)
