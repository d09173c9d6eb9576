"""Who gets in, and what is refused: certificates, code, commands, copies. Real processes."""

import json
import shutil

import pytest

from drfl.files import write_json
from drfl.sites.flare.handshake import EntryError, shake_hands
from drfl.sites.flare.job import CLIENT_CONFIG, write_job
from drfl.sites.flare.session import connect
from drfl.sites.order import make_order
from drfl.sites.os_processes import wait_until
from drfl.sites.setup.kit import Kit
from kit.real_sites import (
    PATIENTS,
    Program,
    drfl_sites,
    flare_processes,
    flare_server,
    flare_site,
    real_sites,
    write_project,
)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Another project of the same name: its authority is another one."""
    layout = write_project(tmp_path_factory.mktemp("foreign"), ["north", "south"])
    layout.create(with_kits=True)
    return layout


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """A server and one site, north; a kit of south that nobody uses."""
    data = {"north": PATIENTS}
    with real_sites(tmp_path_factory.mktemp("trust"), data, quorum=1) as started:
        yield started


def copied(kit, folder, **changes):
    """A copy of a kit's folder, with another description."""
    copy = shutil.copytree(kit, folder / "copy")
    (copy / "state" / "lock").unlink(missing_ok=True)
    path = copy / "kit.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return copy


def connected(started):
    with connect(started.layout) as session:
        return session.connected()


@pytest.mark.slow
def test_a_foreign_certificate_is_refused_with_a_sentence(sites, foreign, tmp_path):
    (tmp_path / "rows.csv").write_text(PATIENTS)
    kit = Kit.open(foreign.kit("north"))
    copy = copied(kit.folder, tmp_path, port=sites.layout.project["port"])
    said = drfl_sites("join", copy, "--data", "rows.csv", cwd=tmp_path, code=3).stderr
    assert "a certificate of another authority than this kit's" in said
    # Also if the site is told to trust the server, the server does not trust the site.
    shutil.copy(sites.layout.authority.certificate, copy / "flare" / "startup" / "rootCA.pem")
    said = drfl_sites("join", copy, "--data", "rows.csv", cwd=tmp_path, code=3).stderr
    assert "refuses the certificate of this kit" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_flare_itself_refuses_a_foreign_certificate(sites, foreign, tmp_path):
    kit = Kit.open(foreign.kit("south"))
    copy = Kit.find(copied(kit.folder, tmp_path, port=sites.layout.project["port"]))
    shutil.copy(sites.layout.authority.certificate, copy.startup / "rootCA.pem")
    with flare_site(copy, "south") as log:
        assert not wait_until(lambda: "south" in connected(sites), 8.0, 1.0)
        assert "Successfully registered" not in log.read_text()


@pytest.mark.slow
def test_no_certificate_at_all(sites, tmp_path):
    shutil.copy(sites.layout.authority.certificate, tmp_path / "rootCA.pem")
    with pytest.raises(EntryError, match="refuses the certificate of this kit"):
        shake_hands(tmp_path, "localhost", sites.layout.project["port"])


@pytest.mark.slow
def test_the_kit_of_one_site_under_the_name_of_another(sites, tmp_path):
    (tmp_path / "rows.csv").write_text(PATIENTS)
    copy = copied(sites.kit("north"), tmp_path, name="south")
    said = drfl_sites("join", copy, "--data", "rows.csv", cwd=tmp_path, code=3).stderr
    assert "the certificate is that of 'north', not 'south'" in said
    # The same without drfl's own check: FLARE's server does not let it in.
    with flare_site(Kit.find(copy), "south"):
        assert not wait_until(lambda: "south" in connected(sites), 8.0, 1.0)


@pytest.mark.slow
def test_two_instances_of_one_kit(sites):
    kit = sites.kit("north")
    said = drfl_sites("join", kit, "--data", "north.csv", cwd=sites.folder, code=3).stderr
    pid = sites.sites["north"].process.pid
    assert f"the kit {kit} is in use by process {pid}: stop that one first" in said
    assert connected(sites) == ["north"]


def own_job(sites, folder):
    order = make_order(sites.layout.project, "check", "0" * 32)
    return write_job(folder / "job", "trial", order)


def submitted(sites, job):
    """What FLARE says of a job that was submitted, in the end."""
    with connect(sites.layout) as session:
        try:
            found = session.submit(job)
        except RuntimeError as error:
            return str(error)
        wait_until(lambda: session.status(found)["status"].startswith("FINISHED"), 60.0)
        return json.dumps(session.status(found))


@pytest.mark.slow
def test_a_job_that_ships_code_is_refused(sites, tmp_path):
    job = own_job(sites, tmp_path)
    code = job / "app" / "custom" / "evil.py"
    code.parent.mkdir()
    code.write_text(f"open({str(tmp_path / 'was-here')!r}, 'w')")
    assert "drfl accepts its own job only" in submitted(sites, job)
    assert not (tmp_path / "was-here").exists()


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
def test_a_job_that_names_another_class_is_refused(sites, tmp_path, nested):
    job = own_job(sites, tmp_path)
    other = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}
    config = json.loads(json.dumps(CLIENT_CONFIG))
    if nested:
        config["components"][0]["args"] = {"inner": other}
    else:
        config["components"].append({"id": "more", **other})
    write_json(job / "app" / "config" / "config_fed_client.json", config)
    assert "another client" in submitted(sites, job)


@pytest.mark.slow
def test_a_site_refuses_by_itself_what_a_lenient_server_lets_through(tmp_path):
    # The server's own rules are opened up; those of the site stay.
    layout = write_project(tmp_path, ["north"])
    layout.create(with_kits=True)
    (tmp_path / "north.csv").write_text(PATIENTS)
    layout.harden = lambda: None
    write_json(layout.server / "local" / "authorization.json", EVERYTHING)
    startup = layout.server / "startup" / "fed_server.json"
    config = json.loads(startup.read_text())
    del config["app_validator"]
    write_json(startup, config)
    site = None
    try:
        with flare_server(layout):
            site = Program("join", layout.kit("north"), "--data", "north.csv", cwd=tmp_path)
            site.until("has joined")
            job = own_job(Only(layout), tmp_path)
            (job / "app" / "custom").mkdir()
            (job / "app" / "custom" / "evil.py").write_text("")
            assert "drfl accepts its own job only" in submitted(Only(layout), job)
            with connect(layout) as session, pytest.raises(RuntimeError, match="not authorized"):
                session._ask("ls_target", "north")
    finally:
        if site is not None:
            site.stop()


EVERYTHING = {"format_version": "1.0", "permissions": {"project_admin": "any"}}


class Only:
    """A layout, where the tests expect all that is started."""

    def __init__(self, layout):
        self.layout = layout


@pytest.mark.slow
@pytest.mark.parametrize("target", ["server", "north"])
def test_shell_commands_are_refused(sites, target):
    with connect(sites.layout) as session:
        for ask in ("ls_target", "get_working_directory"):
            with pytest.raises(RuntimeError, match="not authorized"):
                session._ask(ask, target)
        with pytest.raises(RuntimeError, match="not authorized"):
            session._ask("cat_target", target, None, "startup/fed_server.json")


@pytest.mark.slow
def test_nothing_outlives_a_join_that_is_killed(sites, tmp_path):
    layout = sites.layout
    program = sites.sites["north"]
    program.process.kill()
    program.end()
    assert wait_until(lambda: not flare_processes(sites.kit("north") / "flare"), 20.0)
    sites.join("north").until("has joined")
    assert connected(sites) == ["north"]
    assert layout.project.sites == ("north",)
