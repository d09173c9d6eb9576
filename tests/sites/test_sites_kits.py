"""Keys, requests, certificates and kits."""

import json
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from drfl.sites.flare.handshake import UnreachableError, check_own, shake_hands
from drfl.sites.flare.serving import FlareProcess
from drfl.sites.flare.startup_files import (
    authorization,
)
from drfl.sites.os_processes import Lock
from drfl.sites.setup.certificates import DAYS, Authority, make_request
from drfl.sites.setup.kit import Kit
from drfl.sites.setup.provision import approve_request
from kit.real_sites import write_project


@pytest.fixture
def fresh(tmp_path):
    """A project whose kits may be changed."""
    (tmp_path / "coordinator").mkdir()
    made = write_project(tmp_path / "coordinator", ["north", "south"])
    made.create(with_kits=False)
    return made


def test_a_request_holds_no_key_and_neither_does_its_kit(fresh, tmp_path):
    path, fingerprint = make_request("north", tmp_path)
    key = tmp_path / "north" / "flare" / "startup" / "client.key"
    assert b"PRIVATE" not in path.read_bytes()
    name, kit, same = approve_request(fresh, path)
    assert (name, same) == ("north", fingerprint)
    with zipfile.ZipFile(kit) as archive:
        assert sorted(archive.namelist()) == ["client.crt", "kit.json", "rootCA.pem"]
    sent = tmp_path / "north.zip"
    sent.write_bytes(kit.read_bytes())
    before = key.read_bytes()
    opened = Kit.open(sent)
    opened.check()
    assert key.read_bytes() == before
    assert DAYS - 1 < check_own(opened.startup) <= DAYS
    with pytest.raises(ValueError, match="exists: remove it if a new key is meant"):
        make_request("north", tmp_path)


def test_requests_that_are_refused(layout, tmp_path):
    path, _ = make_request("elsewhere", tmp_path)
    with pytest.raises(ValueError, match="which is none of the project's sites"):
        approve_request(layout, path)
    path.write_text("nothing")
    with pytest.raises(ValueError, match="is no request"):
        approve_request(layout, path)


def test_a_kit_for_another_key_is_refused(fresh, tmp_path):
    path, _ = make_request("south", tmp_path)
    approve_request(fresh, path)
    (tmp_path / "south.zip").write_bytes(fresh.kit("south").read_bytes())
    other = tmp_path / "other"
    make_request("south", other)
    (other / "south.zip").write_bytes(fresh.kit("south").read_bytes())
    with pytest.raises(ValueError, match="not for the key of this site"):
        Kit.open(other / "south.zip")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "south.zip").write_bytes(fresh.kit("south").read_bytes())
    with pytest.raises(ValueError, match="holds no key"):
        Kit.open(tmp_path / "bare" / "south.zip")


def test_a_kit_writes_nothing_but_its_own_files(layout, tmp_path):
    sent = tmp_path / "north.zip"
    files = {"client.key": b"x", "../outside.txt": b"x", "flare/local/authorization.json": b"{}"}
    with zipfile.ZipFile(sent, "w") as archive:
        with zipfile.ZipFile(layout.kit("north")) as usual:
            for name in usual.namelist():
                files.pop(name, None)
                archive.writestr(name, usual.read(name))
        for name, content in files.items():
            archive.writestr(name, content)
    kit = Kit.open(sent)
    assert not (tmp_path / "outside.txt").exists()
    assert not (kit.flare / "local").exists()
    kit.harden()
    rights = json.loads((kit.flare / "local" / "authorization.json").read_text())
    assert rights == authorization()


@pytest.mark.parametrize(
    "description",
    [
        {"host": "a b"},
        {"name": "../x"},
        {"port": "8002"},
        {"port": 0},
        {"schema": 2},
        {"more": 1},
        {"host": None},
    ],
)
def test_a_kit_with_a_strange_description_is_refused(tmp_path, description):
    good = {"schema": 1, "name": "north", "project": "p", "host": "localhost", "port": 8002}
    (tmp_path / "kit.json").write_text(json.dumps(good))
    assert Kit.find(tmp_path).name == "north"
    (tmp_path / "kit.json").write_text(json.dumps(good | description))
    with pytest.raises(ValueError, match="is no kit of this version"):
        Kit.find(tmp_path)


def test_a_certificate_that_has_ended(tmp_path):
    from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert

    authority = Authority(tmp_path)
    authority.create("p")
    private, public = generate_keys()
    then = datetime.now(UTC) - timedelta(days=9)
    ended = generate_cert(
        Identity("north"), Identity("p"), private, public, valid_days=2, not_valid_before=then
    )
    (tmp_path / "client.crt").write_bytes(serialize_cert(ended))
    (tmp_path / "client.key").write_bytes(b"")
    startup = tmp_path
    with pytest.raises(ValueError, match="the certificate of this site has expired"):
        check_own(startup)
    (startup / "client.crt").unlink()
    with pytest.raises(ValueError, match="is missing: ask the coordinator for a kit"):
        check_own(startup)


def test_nobody_answers(layout):
    startup = layout.coordinator / "startup"
    with pytest.raises(UnreachableError, match="no server answers at localhost:1: is it started"):
        shake_hands(startup, "localhost", 1)
    with pytest.raises(UnreachableError, match="is not known here: check"):
        shake_hands(startup, "nowhere.invalid", 1)


def test_one_instance(tmp_path):
    first = Lock(tmp_path / "lock", "it")
    with pytest.raises(ValueError, match=r"it is in use by process \d+: stop that one first"):
        Lock(tmp_path / "lock", "it")
    first.release()
    Lock(tmp_path / "lock", "it").release()


def test_a_path_that_flare_would_tear_apart(tmp_path):
    folder = tmp_path / "a b"
    lock = Lock(folder / "lock", "it")
    with pytest.raises(ValueError, match="take one without spaces"):
        FlareProcess("site", folder, "north", {}, lock)
    lock.release()
