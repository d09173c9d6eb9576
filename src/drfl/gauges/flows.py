r"""The cheapest flow between classes: what a slope of several scores costs.

Every class k has the surplus :math:`G_k` in R^n, and :math:`\sum_kG_k=0`. A flow sends
:math:`T_{jk}=-T_{kj}` from j to k so that :math:`\sum_kT_{jk}=G_j`, at the cost
:math:`\sum_{j<k}\|T_{jk}\|` in the ground norm. By duality the least cost is

.. math:: \max\{\langle G,W\rangle:\ \|W_j-W_k\|_*\le1\ \text{for all pairs}\}.

The cost of *any* flow is at least that, so that a bound which pays for a flow is valid however
inaccurately the flow was found: what is left over of the surplus is sent as
:math:`(R_j-R_k)/K`, which leaves nothing over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import linprog

from drfl.arrays import Array
from drfl.norms import L2, GroupedLInf, Norm

ACCURACY = 1e-9  # of the cost, relatively
STEPS = 50
NEAR = 0.99  # of the way to the boundary


def cheapest_flow(G: Array, norm: Norm) -> float:
    """The cost of a flow that is nearly the cheapest for the surplus G (K, n)."""
    scale = float(np.abs(G).max(initial=0.0))
    if scale == 0.0 or len(G) < 2:
        return 0.0
    G = G / scale
    if len(G) == 2:
        return scale * float(norm(G[0]))
    if len(G) == 3 and isinstance(norm, L2):
        return scale * _of_triangle(G)
    return scale * _found(norm, G.shape, G.tobytes())


@lru_cache(maxsize=8)
def _found(norm: Norm, shape: tuple[int, ...], entries: bytes) -> float:
    """By iteration; kept for a while, since a proof asks for the same surplus several times."""
    G = np.frombuffer(entries).reshape(shape)
    return _euclidean(G) if isinstance(norm, L2) else _by_program(G, norm)


def flow_cost(G: Array, T: Array, norm: Norm) -> float:
    """The cost of the flow T (E, n) over pairs, once it leaves nothing over."""
    K = len(G)
    j, k = np.triu_indices(K, 1)
    rest = G.copy()
    np.subtract.at(rest, j, T)
    np.add.at(rest, k, T)
    return float(norm(T + (rest[j] - rest[k]) / K).sum())


def _of_triangle(G: Array) -> float:
    r"""Three classes in the l2 norm: Fermat's problem, in closed form.

    All flows are :math:`T+c` around the circle of the classes, so that the cost is the sum of the
    distances of a point -c from three others, the corners of a triangle whose sides are the
    surpluses. With :math:`a\le b\le c` their lengths, the best point is the corner between a and b
    if the angle there is at least 120 degrees, and the sum a + b; otherwise the sum is
    :math:`\sqrt{(a^2+b^2+c^2)/2+2\sqrt3\,\text{area}}`.
    """
    a, b, c = np.sort(np.linalg.norm(G, axis=1))
    if a * a + a * b + b * b <= c * c:
        return float(a + b)
    # Heron's formula in Kahan's order, which does not cancel.
    area = 0.25 * np.sqrt(max((a + b + c) * (a + b - c) * (c + a - b) * (c + b - a), 0.0))
    return float(np.sqrt(0.5 * (a * a + b * b + c * c) + 2.0 * np.sqrt(3.0) * area))


def _euclidean(G: Array) -> float:
    r"""By an interior-point method over the cones :math:`\|D_eW\|\le1`, always feasible.

    The multipliers :math:`(\tau_e,-T_e)` hold a flow throughout; scaling and steps are those of
    Nesterov, Todd and Mehrotra. Nothing outside of the span of G helps, so that at most K - 1
    columns are left; the last class stays at 0.
    """
    K = len(G)
    U, sizes, _ = np.linalg.svd(G, full_matrices=False)
    rank = max(1, int((sizes > 1e-14 * sizes[0]).sum()))
    S, norm = U[:, :rank] * sizes[:rank], L2()
    j, k = np.triu_indices(K, 1)
    D = np.zeros((len(j), K))
    D[np.arange(len(j)), j], D[np.arange(len(j)), k] = 1.0, -1.0
    T = D @ S / K
    lengths = np.linalg.norm(T, axis=1)
    s = np.column_stack([np.ones(len(j)), np.zeros_like(T)])
    z = np.column_stack([lengths + lengths.mean(), -T])
    best = flow_cost(S, T, norm)
    for _ in range(STEPS):
        step = _step(D[:, :-1], s, z)
        if step is None:
            break
        s, z = s + step[0], z + step[1]
        best = min(best, flow_cost(S, -z[:, 1:], norm))
        if float((s * z).sum()) <= ACCURACY * best:
            break
    return best


def _step(D: Array, s: Array, z: Array) -> tuple[Array, Array] | None:
    """A predictor and corrector step of the slacks and multipliers (E, 1 + r); None: no more."""
    size, bend = _scaling(s, z)
    scaled = _times(size, bend, z)
    gap, (E, width) = float((s * z).sum()), s.shape
    if not (np.isfinite(scaled).all() and gap > 0.0):
        return None
    # Rows of the scaled constraints: column (k, a) is minus D_ek times column a of the inverse.
    inverse = _times(
        1.0 / size, _mirrored(bend), np.broadcast_to(np.eye(width)[1:, None], (width - 1, E, width))
    )
    A = -np.einsum("ek,aeb->ebka", D, inverse).reshape(E * width, -1)
    try:
        factor = cho_factor(A.T @ A)
    except LinAlgError:
        return None

    def direction(v: Array) -> tuple[Array, Array]:
        moved = (A @ cho_solve(factor, -(A.T @ v.ravel()))).reshape(E, width)
        return -moved, v + moved  # scaled steps of s and z

    ds, dz = direction(-scaled)
    reach = min(_reach(scaled, ds), _reach(scaled, dz))
    aim = (1.0 - reach) ** 3 * gap / E
    wanted = -_product(scaled, scaled) - _product(ds, dz)
    wanted[:, 0] += aim
    ds, dz = direction(_quotient(scaled, wanted))
    length = min(1.0, NEAR * min(_reach(scaled, ds), _reach(scaled, dz)))
    back = _times(1.0 / size, _mirrored(bend), dz)
    return length * _times(size, bend, ds), length * back


def _scaling(s: Array, z: Array) -> tuple[Array, Array]:
    """Size and direction of the matrix that takes every z to what its inverse takes s to."""
    inner_s, inner_z = _inner(s), _inner(z)
    s, z = s / np.sqrt(inner_s)[:, None], z / np.sqrt(inner_z)[:, None]
    gamma = np.sqrt(0.5 * (1.0 + (s * z).sum(axis=1)))
    return (inner_s / inner_z) ** 0.25, (s + _mirrored(z)) / (2.0 * gamma)[:, None]


def _inner(v: Array) -> Array:
    length = np.linalg.norm(v[:, 1:], axis=1)
    return np.asarray(np.maximum((v[:, 0] - length) * (v[:, 0] + length), 1e-300))


def _mirrored(v: Array) -> Array:
    return np.concatenate([v[..., :1], -v[..., 1:]], axis=-1)


def _times(size: Array, w: Array, v: Array) -> Array:
    """The scaling matrices times vectors."""
    along = (w[:, 1:] * v[..., 1:]).sum(axis=-1, keepdims=True)
    first = w[:, :1] * v[..., :1] + along
    rest = v[..., 1:] + w[:, 1:] * (v[..., :1] + along / (1.0 + w[:, :1]))
    return np.asarray(size[:, None] * np.concatenate([first, rest], axis=-1))


def _product(u: Array, v: Array) -> Array:
    first = (u * v).sum(axis=1, keepdims=True)
    return np.concatenate([first, u[:, :1] * v[:, 1:] + v[:, :1] * u[:, 1:]], axis=1)


def _quotient(u: Array, v: Array) -> Array:
    """x with u o x = v."""
    first = ((u[:, :1] * v[:, :1]) - (u[:, 1:] * v[:, 1:]).sum(axis=1, keepdims=True)) / _inner(u)[
        :, None
    ]
    return np.concatenate([first, (v[:, 1:] - first * u[:, 1:]) / u[:, :1]], axis=1)


def _reach(u: Array, du: Array) -> float:
    """How far u may go along du within the cones; at most 1."""
    a = du[:, 0] ** 2 - (du[:, 1:] ** 2).sum(axis=1)
    b = u[:, 0] * du[:, 0] - (u[:, 1:] * du[:, 1:]).sum(axis=1)
    c = _inner(u)
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    # The smallest positive root of a t^2 + 2 b t + c, in the form that does not cancel.
    with np.errstate(divide="ignore", invalid="ignore"):
        t = c / (root - b)
    t = np.where((t > 0.0) & (b * b - a * c >= 0.0), t, np.inf)
    return min(1.0, float(t.min(initial=np.inf)))


def _by_program(G: Array, norm: Norm) -> float:
    r"""linf: a linear program, :math:`\min\sum\tau_e` with :math:`-\tau_e\le T_e\le\tau_e`.

    Of the ramps of a column :math:`|T_e|` is added up first.
    """
    K, n = G.shape
    j, k = np.triu_indices(K, 1)
    E, eye = len(j), sparse.eye_array(n)
    incidence = sparse.coo_array(
        (np.repeat([1.0, -1.0], E), (np.concatenate([j, k]), np.tile(np.arange(E), 2))), (K, E)
    )
    sent, pairs, every = sparse.kron(incidence, eye), sparse.eye_array(E), sparse.eye_array(E * n)
    if isinstance(norm, GroupedLInf):  # of T, its size and tau
        column, J = norm.column, len(norm.sizes)
        added = sparse.kron(pairs, sparse.coo_array((np.ones(n), (column, np.arange(n))), (J, n)))
        wide = sparse.kron(pairs, np.ones((J, 1)))
        blocks: Any = [[every, -every, None], [-every, -every, None], [None, added, -wide]]
    else:
        wide = sparse.kron(pairs, np.ones((n, 1)))
        blocks = [[every, -wide], [-every, -wide]]
    within: Any = sparse.block_array(blocks)
    more = within.shape[1] - E * n
    balance: Any = sparse.hstack([sent, sparse.coo_array((K * n, more))])
    cost = np.concatenate([np.zeros(E * n + more - E), np.ones(E)])
    bounds = [(None, None)] * (E * n) + [(0.0, None)] * more
    found = linprog(
        cost,
        A_ub=within.tocsr(),  # linprog takes sparse matrices, its stubs do not say so
        b_ub=np.zeros(within.shape[0]),
        A_eq=balance.tocsr(),
        b_eq=G.ravel(),
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    T = (G[j] - G[k]) / K if found.x is None else found.x[: E * n].reshape(E, n)
    return flow_cost(G, T, norm)
