"""Labels out of one sum, by a lattice: who knows all features and a sum of y x to many bits has y.

One cut at w = 0 tells the sum of y x over all rows. Of 2^N labels only one gives it to fifty bits
per coefficient, and a short vector of a lattice is that one (Lagarias and Odlyzko, 1985). With as
few bits as a guard lets out, many labels give the same sum.
"""

import numpy as np
from attack_kit import Server, guard, make_client, make_problem

N, n, K = 40, 3, 4
DELTA = 0.99


def reduced(basis):
    """Lenstra, Lenstra and Lovasz: the rows of a basis, made short."""
    B = basis.copy()
    rows = len(B)
    star, norm, mu = np.zeros_like(B), np.zeros(rows), np.zeros((rows, rows))
    k = 0
    while k < rows:
        m = star[:k] @ B[k] / norm[:k]
        while (large := np.flatnonzero(np.abs(m) > 0.501)).size:
            j = large[-1]
            q = np.round(m[j])
            B[k] -= q * B[j]
            m[:j] -= q * mu[j, :j]
            m[j] -= q
        star[k], mu[k, :k] = B[k] - m @ star[:k], m
        norm[k] = star[k] @ star[k]
        if k and norm[k] < (DELTA - m[-1] ** 2) * norm[k - 1]:
            B[[k - 1, k]] = B[[k, k - 1]]
            k -= 1
        else:
            k += 1
    return B


def labels_from(X, sums, fine):
    """Labels whose sums of y (x, 1) come nearest, known to about this part of a row's entry."""
    A = np.column_stack([X, np.ones(N)])
    target = 0.5 * (sums + A.sum(axis=0))  # the sum over the rows of class 1
    # Rows 2 t_i - 1 and what is left of the target; finer and finer, as floats have few digits.
    basis = np.vstack([2.0 * np.eye(N), np.ones(N)])
    basis = np.column_stack([basis, np.append(np.zeros(N), 1.0)])
    rest, scale = np.vstack([A, target]), 1.0
    rest[-1], basis[-1, :-1] = -target, -1.0
    while scale < 1.0 / fine:
        scale = min(scale * 16.0, 1.0 / fine)
        found = reduced(np.column_stack([basis, scale * rest]))
        basis, rest = np.round(found[:, : N + 1]), found[:, N + 1 :] / scale
    tried = [np.where(row[:N] * row[N] < 0.0, -1.0, 1.0) for row in basis if row[N]]
    return min(tried, key=lambda y: np.abs(A.T @ y - sums).max())


def told(client):
    """The sum of y (x, 1), from the cut at 0 of a hinge loss."""
    server = Server(client, make_problem())
    assert server.ask(np.zeros(n + 1))
    return -N * server.slopes[0]


def shares_right(settings, fine):
    """How many labels the lattice has right, and a linear model made of the same sums."""
    found, usual = [], []
    for seed in range(3):
        client = make_client(N, n, settings, seed=seed)
        X, y = client.rows.take(slice(None)), client.rows.y
        sums, A = told(client), np.column_stack([X, np.ones(N)])
        found.append((labels_from(X, sums, fine) == y).mean())
        usual.append((np.sign(A @ np.linalg.solve(A.T @ A, sums)) == y).mean())
    return found, usual


def test_all_labels_are_in_one_sum_of_many_bits_and_not_in_one_of_few(table):
    without, _ = shares_right(None, 2.0**-40)
    assert min(without) == 1.0
    for fine in (2.0**-9, 2.0**-40):
        within, usual = shares_right(guard(K), fine)
        assert np.mean(within) <= np.mean(usual) + 0.03
        assert max(within) < 1.0
        attack = (
            f"labels by a lattice, all features known (a linear model: {np.mean(usual):.2f} right)"
        )
        table(attack, np.mean(without), np.mean(within), "right")
