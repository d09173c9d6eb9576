"""A site asks another one, through the server that all trust. Real processes."""

import time

import pytest
from rogue_kit import NETWORK, READING, SECRET, Rogue, answer, refusals

from drfl.sites.flare.session import connect
from drfl.sites.processes import wait_until
from drfl.sites.setup.kit import Kit
from kit.real_sites import PATIENTS, drfl_sites, flare_site, real_sites


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    """Server and site north of drfl, and FLARE's client with south's kit in somebody's hands."""
    folder = tmp_path_factory.mktemp("rogue-site")
    rogue = Rogue(folder / "rogue")
    with real_sites(folder, {"north": PATIENTS, "south": None}, quorum=1) as started:
        rogue.started, rogue.kit = started, started.kit("north")
        kit = Kit.open(started.layout.kit("south"))
        settings = str(folder / "none.toml")
        with flare_site(kit, "south", DRFL_SITE_SETTINGS=settings, **rogue.environment):

            def there():
                with connect(started.layout) as session:
                    return "south" in session.connected()

            assert wait_until(there, 60.0, 1.0)
            yield rogue


def test_no_file_can_be_read(attack, table):
    for line in READING:
        told = attack.shell("south", line.format(attack.patients))
        assert SECRET not in str(told), line
        assert told.get("code") != "ok", told
    table("a site asks another one for a file, through an honest server", "–", "refused")


@pytest.mark.parametrize("topic", ["train.shutdown", "train.check_status", "sys.info"])
def test_not_even_what_the_server_may_ask(attack, topic):
    told = attack.send("south", "north", "admin", "admin", admin=topic)
    assert told["code"] != "ok", told
    assert attack.started.sites["north"].process.poll() is None


@pytest.mark.parametrize("topic", NETWORK[-3:])
@pytest.mark.parametrize("target", ["north", "server"])
def test_the_agent_of_the_network_says_and_does_nothing(attack, target, topic):
    payload = "grpc://localhost:1" if topic == "change_root" else None
    told = attack.send("south", target, "_net_manager", topic, payload=payload)
    assert told["code"] != "ok", told
    drfl_sites("audit", attack.kit, cwd=attack.started.folder)
    assert attack.started.server.process.poll() is None


def test_the_name_of_the_server_cannot_be_borrowed(attack):
    attack.send("south", "north", "admin", "admin", how="forged", admin="train.shutdown")
    time.sleep(5.0)
    assert attack.started.sites["north"].process.poll() is None


def test_from_one_process_of_a_job_to_another(attack):
    """South's process for a job asks north's."""
    orders = [
        attack.order("south.", "north.", "_net_manager", "process_info"),
        attack.order("south.", "north.", "client_command", "show_stats", payload={}),
        attack.order("south.", "north.", "aux_communication", "__end_run__", payload={}),
        attack.order("south.", "north", "admin", "admin", admin="sys.shell", body="pwd"),
    ]
    drfl_sites("check", cwd=attack.started.folder, code=5)
    for path in orders:
        told = answer(path)
        assert told.get("code") != "ok", told


def test_the_server_is_a_wall_between_sites(attack):
    """What the attacks above sent has not even arrived."""
    assert not [origin for origin, _ in refusals(attack.kit) if origin.startswith("south")]
