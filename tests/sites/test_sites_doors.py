"""The rules of the doors, by envelopes: who may send what to whom."""

import pytest

from drfl.sites.flare.doors import (
    FROM_JOB,
    FROM_SITE,
    GOODBYE,
    RECEIPT,
    REQUESTS,
    TO_JOB,
    TO_OWN_JOB,
    TO_SITE,
    Envelope,
    at_job,
    at_server,
    at_site,
    request_refused,
)

JOB = "0b6c1f9e-5a39-4c1a-9a0e-3d1f6f0a7b11"
OTHER = "11111111-5a39-4c1a-9a0e-3d1f6f0a7b11"


def envelope(me, via, origin, what, destination=None, *, called=True, secure=True):
    return Envelope(me, via, origin, destination or me, what, called, secure)


@pytest.mark.parametrize("what", sorted(TO_SITE))
def test_a_site_hears_the_server_and_nobody_else(what):
    assert at_site(envelope("north", "server", "server", what))
    for origin in ("south", f"south.{JOB}", f"server.{JOB}", "north", "serverx", ""):
        assert not at_site(envelope("north", "server", origin, what))
    assert not at_site(envelope("north", "server", "server", what, secure=False))
    # A stranger on the same machine, who calls the port for the site's own processes.
    assert not at_site(envelope("north", "server", "server", what, called=False, secure=False))


@pytest.mark.parametrize(
    "what", ["_net_manager:stop", "aux_communication:x", "collab:call", RECEIPT]
)
def test_a_site_hears_nothing_else_from_the_server(what):
    assert not at_site(envelope("north", "server", "server", what))


def test_a_site_hears_its_own_process_for_a_job():
    own = f"north.{JOB}"
    told = "admin:train.notify_job_status"
    assert at_site(envelope("north", own, own, told, called=False, secure=False))
    for via, origin in ((own, f"north.{OTHER}"), ("north.x", "north.x"), ("south", "south")):
        assert not at_site(envelope("north", via, origin, told, called=False, secure=False))
    assert not at_site(envelope("north", own, own, "admin:admin", called=False, secure=False))


def test_a_site_passes_on_what_belongs_to_one_job():
    own, theirs = f"north.{JOB}", f"server.{JOB}"
    assert at_site(envelope("north", "server", theirs, "collab:call", own))
    assert at_site(envelope("north", own, own, RECEIPT, theirs, called=False, secure=False))
    assert not at_site(envelope("north", "server", f"server.{OTHER}", "collab:call", own))
    assert not at_site(envelope("north", "server", f"south.{JOB}", "collab:call", own))
    assert not at_site(envelope("north", "server", theirs, "collab:call", "south"))
    assert not at_site(envelope("north", own, own, RECEIPT, "south", called=False, secure=False))


@pytest.mark.parametrize("what", sorted(TO_JOB))
def test_a_job_hears_the_server_of_that_job(what):
    me = f"north.{JOB}"
    for via in ("server", "north"):
        assert at_job(envelope(me, via, f"server.{JOB}", what))
    for origin in (f"server.{OTHER}", f"south.{JOB}", "south"):
        assert not at_job(envelope(me, "server", origin, what))
    assert not at_job(envelope(me, "south", f"server.{JOB}", what))
    assert not at_job(envelope(me, "server", f"server.{JOB}", what, "north"))
    assert not at_job(envelope(me, "server", f"server.{JOB}", what, called=False))
    assert not at_job(envelope(me, "server", f"server.{JOB}", what, secure=False))
    assert at_job(envelope(me, "north", f"server.{JOB}", what, secure=False))


def test_a_job_hears_its_site():
    me = f"north.{JOB}"
    for what in TO_OWN_JOB:
        assert at_job(envelope(me, "north", "north", what))
    assert not at_job(envelope(me, "server", "north", "client_command:abort"))
    assert not at_job(envelope(me, "north", "north", "client_command:show_stats"))
    assert at_job(envelope(me, "server", "server", GOODBYE))
    assert not at_job(envelope(me, "server", "server", "client_command:abort"))


@pytest.mark.parametrize("what", sorted(FROM_SITE | FROM_JOB))
def test_the_server_is_a_wall_between_sites(what):
    for via, origin in (("south", "south"), (f"south.{JOB}",) * 2, ("south", f"south.{JOB}")):
        for target in ("north", f"north.{JOB}", "_admin_x", f"server.{OTHER}"):
            if (origin, target, what) != ("south", f"server.{OTHER}", RECEIPT):
                assert not at_server(envelope("server", via, origin, what, target, called=False))


@pytest.mark.parametrize("what", sorted(FROM_SITE | FROM_JOB))
def test_nobody_borrows_a_name(what):
    for via, origin in (("south", "server"), ("south", "north"), ("south", f"server.{JOB}")):
        for target in ("server", f"server.{JOB}", "north"):
            assert not at_server(envelope("server", via, origin, what, target, called=False))
    # The names of others on this machine's own port need no certificate, and count for nothing.
    assert not at_server(envelope("server", "south", "south", what, called=False, secure=False))


def test_the_server_hears_what_a_job_needs():
    for what in FROM_SITE:
        assert at_server(envelope("server", "south", "south", what, called=False))
    for what in FROM_JOB:
        for via in ("south", f"south.{JOB}"):
            seen = envelope("server", via, f"south.{JOB}", what, f"server.{JOB}", called=False)
            assert at_server(seen)
    for what in ("hci_channel:command", "server_command:app_command", "_net_manager:stop"):
        for target in ("server", f"server.{JOB}"):
            for origin in ("south", f"south.{JOB}"):
                seen = envelope("server", "south", origin, what, target, called=False)
                assert not at_server(seen)


@pytest.mark.parametrize("job", [None, "", "x", "../..", JOB.upper(), JOB + " -m evil", 7, [JOB]])
def test_requests_about_a_job_name_one(job):
    for topic in ("train.deploy", "train.start_job", "train.abort", "scheduler.check_resource"):
        assert request_refused(topic, job, "server")
        assert not request_refused(topic, JOB, "server")


def test_requests_that_are_known():
    assert not request_refused("train.shutdown", None, "server")
    assert len(REQUESTS) == 7
    for topic in ("sys.shell", "", None, ["train.shutdown"], "train.restart"):
        assert request_refused(topic, JOB, "server")
    for topic in REQUESTS:
        assert request_refused(topic, JOB, f"north.{JOB}")
    assert not request_refused("train.notify_job_status", JOB, f"north.{JOB}")
    assert request_refused("train.notify_job_status", OTHER, f"north.{JOB}")
    assert request_refused("train.notify_job_status", JOB, "server")
