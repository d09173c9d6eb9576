"""The method for large masters: optimality conditions, and answers of the general solver."""

import numpy as np
import pytest
from scipy import sparse

import drfl
from drfl.datasets import partition
from drfl.solvers.master import qp
from drfl.solvers.master.barrier import BarrierRows, minimise
from drfl.solvers.master.blocks import Blocks, BorderedFactor

rng = np.random.default_rng(0)


def program(d, cuts, n_more):
    """Cuts below an epigraph variable, |x| <= t, and free variables tied to x by sparse rows."""
    F = rng.normal(size=(d, d))
    P = F @ F.T / d + 1e-3 * np.eye(d)
    N = d + 2 + n_more  # x, v, t, more
    c = np.concatenate([rng.normal(size=d), [1.0, 0.3], np.full(n_more, 0.1)])
    G = rng.normal(size=(cuts, d))
    E = sparse.csr_matrix((-np.ones(cuts), (np.arange(cuts), np.full(cuts, d))), shape=(cuts, N))
    eye, none = sparse.eye(d, format="csr"), sparse.csr_matrix((d, 1))
    t, more = sparse.csr_matrix(-np.ones((d, 1))), sparse.csr_matrix((d, n_more))
    up = sparse.hstack([eye, none, t, more])
    down = sparse.hstack([-eye, none, t, more])
    bound = sparse.hstack([sparse.csr_matrix((n_more, d + 2)), -sparse.eye(n_more)])
    b = np.concatenate([rng.normal(size=cuts), 0.1 * np.ones(2 * d), np.ones(n_more)])
    return P, c, BarrierRows(G, sparse.vstack([E, up, down, bound]).tocsr(), b)


@pytest.mark.parametrize("shape", [(5, 3, 0), (30, 200, 4), (80, 20, 1)])
def test_the_optimality_conditions_hold(shape):
    P, c, rows = program(*shape)
    found = minimise(P, c, rows, 1e-9)
    A = rows.rest.toarray()
    A[: len(rows.G), : len(P)] += rows.G
    gradient = c + A.T @ found.y
    gradient[: len(P)] += P @ found.z[: len(P)]
    assert np.abs(gradient).max() <= 1e-8
    assert (A @ found.z - rows.b).max() <= 1e-8
    assert found.y.min() >= 0.0
    assert np.abs(found.y * (A @ found.z - rows.b)).max() <= 1e-8


def test_products_are_those_of_the_whole_matrix():
    P, _, rows = program(12, 7, 3)
    A = rows.rest.toarray()
    A[:7, :12] += rows.G
    z, y, weights = rng.normal(size=A.shape[1]), rng.normal(size=len(A)), rng.random(len(A))
    assert rows.times(z) == pytest.approx(A @ z)
    assert rows.transposed(y) == pytest.approx(A.T @ y)
    whole = A.T @ (weights[:, None] * A)
    whole[:12, :12] += P
    found = rows.normal(P, weights, np.arange(7))
    assert np.tril(found) == pytest.approx(np.tril(whole))
    some = weights.copy()
    some[2] = 0.0
    whole = A.T @ (some[:, None] * A)
    whole[:12, :12] += P
    kept = np.delete(np.arange(7), 2)
    assert np.tril(rows.normal(P, weights, kept)) == pytest.approx(np.tril(whole))


def crowd(d, sizes, cuts, rows_each):
    """Rows of what all share and of one client at a time: full ones first."""
    owner = np.concatenate([np.full(d + 2, -1), np.repeat(np.arange(len(sizes)), sizes)])
    owner = np.append(owner, -1)  # not all shared variables come first
    rest = []
    for k in range(cuts + len(sizes) * rows_each):
        row = rng.normal(size=len(owner)) * (owner == k % len(sizes))
        row[[d, d + 1, -1]] = rng.normal(size=3) * (rng.random(3) < 0.5)
        rest.append(row)
    G = rng.normal(size=(cuts, d))
    return owner, BarrierRows(G, sparse.csr_matrix(np.array(rest)), rng.random(len(rest)))


@pytest.mark.parametrize("sizes", [(1,) * 9, (2, 2, 2), (1, 3, 2, 1, 1)])
def test_what_belongs_to_single_clients_is_eliminated(sizes):
    """The factors of the bordered matrix solve what the whole matrix says."""
    d, cuts = 4, 20
    owner, rows = crowd(d, sizes, cuts, 3)
    P, weights = np.diag(rng.random(d)), 10.0 ** rng.uniform(-6, 6, len(rows.b))
    blocks = Blocks.of(owner, rows.rest, cuts)
    factor = BorderedFactor(P, rows.G, blocks, weights)
    assert factor.factored(0.0)
    lower = np.tril(rows.normal(P, weights, np.arange(cuts)))
    whole, rhs = lower + np.tril(lower, -1).T, rng.normal(size=len(owner))
    scale = 1.0 / np.sqrt(np.diagonal(whole))
    rest = scale * (whole @ factor.solve(rhs) - rhs)
    assert np.abs(rest).max() <= 1e-9 * np.abs(scale * rhs).max()


