"""What participants refuse: rights, classes, jobs; and that FLARE reads what drfl writes."""

import json

import pytest

from drfl.files import write_json
from drfl.sites.flare.job import CLIENT_CONFIG, server_config, write_job
from drfl.sites.flare.launcher import JobLauncher
from drfl.sites.flare.startup_files import (
    LOGGING,
    OTHER_ROLES,
    ROLE,
    RUNTIME,
    authorization,
    server_resources,
    site_resources,
)
from drfl.sites.flare.validator import OnlyDrfl, close_back_door
from drfl.sites.order import make_order
from drfl.sites.setup.kit import Kit


def test_settings_are_those_that_flare_would_write(layout, tmp_path):
    # When this fails, FLARE has changed what it reads: see the files that it provisions.
    theirs = provisioned(tmp_path, layout.project)
    ours = layout.server / "startup" / "fed_server.json"
    assert plain(ours) == theirs("localhost", "fed_server.json")
    kit = Kit.open(layout.kit("north"))
    kit.harden()
    assert plain(kit.startup / "fed_client.json") == theirs("north", "fed_client.json")
    admin = layout.coordinator / "startup" / "fed_admin.json"
    assert plain(admin) == theirs("coordinator@drfl.local", "fed_admin.json")


def test_resources_name_the_components_of_flare(layout, tmp_path):
    theirs = provisioned(tmp_path, layout.project)
    dropped = {"site_log_streamer", "log_receiver"}
    for ours, whose in ((server_resources(tmp_path), "localhost"), (site_resources(), "north")):
        usual = theirs(whose, "resources.json.default", "local")
        paths = {c["id"]: c["path"] for c in usual["components"] if c["id"] not in dropped}
        if whose == "north":
            assert paths["process_launcher"] == named(JobLauncher.__base__)
            paths["process_launcher"] = named(JobLauncher)
        assert {c["id"]: c["path"] for c in ours["components"]} == paths
        assert ours["class_list_enforcement_mode"] == "enforce"
        assert ours["allow_log_streaming"] is False
    assert "/tmp/nvflare" not in json.dumps(server_resources(tmp_path / "state"))
    assert set(LOGGING["handlers"]) == {"logFileHandler"}


def named(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


def provisioned(folder, project):
    """What FLARE's own provisioning writes for the same project."""
    from nvflare.lighter.prov_utils import prepare_builders, prepare_packager
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    impl, port = "nvflare.lighter.impl.", project["port"]
    server = {"fed_learn_port": port, "admin_port": port}
    plan = {
        "api_version": 3,
        "name": project["project"],
        "participants": [
            {"name": project["host"], "type": "server", "org": "drfl", **server},
            *({"name": name, "type": "client", "org": "drfl"} for name in project.sites),
            {"name": "coordinator@drfl.local", "type": "admin", "org": "drfl", "role": ROLE},
        ],
        "builders": [
            {"path": f"{impl}workspace.WorkspaceBuilder"},
            {
                "path": f"{impl}static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "grpc"},
            },
            {"path": f"{impl}cert.CertBuilder"},
        ],
    }
    made = prepare_project(plan)
    builders, packager = prepare_builders(plan), prepare_packager(plan)
    Provisioner(str(folder / "theirs"), builders, packager).provision(made)
    root = folder / "theirs" / project["project"] / "prod_00"

    def content(whose, file, place="startup"):
        return json.loads((root / whose / place / file).read_text())

    return content


def plain(path):
    """Without what drfl adds."""
    content = json.loads(path.read_text())
    added = {"require_signed_jobs": True, "app_validator": {"path": VALIDATOR, "args": {}}}
    return {k: v for k, v in content.items() if added.get(k) != v}


VALIDATOR = "drfl.sites.flare.validator.OnlyDrfl"


def test_rights():
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    rules = FLAuthorizer("drfl", authorization())

    def may(role, right):
        return rules.authorize(AuthzContext(right, Person("somebody", "drfl", role)))[0]

    for right in ("submit_job", "shutdown", "abort_job", "download_job", "app_command"):
        assert may(ROLE, right)
        assert not any(may(role, right) for role in OTHER_ROLES)
    for right in (
        "byoc",
        "ls",
        "cat",
        "grep",
        "pwd",
        "clone_job",
        "configure_site_log",
        "call",
        "restart",
    ):
        assert not any(may(role, right) for role in (ROLE, *OTHER_ROLES))


def test_the_role_that_may_do_everything_may_do_nothing(monkeypatch):
    from nvflare.fuel.sec.authz import Authorizer, AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    asked = AuthzContext("byoc", Person("somebody", "drfl", "super"))
    rules = FLAuthorizer("drfl", authorization())
    # When this fails, FLARE has closed the door itself.
    assert rules.authorize(asked)[0]
    monkeypatch.setattr(Authorizer, "authorize", Authorizer.authorize)
    close_back_door()
    assert not rules.authorize(asked)[0]
    assert rules.authorize(AuthzContext("submit_job", Person("somebody", "drfl", ROLE)))[0]


def test_the_list_of_classes(tmp_path):
    from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer

    allowed = site_resources()["class_allow_list"]
    assert allowed == [RUNTIME["executor"], RUNTIME["site"]]
    checked, _, _ = ComponentPathAuthorizer()._get_policy_from_resources(site_resources())
    assert set(checked) == set(allowed)


@pytest.fixture
def app(layout, tmp_path):
    order = make_order(layout.project, "train", "0" * 32)
    return write_job(tmp_path / "job", "trial", order) / "app"


def test_drfl_s_own_job_is_accepted(app):
    (app / ".__nvfl_sig.json").write_text("{}")
    (app / "config" / ".__nvfl_sig.json").write_text("{}")
    assert OnlyDrfl().validate(str(app)) == ("", {})


@pytest.mark.parametrize("extra", ["custom/evil.py", "config/config_exchange.json", "x"])
def test_a_job_with_another_file_is_refused(app, extra):
    (app / extra).parent.mkdir(exist_ok=True)
    (app / extra).write_text("")
    assert "its own job only" in OnlyDrfl().validate(str(app))[0]


def test_a_link_in_a_job_is_refused(app):
    target = app / "config" / "config_fed_client.json"
    moved = target.rename(app.parent / "elsewhere.json")
    target.symlink_to(moved)
    assert "its own job only" in OnlyDrfl().validate(str(app))[0]


def test_a_job_with_other_arguments_is_refused(app):
    path = app / "config" / "config_fed_client.json"
    write_json(path, CLIENT_CONFIG | {"components": []})
    assert "another client" in OnlyDrfl().validate(str(app))[0]
    write_json(path, CLIENT_CONFIG)
    order = {"path": "nvflare.app_common.np.np_trainer.NPTrainer"}
    write_json(app / "config" / "config_fed_server.json", server_config(order))
    assert "another server" in OnlyDrfl().validate(str(app))[0]
