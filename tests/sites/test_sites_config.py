"""Settings files of a project and of a site, and what a site remembers."""

import json
import re
import stat
import sys

import pytest

from drfl.cli.main import run
from drfl.sites.child import make_station
from drfl.sites.config import own_settings, read_site_settings
from drfl.sites.flare.serving import join as take_part
from drfl.sites.order import read_order
from drfl.sites.setup.certificates import AUTHORITY_DAYS, DAYS, days_left
from drfl.sites.setup.kit import Kit
from drfl.sites.setup.project import read_project
from drfl.sites.site_log import audit_lines, read_ledger
from kit.real_sites import PATIENTS, write_project

GOOD = """\
project = "heart"
host = "server.example.org"
sites = ["north", "south"]
[training]
target = "disease"
radius = 0.1
"""


def test_a_project_has_defaults(tmp_path):
    (tmp_path / "sites.toml").write_text(GOOD)
    project = read_project(tmp_path / "sites.toml")
    assert project.sites == ("north", "south")
    assert project["quorum"] == 2
    assert project["port"] == 8002
    assert project.folder == tmp_path / "heart"
    assert project.settings["radius"] == 0.1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('["north", "south"]', "[]", "names no site"),
        ('["north", "south"]', '["north", "North"]', "two sites are called 'north'"),
        ('["north", "south"]', '["north", "a/../b"]', "'a/../b' cannot be a name"),
        ('["north", "south"]', '["north", "server"]', "'server' cannot be a name"),
        ("server.example.org", "a b", "host must be a name or an address"),
        ("project =", "quorum = 3\nproject =", "quorum = 3 is more than the 2 sites"),
        ("project =", "port = 70000\nproject =", "port must be a whole number >= 1 and <= 65535"),
        ("project =", "deadline = 0\nproject =", "deadline must be a finite number > 0"),
        ("project =", "sitez = 3\nproject =", "unknown setting of a project 'sitez'"),
        ("[training]", "[trainink]", "no table [training]"),
        ('target = "disease"', "", "[training] has no target"),
        ("radius = 0.1", "radius = -1", "radius"),
        ("radius = 0.1", "radios = 1", "unknown setting 'radios'"),
        ("radius = 0.1", "guard = 5", "each site sets its own"),
        ("radius = 0.1", 'engine = "serial"', "the sites are the engine"),
        ("radius = 0.1", "radius = ", "is not TOML"),
    ],
)
def test_what_is_wrong_with_a_project_is_said(tmp_path, old, new, sentence):
    assert old in GOOD
    (tmp_path / "sites.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_project(tmp_path / "sites.toml")


def test_everything_is_written_and_private(layout):
    assert (layout.server / "startup" / "fed_server.json").exists()
    if sys.platform != "win32":
        keys = [layout.authority.key, layout.server / "startup" / "server.key", layout.kit("north")]
        assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
        assert stat.S_IMODE(layout.folder.stat().st_mode) == 0o700
    assert round(days_left(layout.authority.certificate)) == AUTHORITY_DAYS
    assert round(days_left(layout.issued("north"))) == DAYS
    job = json.loads((layout.job / "app" / "config" / "config_fed_server.json").read_text())
    assert job["np_download_chunk_size"] == 0
    assert read_order(job["components"][0]["args"]["order"]).sites == ("north", "south")


def test_a_second_init_keeps_authority_and_kits(tmp_path):
    layout = write_project(tmp_path, ["north"])
    assert layout.create(with_kits=True) == ["north"]
    kept = [layout.authority.certificate, layout.kit("north"), layout.server / "startup/server.crt"]
    before = [path.read_bytes() for path in kept]
    assert layout.create(with_kits=True) == []
    assert [path.read_bytes() for path in kept] == before


@pytest.fixture
def kit(layout, tmp_path):
    (tmp_path / "k.zip").write_bytes(layout.kit("north").read_bytes())
    (tmp_path / "rows.csv").write_text(PATIENTS)
    return Kit.open(tmp_path / "k.zip")


def test_the_settings_of_a_site(kit, tmp_path):
    settings, path = own_settings(kit, tmp_path / "rows.csv")
    assert (settings.name, settings.guard, settings.curvature) == ("north", 5, True)
    assert read_site_settings(path) == settings
    assert "guard = 5" in kit.settings.read_text()
    text = 'guard = 0\napprove = true\ndata = "../rows.csv"\n[columns]\nage = "AGE"\n'
    kit.settings.write_text(text)
    settings, path = own_settings(kit, None)
    assert (settings.guard, settings.approve, settings.columns) == (None, True, {"age": "AGE"})
    assert settings.data.samefile(tmp_path / "rows.csv")
    assert read_site_settings(path).columns == {"age": "AGE"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "names no data: give --data FILE"),
        ('data = "gone.csv"', "do not exist: check the path"),
        ("guard = 1", "guard must be 0, for none, or at least 2"),
        ("gard = 5", "unknown setting of a site 'gard'"),
        ("time_limit = -1", "time_limit must be a finite number > 0"),
        ("memory_limit = 1", "memory_limit must be a whole number >= 64"),
        ("approve = 1", "approve must be true or false"),
        ("allow_columns = []", "allow_columns allows nothing"),
        ("allow_targets = 3", "allow_targets must be a list of texts"),
        ('allow_losses = ["hing"]', "unknown loss 'hing'"),
        ('columns = "age"', "columns must give names in the file"),
        ('[columns]\na = "x"\nb = "x"', "columns uses 'x' of the file twice"),
    ],
)
def test_what_is_wrong_with_a_site_s_settings_is_said(kit, text, sentence):
    kit.settings.write_text(text)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        own_settings(kit, None)


