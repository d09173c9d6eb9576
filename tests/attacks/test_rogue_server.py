"""A server that was changed asks a site for what is none of its business. Real processes."""

import socket
import uuid

import pytest
from rogue_kit import NEEDLESS, NETWORK, READING, SECRET, Rogue, answer, refusals

from drfl.sites.processes import wait_until
from drfl.sites.setup.kit import Kit
from kit.real_sites import (
    PATIENTS,
    Program,
    drfl_sites,
    flare_server,
    flare_site,
    write_project,
)


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    """FLARE's server in the hands of somebody else, and the site north of drfl."""
    folder = tmp_path_factory.mktemp("rogue-server")
    layout = write_project(folder, ["north", "south"], quorum=1)
    layout.create(with_kits=True)
    (folder / "north.csv").write_text(PATIENTS, "utf-8")
    rogue = Rogue(folder / "rogue")
    rogue.kit, rogue.other = layout.kit("north").with_suffix(""), layout.kit("south")
    with flare_server(layout, **rogue.environment):
        rogue.site = Program("join", layout.kit("north"), "--data", "north.csv", cwd=folder)
        try:
            rogue.site.until("has joined")
            yield rogue
        finally:
            rogue.site.stop()


def test_no_file_can_be_read(attack):
    for line in READING:
        told = attack.shell("server", line.format(attack.patients))
        assert SECRET not in str(told), line
        assert "patients.txt" not in told.get("text", "").replace(line, ""), told
    assert ("server", "sys.shell") in refusals(attack.kit)


def test_no_file_can_be_read_in_the_name_of_a_user_who_may(attack):
    rights = {"_userName": "coordinator@drfl.local", "_userOrg": "drfl", "_userRole": "super"}
    rights |= {"admin_command": "cat", "require_authz": "false"}
    told = attack.shell("server", f"cat {attack.patients}", headers=rights)
    assert SECRET not in str(told)


@pytest.mark.parametrize("topic", NEEDLESS)
def test_what_a_job_does_not_need_is_refused(attack, topic):
    told = attack.send("server", "north", "admin", "admin", admin=topic, body="{}")
    assert "not authorized" in told["text"], told
    assert ("server", topic) in refusals(attack.kit)


@pytest.mark.parametrize("topic", ["train.abort", "train.start_job", "train.deploy"])
@pytest.mark.parametrize("job", [None, "../../x", "a -m antigravity", "0" * 32, 7])
def test_a_job_has_a_proper_name(attack, topic, job):
    headers = {} if job is None else {"job_id": job, "job_meta": {}}
    told = attack.send("server", "north", "admin", "admin", admin=topic, headers=headers)
    assert "not authorized" in told["text"], told


def test_a_proper_name_is_let_through(attack):
    headers = {"job_id": str(uuid.uuid4())}
    told = attack.send("server", "north", "admin", "admin", admin="train.abort", headers=headers)
    assert "not authorized" not in told["text"]


@pytest.mark.parametrize("topic", NETWORK[-5:])
def test_the_agent_of_the_network_says_and_does_nothing(attack, topic):
    payload = "grpc://localhost:1" if topic == "change_root" else None
    told = attack.send("server", "north", "_net_manager", topic, payload=payload)
    assert told["code"] == "timeout", told
    assert ("server", f"_net_manager:{topic}") in refusals(attack.kit)
    assert attack.site.process.poll() is None


@pytest.mark.parametrize(
    ("channel", "topic"),
    [
        ("aux_communication", "__fed_event__"),
        ("aux_communication", "ObjectStreamer.Request"),
        ("server_command", "get_task"),
        ("download_service__", "download_service__download"),
        ("client_command", "show_stats"),
    ],
)
@pytest.mark.parametrize("how", ["request", "streamed"])
def test_other_channels_are_closed(attack, channel, topic, how):
    told = attack.send("server", "north", channel, topic, how=how, payload={})
    assert told.get("code", "timeout") in ("timeout", "comm_error"), told
    assert ("server", f"{channel}:{topic}") in refusals(attack.kit)


def test_a_site_calls_nobody_whom_the_server_names(attack):
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        listener.listen()
        listener.settimeout(5.0)
        address = f"tcp://localhost:{listener.getsockname()[1]}"
        more = {"admin": "train.check_status", "address": address}
        told = attack.send("server", "north", "admin", "admin", how="addressed", **more)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert told["code"] == "timeout", told
    assert ("server", "a message without an envelope") in refusals(attack.kit)


def test_a_message_wrapped_into_another_is_refused(attack):
    attack.send("server", "north", "admin", "admin", how="bulk", admin="train.restart")
    assert ("server", "cellnet.channel:bulk") in refusals(attack.kit)
    assert attack.site.process.poll() is None


def test_the_process_for_a_job_is_as_strict(attack):
    """The server's process for a job asks the site's; a good one carries the job on meanwhile."""
    orders = {
        "_net_manager:process_info": {"payload": None},
        "client_command:show_stats": {"payload": {}},
        "aux_communication:__do_task__": {"payload": {}},
        "download_service__:download_service__download": {"payload": {}},
    }
    answers = [
        attack.order("server.", "north.", *what.split(":"), **more) for what, more in orders.items()
    ]
    # Few rows under a guard: the site does not take part, and the job runs all the same.
    drfl_sites("check", cwd=attack.folder.parent, code=5)
    for path in answers:
        assert answer(path).get("code") != "ok"
    refused = [what for origin, what in refusals(attack.kit) if origin.startswith("server.")]
    assert set(refused) == set(orders)


def test_the_people_at_the_site_are_told(attack):
    attack.shell("server", f"cat {attack.patients}")
    attack.site.until("refused")
    assert "sys.shell" in attack.site.text


def test_flares_own_client_gives_the_file(attack, table):
    """In the same hands: the attack is a real one."""
    with flare_site(Kit.open(attack.other), "south", DRFL_SITE_SETTINGS="none"):
        shell = {"admin": "sys.shell", "body": f"cat {attack.patients}"}

        def read():
            return SECRET in str(attack.send("server", "south", "admin", "admin", **shell))

        assert wait_until(read, 90.0, 1.0)
    table("a changed server asks a site for a file (`sys.shell`)", "the file", "refused")
