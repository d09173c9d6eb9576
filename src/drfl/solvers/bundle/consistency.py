r"""Whether a reply can be true: F lies above every cut, and every cut below F.

A client's cuts bound its F from below everywhere. A value below its own earlier cuts, or a cut
above one of its values, here or at a point evaluated before, proves that something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.evaluated import Evaluated
from drfl.solvers.bundle.exchange import Request
from drfl.solvers.bundle.reply import Reply
from drfl.wire import WireError

SLACK = 1e-7  # rounding, relatively


def require_consistent(reply: Reply, s: int, asked: Request, evaluated: Evaluated) -> None:
    """Refuse a reply that contradicts itself or what the client said before."""
    terms = evaluated.terms
    here = [
        (x, float(value), terms.multiplier(s, x) if given is None else given)
        for x, value, given in zip(asked.points, reply.values, reply.multipliers, strict=True)
    ]
    for x, value, multiplier in here:
        if _is_below(value, evaluated.model_of(s, x, multiplier)):
            raise WireError("its value is below its own earlier cuts")
    before = [
        (point.x, float(point.values[s]), float(point.multipliers[s]))
        for point in evaluated.points.values()
        if not np.isnan(point.values[s])
    ]
    for x, value, multiplier in (*here, *before):
        for least in _cut_values(reply, s, x, multiplier, evaluated):
            if _is_below(value, least):
                raise WireError("its cuts are above its own values")


def _is_below(value: float, least: float) -> bool:
    return value < least - SLACK * (1.0 + abs(least))


def _cut_values(
    reply: Reply, s: int, x: Array, multiplier: float, evaluated: Evaluated
) -> Sequence[float]:
    """What the new cuts say of F at x: those of every point, and the dual cut."""
    pool, half = evaluated.pool, evaluated.terms.half[s]
    priced = evaluated.terms.rho[s] * multiplier if evaluated.terms.priced else 0.0
    groups = reply.rows.shape[1]
    share = pool.share(s, groups) if reply.share is None else reply.share
    values = list(np.maximum(reply.at(x, multiplier, half), 0.0) @ share)
    if reply.dual is not None:
        values.append(reply.dual[0] + reply.dual[1:] @ x)
    return [priced + float(value) for value in values]