def test_what_a_site_answers_is_said_and_reaches_its_station(kit, tmp_path):
    kit.settings.write_text('allow_columns = ["age"]\nallow_losses = ["hinge", "logistic"]\n')
    settings, path = own_settings(kit, tmp_path / "rows.csv")
    assert settings.describe() == [
        "guard: k = 5",
        "columns allowed: 'age'",
        "targets allowed: all",
        "losses allowed: 'hinge', 'logistic'",
    ]
    policy = make_station(read_site_settings(path)).policy
    assert (policy.allow_columns, policy.allow_targets) == ({"age"}, None)
    assert policy.allow_losses == {"hinge", "logistic"}


def test_no_guard_must_be_said_twice(kit, tmp_path):
    def joined(*, without_guard):
        take_part(kit, tmp_path / "rows.csv", None, None, without_guard=without_guard)

    with pytest.raises(ValueError, match="has a guard: change one"):
        joined(without_guard=True)
    kit.settings.write_text("guard = 0\n")
    with pytest.raises(ValueError, match="what leaves would be exact; if that is meant, join"):
        joined(without_guard=False)
    assert own_settings(kit, tmp_path / "rows.csv")[0].describe()[0].startswith("WITHOUT A GUARD")


def test_the_ledger_of_a_site(tmp_path):
    path = tmp_path / "messages.jsonl"
    entry = {"time": "2026-01-01T00:00:00Z", "job": "j", "kind": "bundle/reply", "round": 1}
    entry |= {"bytes": 2000, "arrays": {"value": {"dtype": "float64", "shape": []}}}
    failure = entry | {"kind": "failure", "code": "deadline", "arrays": {}, "bytes": 10}
    path.write_text("".join(json.dumps(e) + "\n" for e in (entry, entry, failure)) + '{"ti')
    assert len(list(read_ledger(path))) == 3
    summary = list(audit_lines(path, every=False))
    assert summary[1] == "      2 x bundle/reply, 4.0 kB: value (1)"
    assert summary[2] == "      1 x failure, 0.0 kB: code deadline"
    assert summary[-1].startswith("3 messages have left")
    assert len(list(audit_lines(path, every=True))) == 3
    path.write_text('{"ti\n' + json.dumps(entry) + "\n")
    with pytest.raises(ValueError, match="line 1: it is damaged"):
        list(read_ledger(path))


def test_the_commands_say_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    (tmp_path / "sites.toml").write_text(GOOD)

    def said(*arguments, code=0):
        assert run(["sites", *arguments]) == code
        return "".join(capsys.readouterr())

    sentence = f"drfl: {tmp_path / 'heart'} does not exist: run `drfl sites init` first\n"
    assert said("run", code=3) == sentence
    told = said("request", "north")
    assert "send north.request to the coordinator; the key stays in north" in told
    assert "port 8002 of all interfaces" in said("init", "sites.toml")
    assert "it holds no key" in said("approve", "north.request")
    assert not (tmp_path / "heart" / "kits" / "south.zip").exists()
    assert "north is no kit" in said("audit", "north", code=3)


def test_a_site_may_choose_noise_instead_of_a_guard(kit, tmp_path):
    kit.settings.write_text('guard = "dp"\nepsilon = 1\nnorm = 2.0\n')
    settings, path = own_settings(kit, tmp_path / "rows.csv")
    assert settings.guard is None
    assert not settings.is_exact
    promise = make_station(read_site_settings(path)).privacy
    assert (promise.epsilon, promise.delta, promise.norm) == (1.0, 1e-6, 2.0)
    assert promise.ledger == settings.state / "privacy.ledger"
    assert settings.describe()[0].startswith("guard: differential privacy, epsilon = 1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('guard = "dp"\n', 'guard = "dp" needs an epsilon'),
        ('guard = "dp"\nepsilon = 0\n', "epsilon of differential privacy must be"),
        ("guard = 5\nepsilon = 1\n", 'epsilon is for guard = "dp"'),
    ],
)
def test_a_promise_of_a_site_is_checked(kit, tmp_path, text, sentence):
    kit.settings.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        own_settings(kit, tmp_path / "rows.csv")
