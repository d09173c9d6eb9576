"""A server that asks again: after a restart, in another order, in another job, with a friend."""

import numpy as np
import pytest
from attack_kit import (
    Server,
    guard,
    leverages,
    make_client,
    make_problem,
    pair_differences,
    rows_among,
)

import drfl
from drfl.client import Site
from drfl.privacy import audit
from drfl.solvers import Assignment
from drfl.solvers.bundle import Bundle
from drfl.wire import Message, encode

N, n, K = 150, 13, 5


def line(count, seed=1):
    rng = np.random.default_rng(seed)
    start, direction = 0.3 * rng.normal(size=(2, n + 1))
    return start + np.linspace(0.0, 1.0, count)[:, None] * direction


def test_a_repeated_question_has_the_same_bytes(tmp_path):
    """Also after a restart: there is nothing to average."""
    heard = []
    for _ in range(3):
        server = Server(make_client(N, n, guard(K, ledger=tmp_path / "ledger")), make_problem())
        for x in line(12):
            server.ask(x)
        heard.append([encode(reply) for reply in server.replies])
    assert heard[0] == heard[1] == heard[2]
    assert server.client.ledger.count("answer") == 12


@pytest.mark.slow
def test_interleaved_restarts_do_not_reset_the_leverage(tmp_path, table):
    """Every second point in the first job, the others in the next: together they are a line."""
    points, found = line(100), {}
    for guarded in (False, True):
        slopes = []
        for part in (points[::2], points[1::2]):
            settings = guard(K, ledger=tmp_path / "ledger") if guarded else None
            server = Server(make_client(N, n, settings), make_problem())
            for x in part:
                server.ask(x)
            slopes.append(server.slopes)
        found[guarded] = rows_among(pair_differences(np.vstack(slopes)), server.client)
    assert found[False]
    assert not found[True]
    assert leverages(server.weights).max() <= 1.0 / K + 1e-9
    table("a line in two jobs, with a restart between", *map(len, found.values()), "rows")


def test_other_jobs_on_the_same_data_share_the_leverage(tmp_path, table):
    """Another loss, another label cost, another scaling: the rows are the same."""
    for loss, kappa in (("hinge", np.inf), ("smooth_hinge", np.inf), ("logistic", 1.0)):
        client = make_client(N, n, guard(K, ledger=tmp_path / "ledger"))
        server = Server(client, make_problem(loss, kappa))
        for x in line(30):
            server.ask(x)
    largest = leverages(server.weights).max()
    assert largest <= 1.0 / K + 1e-9
    assert "90 (" in audit(tmp_path / "ledger")
    table("jobs with other losses and label costs: the largest leverage", "–", largest)


def test_the_order_of_questions_gives_nothing_away():
    """All orders together: answers of each, and what they share."""
    points, rng = line(40), np.random.default_rng(0)
    client = make_client(N, n, guard(K))
    server = Server(client, make_problem())
    for _ in range(3):
        for x in rng.permutation(points):
            server.ask(x)
    assert client.ledger.count("answer") == 40
    assert not rows_among(pair_differences(server.slopes), client)


def test_an_accomplice_takes_its_own_part_out_of_a_sum(table):
    """Sums over clients hide nothing from a server that has one of them on its side."""
    points, found = line(80), {}
    accomplice = Server(make_client(N, n, seed=7, name="accomplice"), make_problem())
    for x in points:
        accomplice.ask(x)
    for guarded in (False, True):
        victim = Server(make_client(N, n, guard(K) if guarded else None), make_problem())
        for x in points:
            victim.ask(x)
        total = victim.slopes + accomplice.slopes
        found[guarded] = rows_among(pair_differences(total - accomplice.slopes), victim.client)
    assert found[False]
    assert not found[True]
    table("an accomplice among the clients", *map(len, found.values()), "rows")


def test_changed_data_are_refused(tmp_path):
    """One row left out would be the difference of two ledgers."""
    whole = make_client(N, n)
    X, y = whole.rows.take(slice(None)), whole.rows.y
    settings = guard(K, ledger=tmp_path / "ledger")
    drfl.Client("a", X, y, guard=settings)
    with pytest.raises(ValueError, match="not those of the ledger"):
        drfl.Client("a", X[1:], y[1:], guard=settings)
    moved = X.copy()
    moved[3, 2] += 1.0
    with pytest.raises(ValueError, match="fewer than k = 5 rows differ"):
        drfl.Client("a", moved, y, guard=settings)
    with pytest.raises(ValueError, match="site's own hand"):
        drfl.Client("a", X + 1.0, y, guard=settings)
    with pytest.raises(ValueError, match="k = 5"):
        drfl.Client("a", X, y, guard=guard(3, ledger=tmp_path / "ledger"))


def test_a_torn_entry_is_dropped_and_a_damaged_ledger_refused(tmp_path):
    path = tmp_path / "ledger"
    server = Server(make_client(N, n, guard(K, ledger=path)), make_problem())
    for x in line(4):
        server.ask(x)
    data = path.read_bytes()
    path.write_bytes(data[:-100])  # killed in the middle of the last entry
    again = make_client(N, n, guard(K, ledger=path))
    assert again.ledger.count("answer") == 3
    path.write_bytes(data[:-100] + bytes(100))
    with pytest.raises(ValueError, match="damaged"):
        make_client(N, n, guard(K, ledger=path))


def test_the_budget_ends_and_says_so():
    server = Server(make_client(N, n, guard(K, answers=5)), make_problem())
    answered = [server.ask(x) for x in line(8)]
    assert answered == [True] * 5 + [False] * 3
    assert server.ask(line(8)[2])  # what has left may leave again


def test_methods_that_do_not_know_guards_are_not_answered():
    site = Site(make_client(N, n, guard(K)), make_problem())
    assert Bundle.handlers["bundle"].guarded
    from drfl.solvers.admm import Admm

    session = Admm().start(Assignment(make_problem(), ("target",), n, tol=1e-3, max_rounds=3))
    message = session.propose()["target"]
    assert site.answer(message, Admm.handlers).kind == "failure/refused"


def test_impossible_slopes_are_counted_too():
    """Whether a minorant with a slope exists could be bisected, and the edge is made of rows."""
    site = Site(make_client(N, n, guard(K, scalars=12)), make_problem())
    kinds = []
    for size in np.linspace(5.0, 6.0, 15):
        message = Message("bundle_close", 0, {"g": np.full((1, n + 1), size)})
        kinds.append(site.answer(message, Bundle.handlers).kind)
    assert kinds == ["bundle_close/reply"] * 12 + ["failure/refused"] * 3
