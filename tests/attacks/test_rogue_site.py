"""A site asks another one, through the server that all trust. Real processes.

What is dropped on the way is not answered, so that who asks waits: all orders of a test are under
way at once.
"""

from itertools import product

import pytest
from rogue_kit import NETWORK, READING, SECRET, Rogue, answer, answers, refusals

from drfl.sites.flare.session import connect
from drfl.sites.os_processes import wait_until
from drfl.sites.setup.kit import Kit
from kit.real_sites import PATIENTS, drfl_sites, flare_site, real_sites


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    """Server and site north of drfl, and FLARE's client with south's kit in somebody's hands."""
    folder = tmp_path_factory.mktemp("rogue-site")
    rogue = Rogue(folder / "rogue")
    with real_sites(folder, {"north": PATIENTS, "south": None}, quorum=1, rejoin=2.0) as started:
        rogue.started, rogue.kit = started, started.kit("north")
        kit = Kit.open(started.layout.kit("south"))
        settings = str(folder / "none.toml")
        with flare_site(kit, "south", DRFL_SITE_SETTINGS=settings, **rogue.environment):

            def there():
                with connect(started.layout) as session:
                    return "south" in session.connected()

            assert wait_until(there, 60.0, 1.0)
            yield rogue


def alive(attack):
    programs = attack.started.sites["north"], attack.started.server
    return all(program.process.poll() is None for program in programs)


def test_no_file_can_be_read(attack, table):
    lines = [line.format(attack.patients) for line in READING]
    for line, told in answers({line: attack.shell("south", line) for line in lines}).items():
        assert SECRET not in str(told), line
        assert told.get("code") != "ok", told
    table("a site asks another one for a file, through an honest server", "–", "refused")


def test_not_even_what_the_server_may_ask(attack):
    """Nor the agent of the network, nor in the server's name, which cannot be borrowed."""
    topics = ["train.shutdown", "train.check_status", "sys.info"]
    orders = {topic: attack.ask("south", "north", topic) for topic in topics}
    orders |= {
        (target, topic): attack.order(
            "south",
            target,
            "_net_manager",
            topic,
            payload="grpc://localhost:1" if topic == "change_root" else None,
        )
        for target, topic in product(["north", "server"], NETWORK)
    }
    for what, told in answers(orders).items():
        assert told["code"] != "ok", (what, told)
    answer(attack.ask("south", "north", "train.shutdown", how="forged"))
    # What a job does comes after what was sent before: it is still there to do it.
    drfl_sites("audit", attack.kit, cwd=attack.started.folder)
    assert alive(attack)


def test_from_one_process_of_a_job_to_another(attack):
    """South's process for a job asks north's; the job that goes on meanwhile is an honest one."""
    orders = {
        "cells": attack.order("south.", "north.", "_net_manager", "process_info"),
        "stats": attack.order("south.", "north.", "client_command", "show_stats", payload={}),
        "end": attack.order("south.", "north.", "aux_communication", "__end_run__", payload={}),
        "shell": attack.ask("south.", "north", "sys.shell", body="pwd"),
    }
    drfl_sites("check", cwd=attack.started.folder, code=5)
    for what, told in answers(orders).items():
        assert told.get("code") != "ok", (what, told)
    assert alive(attack)  # also after what was sent in the server's name


def test_the_server_is_a_wall_between_sites(attack):
    """What the attacks above sent has not even arrived."""
    assert not [origin for origin, _ in refusals(attack.kit) if origin.startswith("south")]
