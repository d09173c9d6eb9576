r"""The slopes with which a client's rows on the central path serve the proof.

Rows far from their corners cost a proof their products, and all together most of its gap: their
slopes are rounded. What that, and stopping at 0 and 1, takes from the sum of the slopes the other
rows have to give: along a step e slopes move by :math:`s_i\langle e,x_i\rangle` with the room
:math:`s_i=\min(\alpha_i,1-\alpha_i)`, and the sum by
:math:`\sum_ip_is_i(x_i,1)(x_i,1)^\top e`. A client settles that among its own rows, step after
step, where they have it. What is left the server knows a round later, and asks all clients to mend
it together, by the room that they tell. Several groups of rows make a cut each, so that mixtures of
theirs, over all rounds, give some of it at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from drfl.arrays import Array
from drfl.losses.base import Corner
from drfl.solvers.bundle.client_half.evaluation import GROUP_ROWS, Evaluator
from drfl.solvers.bundle.messages import FEW_COLUMNS

# What stopping took is settled in a few steps; one has to leave less than a share of it, and all
# together a tenth, or else slopes have moved for nothing.
TRIES, LESS, WORTH, ENOUGH = 10, 0.8, 0.1, 1e-8
ROOM, RIDGE = 2, 1e-9  # slopes that move, for every coefficient; in units of the mean room
LITTLE, LOSS = 0.05, 0.4  # rows with more room are not rounded; the share of all room at most


def rounded(alpha: Array, inside: int) -> Array:
    """Slopes within 0 and 1, of which those of rows with little room are at an end.

    Rows far from their corners are: each costs the proof its product, and all together most of it.
    ``inside`` rows, those with the most room, stay between. They have to make up for what the
    others lose, and have to have most of the room: otherwise nothing is rounded.
    """
    room = np.minimum(alpha, 1.0 - alpha)
    largest = room.max(axis=0)
    if inside >= largest.size:
        return alpha
    few = largest < min(float(np.partition(largest, -inside)[-inside]), LITTLE)
    if float(room[:, few].sum()) > LOSS * float(room.sum()):
        return alpha
    return np.where(few, np.round(alpha), alpha)


def settled(
    evaluator: Evaluator, corners: Sequence[Corner], alpha: Array, inside: float = 0.0
) -> Array:
    """Slopes within 0 and 1 that add up to what these do, as nearly as the rows have room.

    Where slopes are few, stopped ones are too many of them: that is left to all clients together.
    Where columns are many it takes too long.
    """
    stopped = within = np.clip(alpha, 0.0, 1.0)
    if inside > 0.0:
        stopped = within = rounded(stopped, math.ceil(inside * evaluator.rows.total))
    few = alpha.size < _mostmoved(evaluator)
    if few or evaluator.rows.n_features > FEW_COLUMNS or (stopped == alpha).all():
        return stopped
    wanted = _sum_of(evaluator, corners, alpha)
    miss = wanted - _sum_of(evaluator, corners, stopped)
    first = left = float(np.linalg.norm(miss))
    for _ in range(TRIES):
        if left <= ENOUGH * float(np.linalg.norm(wanted)):
            break
        room = room_of_sum(evaluator, corners, within)
        room[np.diag_indices_from(room)] += RIDGE * np.trace(room) / len(room)
        try:
            e = cho_solve(cho_factor(room), miss)
        except LinAlgError:  # no slope has any room
            break
        nearer = moved(evaluator, corners, within, e)
        miss = wanted - _sum_of(evaluator, corners, nearer)
        size = float(np.linalg.norm(miss))
        if not size <= LESS * left:
            break
        within, left = nearer, size
    return within if left <= WORTH * first else stopped


def moved(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array, e: Array) -> Array:
    """Slopes within 0 and 1, each moved along e as far as it has room."""
    return np.clip(alpha + _room(evaluator, alpha) * moves(evaluator, corners, e), 0.0, 1.0)


def _room(evaluator: Evaluator, alpha: Array) -> Array:
    """That of the slopes with the most of it: the others would cost, and hardly move."""
    room, most = np.minimum(alpha, 1.0 - alpha), _mostmoved(evaluator)
    if most < room.size:
        room[room < np.partition(room.ravel(), -most)[-most]] = 0.0
    return np.asarray(room)


def _mostmoved(evaluator: Evaluator) -> int:
    return ROOM * int(evaluator.rows.n_features + 1)


def room_of_sum(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array) -> Array:
    """The matrix (n + 1, n + 1) by which the sum of slopes changes along a step."""
    room = total(corners, _room(evaluator, alpha))
    return evaluator.rows.gram(room * evaluator.rows.mass())


def _sum_of(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array) -> Array:
    """What slopes add up to, (n + 1,), as a slope of the client's mean loss."""
    v = evaluator.weighted(total(corners, alpha, signed=True))
    return np.append(*evaluator.rows.combine(v))


def moves(evaluator: Evaluator, corners: Sequence[Corner], e: Array) -> Array:
    """How much the corners' sides change along a step, (K, N)."""
    moved = evaluator.rows.scores(*evaluator.split(e))
    if evaluator.oracle.is_margin:
        moved *= evaluator.rows.y
    return np.array([c.sign for c in corners])[:, None] * moved


def minorants(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array, wanted: int) -> Array:
    """The minorants (2 G, 2 + n) of slopes alpha, G groups that fall with the score, G that rise.

    Every group has `GROUP_ROWS` rows on both sides; there may be fewer than are ``wanted``.
    """
    own = evaluator.rows
    rising = np.array([_rises(evaluator, c) for c in corners])
    if evaluator.oracle.is_margin and _few(own.y):
        rising[:] = False  # sums of one class alone would tell too much of its rows
    groups = _enough(rising, wanted)
    out = []
    for k in range(2):
        share = np.where(rising == bool(k), alpha, 0.0)
        v = total(corners, share, signed=True)
        constant = total(corners, share * [[-c.sign * c.kink] for c in corners])
        if not evaluator.oracle.is_margin:
            constant -= v * own.y
        constants = evaluator.sums(constant, groups)
        out.append(np.column_stack([constants, *own.group_sums(evaluator.weighted(v), groups)]))
    return np.vstack(out)


def _enough(rising: NDArray[np.bool_], wanted: int) -> int:
    """How many groups may be told apart, row i being in group i mod G; at most so many."""
    sides = [(rising == k).any(axis=0) for k in (False, True)]
    sides = [side for side in sides if side.any()]
    most = min(int(side.sum()) for side in sides) // GROUP_ROWS
    for groups in range(min(wanted, most), 1, -1):
        if all(side[k::groups].sum() >= GROUP_ROWS for side in sides for k in range(groups)):
            return groups
    return 1


def _rises(evaluator: Evaluator, corner: Corner) -> Array:
    """Of which rows this corner's part of the loss rises with the score."""
    if evaluator.oracle.is_margin:
        return np.asarray(corner.sign * evaluator.rows.y > 0.0)
    return np.full(evaluator.rows.n_rows, corner.sign > 0.0)


def _few(y: Array) -> bool:
    positive = int((y > 0.0).sum())
    return min(positive, len(y) - positive) < GROUP_ROWS


def total(corners: Sequence[Corner], values: Array, *, signed: bool = False) -> Array:
    """The corners' sum of values (K, N)."""
    weights = [c.weight * (c.sign if signed else 1.0) for c in corners]
    return np.asarray(np.array(weights) @ values)
