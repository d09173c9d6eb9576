"""The app that `drfl flower init` writes, and what is wrong with one."""

import io
import signal
import tomllib
import zipfile
from threading import Event
from types import SimpleNamespace
from typing import ClassVar

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate

from drfl.sites.flower import server
from drfl.sites.flower.app import read_app_project, write_app
from drfl.sites.flower.door import site_folder
from drfl.sites.flower.server import Job
from kit.program import drfl_process as drfl

PROJECT = """\
project = "hearts"
sites = ["north", "south"]

[training]
target = "disease"  # 'what' is predicted
exclude = ["name"]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "sites.toml"
    path.write_text(PROJECT, "utf-8")
    return path


def test_flower_takes_the_app_without_a_word(config, tmp_path):
    write_app(config, tmp_path / "app")
    _, warnings = load_and_validate(tmp_path / "app" / "pyproject.toml")
    assert warnings == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Flower uses
def test_the_app_ships_no_code(config, tmp_path):
    write_app(config, tmp_path / "app")
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(tmp_path / "app"))) as bundle:
        names = set(bundle.namelist())
    assert "pyproject.toml" in names
    assert not any(name.endswith(".py") for name in names)


def test_the_settings_come_through_as_they_were(config, tmp_path):
    written = write_app(config, tmp_path / "app")
    app = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]
    project = read_app_project(app["app"]["config"]["project"], tmp_path / "copy.toml")
    assert project.values == written.values
    assert project.settings.values == written.settings.values
    assert (project["silence"], project["quorum"]) == (120.0, 2)
    assert project.settings["exclude"] == ("name",)


def test_the_command_says_what_to_do_next(config, tmp_path):
    said = drfl("flower", "init", config, cwd=tmp_path).out
    assert "flwr run" in said
    assert "at south: drfl flower site south --data FILE" in said
    again = drfl("flower", "init", config, cwd=tmp_path, code=3).err
    assert "holds an app already" in again


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("silence = 13\n" + PROJECT, "silence = 13 is too short for Flower"),
        (PROJECT + "# '''\n", "holds '''"),
        (PROJECT + 'guard = "0"\n', "takes no guard: each site sets its own"),
        ("color = 1\n" + PROJECT, "color"),
    ],
)
def test_a_project_that_cannot_be_an_app_is_refused(config, tmp_path, text, sentence):
    config.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=sentence):
        write_app(config, tmp_path / "app")
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"kind": "evaluate"}, "kind must be one of"), ({"resume": "../x"}, "the number of a run")],
)
def test_a_run_with_other_settings_is_refused(tmp_path, change, sentence):
    config = {"kind": "train", "resume": "", "folder": str(tmp_path), "project": PROJECT}
    with pytest.raises(ValueError, match=sentence):
        Job(SimpleNamespace(), 1, config | change)


def test_the_server_s_half_ends_when_its_superlink_is_gone(monkeypatch):
    """Flower then tries calls again for ever, and raises a signal in a thread of its own."""
    released = Event()

    class Stuck:
        def __init__(self, *told):
            pass

        def done(self):
            signal.raise_signal(signal.SIGINT)
            released.wait(20.0)
            self.late.append(1)

        late: ClassVar[list] = []

    monkeypatch.setattr(server, "Job", Stuck)
    context = SimpleNamespace(run_id=1, run_config={})
    try:
        with pytest.raises(KeyboardInterrupt):
            server.main(None, context)
        assert not Stuck.late
    finally:
        released.set()


@pytest.mark.parametrize("error", [ValueError("a sentence"), RuntimeError("another")])
def test_what_fails_in_the_server_s_half_is_raised(monkeypatch, error):
    def job(*told):
        raise error

    monkeypatch.setattr(server, "Job", job)
    with pytest.raises(type(error), match=str(error)):
        server.main(None, SimpleNamespace(run_id=1, run_config={}))


def test_the_folder_of_a_site_is_called_like_the_site(tmp_path):
    assert site_folder(tmp_path / "north").name == site_folder(tmp_path / "north").name == "north"
    with pytest.raises(ValueError, match="cannot be a name"):
        site_folder(tmp_path / "no name")


def test_a_site_without_a_guard_must_say_so_twice(tmp_path):
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "site.toml").write_text("guard = 0\n", "utf-8")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n", "utf-8")
    told = drfl("flower", "site", "north", "--data", "rows.csv", cwd=tmp_path, code=3).err
    assert "what leaves would be exact" in told
    assert not (tmp_path / "north" / "door.json").exists()