def test_variables_of_two_clients_in_one_row_are_not_eliminated():
    owner, rows = crowd(4, (1, 2, 1), 5, 2)
    assert Blocks.of(owner, rows.rest, 5) is not None
    tied = rows.rest.tolil()
    tied[-1, 6:] = 1.0
    assert Blocks.of(owner, tied.tocsr(), 5) is None


def test_a_program_without_a_minimum_is_not_taken_for_solved():
    rows = BarrierRows(np.zeros((0, 1)), sparse.csr_matrix(np.array([[0.0, 1.0]])), np.ones(1))
    assert minimise(np.eye(1), np.array([0.0, 1.0]), rows, 1e-9).residual > 1e-3


@pytest.mark.parametrize(
    ("loss", "norm", "cost", "p"),
    [("hinge", "linf", np.inf, 1), ("hinge", "l1", 1.0, 2), ("logistic", "l2", np.inf, 1)],
)
@pytest.mark.sampled(3)
def test_both_methods_certify_the_same_optimum(monkeypatch, loss, norm, cost, p):
    """Groups, flips, a set of weights that is cut off, norms with and without rows."""
    n, N = 6, 600
    X = rng.normal(size=(N, n))
    y = np.where(X @ rng.normal(size=n) + rng.normal(size=N) > 0.0, 1.0, -1.0)
    clients = [drfl.Client(f"c{s}", X[i], y[i]) for s, i in enumerate(partition.random(N, 3, rng))]
    task = drfl.Problem(loss, drfl.Ball(0.02, norm, cost), drfl.Mixture(radius=0.2, p=p))
    general = drfl.solve(task, clients, tol=1e-6)
    monkeypatch.setattr(qp, "LARGE", 0)
    own = drfl.solve(task, clients, tol=1e-6)
    assert own.status.kind == general.status.kind == "certified"
    assert own.objective == pytest.approx(general.objective, rel=2e-6)
    assert own.lower_bound <= general.objective * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("loss", "norm", "cost", "mixture"),
    [
        ("hinge", "l2", np.inf, drfl.Mixture(radius=0.2)),
        ("logistic", "l1", 1.0, drfl.Mixture(radius=0.2, p=np.inf)),
        ("pinball", "linf", 0.5, drfl.Mixture(radius=0.5, max_weight=0.2)),
        ("hinge", "l1", np.inf, drfl.Mixture(radius=0.2, p=2)),  # its rows tie all clients
    ],
)
@pytest.mark.sampled(4)
def test_both_methods_certify_the_same_optimum_of_many_clients(
    monkeypatch, loss, norm, cost, mixture
):
    """Flips that are split off make blocks of several variables."""
    n, N, S, used = 4, 800, 20, []
    X = rng.normal(size=(N, n))
    y = X @ rng.normal(size=n) + rng.normal(size=N)
    y = y if loss == "pinball" else np.where(y > 0.0, 1.0, -1.0)
    clients = [drfl.Client(f"c{s}", X[s::S], y[s::S]) for s in range(S)]
    task = drfl.Problem(loss, drfl.Ball(0.02, norm, cost), mixture)
    general = drfl.solve(task, clients, tol=1e-6)
    monkeypatch.setattr(qp, "CROWD", S - 1)
    monkeypatch.setattr(
        qp,
        "minimise",
        lambda P, c, rows, eps: used.append(rows.blocks) or minimise(P, c, rows, eps),
    )
    own = drfl.solve(task, clients, tol=1e-6)
    assert (len(used) > 0 and all(used)) == (mixture.p != 2)
    assert own.status.kind == general.status.kind == "certified"
    assert own.objective == pytest.approx(general.objective, rel=2e-6)
    assert own.lower_bound <= general.objective * (1.0 + 1e-12)
    assert abs(own.rounds - general.rounds) <= 2


@pytest.mark.parametrize("solver", ["bundle", "local", "admm", "ad_lpmm"])
def test_too_many_columns_are_refused_in_a_sentence(solver):
    """Before any work: nothing as large as columns times columns is made."""
    X = sparse.random(40, 20_000, density=1e-3, format="csr", random_state=0)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    with pytest.raises(ValueError, match=r"20000 columns are too many .* 3\.2 GB each"):
        drfl.solve(
            drfl.Problem("logistic", drfl.Ball(0.01)), [drfl.Client("a", X, y)], solver=solver
        )
