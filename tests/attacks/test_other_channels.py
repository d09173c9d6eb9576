"""Multipliers, Hessians, group cuts, dual cuts, local optima: what else a method could carry."""

from itertools import pairwise

import numpy as np
import pytest
from attack_kit import Server, guard, make_client, make_problem, rows_among

import drfl
from drfl.client import Site
from drfl.protocols.station import handlers_of
from drfl.selection.client_half.folds import PART
from drfl.solvers.bundle.messages import Dual
from drfl.wire import Failure, Message
from drfl.wire.schema import unpack_triangle

N, n, K = 150, 13, 5


def servers(**problem):
    for client in (make_client(N, n), make_client(N, n, guard(K))):
        yield Server(client, make_problem(**problem))


@pytest.mark.parametrize("spread", [1e-7, 1e-3])
def test_the_multiplier_tells_one_row_unless_it_is_smoothed_and_rounded(spread, table):
    r"""With flips :math:`\kappa\lambda^*=1+m_i` for one row i: nearby questions give it."""
    found = []
    for server in servers(label_cost=1.0, radius=0.02):
        rng = np.random.default_rng(2)
        points = rng.normal(size=n + 1) + spread * rng.normal(size=(100, n + 1))
        for x in points:
            assert server.ask(x)
        told = np.array([value[1] for value in server.values])
        # 1 + y (<w, x> + b) for the same row at every point
        z = np.linalg.lstsq(points - points.mean(0), told - told.mean(), rcond=None)[0]
        found.append(rows_among(z[None], server.client, tol=0.3 if server.client.guard else 1e-4))
    assert found[0]
    assert not found[1]
    table("multiplier of flips, 100 nearby questions", *map(len, found), "rows")


@pytest.mark.slow
def test_the_flipped_mass_tells_where_a_row_begins_to_flip(table):
    r"""Where the radius is large, rows with :math:`2m_i>\kappa\|w\|` flip: a count, bisected."""
    w, errors = np.full(n, 0.05), {False: [], True: []}
    rows, rng = make_client(N, n).rows, np.random.default_rng(4)
    places = np.sort(rows.y * 0.5 * np.abs(w).max() - rows.scores(w, 0.0))
    alone = np.minimum(np.diff(places)[1:], np.diff(places)[:-1])
    for j in np.argsort(-alone)[:15] + 1:
        start = places[j] - rng.random() * alone[j - 1]
        for server in servers(label_cost=1.0, radius=5.0):
            low, high = start, start + alone[j - 1]
            assert server.ask(np.append(w, low))
            first = server.cuts[-1][1]
            assert server.ask(np.append(w, high))
            last = server.cuts[-1][1]
            for _ in range(12):
                middle = 0.5 * (low + high)
                assert server.ask(np.append(w, middle))
                told = server.cuts[-1][1]
                nearer = abs(told - first) < abs(told - last)
                low, high = (middle, high) if nearer else (low, middle)
            found = abs(low - places[j]) / alone[j - 1]
            errors[server.client.guard is not None].append(found)
    assert np.median(errors[False]) < 1e-3
    # A guess without any question has a median of 0.25.
    assert np.median(errors[True]) > 0.15
    attack = "flipped mass, bisected: error of the place where a row flips (a guess: 0.25)"
    table(attack, *map(np.median, errors.values()), "of the gap")


def test_the_difference_of_two_hessians_is_one_row(table):
    """Smooth hinge: a row enters or leaves the curved part, and the difference has rank one."""
    found = []
    for server in servers(loss="smooth_hinge"):
        rng = np.random.default_rng(3)
        start, direction = 0.3 * rng.normal(size=(2, n + 1))
        for t in np.linspace(0.0, 0.5, 60):
            assert server.ask(start + t * direction, curvature=True)
        sent = [r.arrays["hess"][0] for r in server.replies if "hess" in r.arrays]
        rows = np.zeros((0, n + 1))
        for one, two in pairwise(sent):
            values, vectors = np.linalg.eigh(
                unpack_triangle(two, n + 1) - unpack_triangle(one, n + 1)
            )
            rows = np.vstack([rows, vectors[:, np.argmax(np.abs(values))]])
        found.append(rows_among(rows, server.client, tol=1e-3))
    assert found[0]
    assert not found[1]
    table("difference of two Hessians", f"{len(found[0])} rows", "none is sent")


def test_nothing_else_leaves_whatever_is_asked_for():
    server = Server(make_client(N, n, guard(K)), make_problem("logistic"))
    wishes = {"groups": 3, "shares": True, "introduction": True, "local": True}
    assert server.ask(np.zeros(n + 1), curvature=True, **wishes)
    dual = Dual((0,), np.ones((1, 1)), np.zeros(n + 1))
    assert server.ask(0.1 * np.ones(n + 1), curvature=True, dual=dual, **wishes)
    for reply in server.replies:
        assert set(reply.arrays) == {"value", "cuts", "about", "guard"}
        assert reply.arrays["cuts"].shape[:2] == (1, 1)
    without = Server(make_client(N, n), make_problem("logistic"))
    without.ask(np.zeros(n + 1), curvature=True, **wishes)
    assert {"hess", "local", "share"} <= set(without.replies[0].arrays)


ANSWERED = {"bundle", "bundle_close", "bundle_recall"}
NOISY = {"private_terms", "private_start", "private_slope", "private_close"}


def test_no_other_kind_of_message_is_answered():
    """Of all that any method or feature asks; a new one is refused until it is in this list."""
    whole, parts = (handlers_of(Message("any", 0, extra)) for extra in ({}, {PART: np.zeros(1)}))
    assert len(whole) > 15
    for handlers in (whole, parts):
        let = {kind for kind, half in handlers.items() if getattr(half, "guarded", False)}
        noisy = {kind for kind, half in handlers.items() if getattr(half, "private", False)}
        assert let <= ANSWERED
        assert noisy <= NOISY
    client = make_client(N, n, guard(K))
    site = Site(client, make_problem("logistic"))
    before = len(client.ledger.entries)
    for kind in set(whole) - ANSWERED:
        assert Failure.of(site.answer(Message(kind, 0, {}), whole)) is Failure.REFUSED
    assert len(client.ledger.entries) == before


def test_several_classes_at_once_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="a guard knows two classes"):
        Site(make_client(N, n, guard(K)), drfl.Problem("logistic", classes=2))
