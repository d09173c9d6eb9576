"""A server that was changed asks a site for what is none of its business. Real processes.

What a site drops is not answered, so that who asks waits: all orders of a test are under way at
once.
"""

import socket
import uuid
from itertools import product

import pytest
from rogue_kit import NEEDLESS, NETWORK, READING, SECRET, Rogue, answer, answers, refusals

from drfl.sites.os_processes import wait_until
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
    """FLARE's server in somebody's hands, the site north of drfl, and FLARE's own client south."""
    folder = tmp_path_factory.mktemp("rogue-server")
    layout = write_project(folder, ["north", "south"], quorum=1, rejoin=2.0)
    layout.create(with_kits=True)
    (folder / "north.csv").write_text(PATIENTS, "utf-8")
    rogue = Rogue(folder / "rogue")
    rogue.kit = layout.kit("north").with_suffix("")
    with (
        flare_server(layout, **rogue.environment),
        flare_site(Kit.open(layout.kit("south")), "south", DRFL_SITE_SETTINGS="none"),
    ):
        rogue.site = Program("join", layout.kit("north"), "--data", "north.csv", cwd=folder)
        try:
            rogue.site.until("has joined")
            yield rogue
        finally:
            rogue.site.stop()


def test_no_file_can_be_read(attack):
    lines = [line.format(attack.patients) for line in READING]
    told = answers({line: attack.shell("server", line) for line in lines})
    for line, reply in told.items():
        assert SECRET not in str(reply), line
        assert "patients.txt" not in reply.get("text", "").replace(line, ""), reply
    assert ("server", "sys.shell") in refusals(attack.kit)
    attack.site.until("refused")  # the people there are told
    assert "sys.shell" in attack.site.text


def test_no_file_can_be_read_in_the_name_of_a_user_who_may(attack):
    rights = {"_userName": "coordinator@drfl.local", "_userOrg": "drfl", "_userRole": "super"}
    rights |= {"admin_command": "cat", "require_authz": "false"}
    assert SECRET not in str(
        answer(attack.shell("server", f"cat {attack.patients}", headers=rights))
    )


def test_what_a_job_does_not_need_is_refused(attack):
    told = answers({topic: attack.ask("server", "north", topic, body="{}") for topic in NEEDLESS})
    for topic, reply in told.items():
        assert "not authorized" in reply["text"], (topic, reply)
        assert ("server", topic) in refusals(attack.kit)


def test_a_job_has_a_proper_name(attack):
    topics = ["train.abort", "train.start_job", "train.deploy"]
    names = [None, "../../x", "a -m antigravity", "0" * 32, 7]
    headers = {name: {} if name is None else {"job_id": name, "job_meta": {}} for name in names}
    told = answers(
        {
            (topic, name): attack.ask("server", "north", topic, headers=headers[name])
            for topic, name in product(topics, names)
        }
    )
    for case, reply in told.items():
        assert "not authorized" in reply["text"], (case, reply)
    proper = {"job_id": str(uuid.uuid4())}
    told = answer(attack.ask("server", "north", "train.abort", headers=proper))
    assert "not authorized" not in told["text"]


CHANNELS = (
    ("aux_communication", "__fed_event__"),
    ("aux_communication", "ObjectStreamer.Request"),
    ("server_command", "get_task"),
    ("download_service__", "download_service__download"),
    ("client_command", "show_stats"),
)


def test_other_channels_and_the_agent_of_the_network_are_closed(attack):
    """And a message wrapped into another; and an address that the site should call."""
    orders = {
        ("_net_manager", topic, "request"): attack.order(
            "server",
            "north",
            "_net_manager",
            topic,
            payload="grpc://localhost:1" if topic == "change_root" else None,
        )
        for topic in NETWORK
    }
    orders |= {
        (channel, topic, how): attack.order("server", "north", channel, topic, how=how, payload={})
        for (channel, topic), how in product(CHANNELS, ["request", "streamed"])
    }
    wrapped = attack.order("server", "north", "admin", "admin", how="bulk", admin="train.restart")
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        listener.listen()
        address = f"tcp://localhost:{listener.getsockname()[1]}"
        more = {"how": "addressed", "address": address}
        addressed = answer(attack.ask("server", "north", "train.check_status", **more))
        listener.settimeout(1.0)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert addressed["code"] == "timeout", addressed
    for (channel, topic, how), reply in answers(orders).items():
        assert reply.get("code", "timeout") in ("timeout", "comm_error"), (topic, how, reply)
        assert ("server", f"{channel}:{topic}") in refusals(attack.kit)
    answer(wrapped)
    assert ("server", "cellnet.channel:bulk") in refusals(attack.kit)
    assert ("server", "a message without an envelope") in refusals(attack.kit)
    assert attack.site.process.poll() is None


def test_the_process_for_a_job_is_as_strict(attack):
    """The server's process for a job asks the site's; a good one carries the job on meanwhile."""
    orders = {
        "_net_manager:process_info": {"payload": None},
        "client_command:show_stats": {"payload": {}},
        "aux_communication:__do_task__": {"payload": {}},
        "download_service__:download_service__download": {"payload": {}},
    }
    sent = {
        what: attack.order("server.", "north.", *what.split(":"), **more)
        for what, more in orders.items()
    }
    # Few rows under a guard: the site does not take part, and the job runs all the same.
    drfl_sites("check", cwd=attack.folder.parent, code=5)
    for reply in answers(sent).values():
        assert reply.get("code") != "ok"
    refused = [what for origin, what in refusals(attack.kit) if origin.startswith("server.")]
    assert set(refused) == set(orders)


def test_flares_own_client_gives_the_file(attack, table):
    """In the same hands: the attack is a real one."""

    def read():
        told = answer(attack.ask("server", "south", "sys.shell", body=f"cat {attack.patients}"))
        return SECRET in str(told)

    assert wait_until(read, 90.0, 1.0)
    table("a changed server asks a site for a file (`sys.shell`)", "the file", "refused")
