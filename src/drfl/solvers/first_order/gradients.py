r"""The client's half: its mean loss at a point, the gradient, and what lowered slopes prove.

For any slopes :math:`v_i` of the loss, :math:`\sum_ip_iL(z_i)\ge\sum_ip_i(v_iz_i-L^*(v_i))`
(Fenchel). At a point the slopes are those of the loss; lowered by a factor they are slopes as well,
whose constant is one more number and whose gradient is the same but for the factor. Nothing is
kept between rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.solvers.first_order.questions import FACTORS, GradientRequest
from drfl.wire import Message
from drfl.wire.schema import pack_triangle


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Evaluate the point of a request."""
    request = GradientRequest.read(message, site.dimension, site.n_features)
    value, fan, slope = _evaluated(site, request.x)
    reply: dict[str, NDArray[Any]] = {"value": np.array(value), "fan": fan, "slope": slope}
    if request.introduction:
        reply["total"] = np.array(site.rows.total)
        if site.shared_intercept and site.policy.groups:
            reply["halves"] = _halves(site, request.x)
    curved = site.policy.curvature and (request.introduction or request.columns is not None)
    if curved:
        d = _curvature(site, request.x)
        if request.introduction:
            diagonal = site.rows.gram_diagonal(d)[: site.dimension]
            reply["diagonal"] = diagonal.astype(np.float32)
        if request.columns is not None:
            size = len(request.columns) + site.shared_intercept
            H = site.rows.gram_of(request.columns, d)[:size, :size]
            reply["hess"] = pack_triangle(H)
    return reply


def _evaluated(site: Site, x: Array) -> tuple[float, Array, Array]:
    """The mean loss, the constants of its lowered cuts, and its gradient: one pass."""
    rows, loss = site.rows, site.oracle.loss
    value, fan = 0.0, np.zeros(len(FACTORS))

    def visit(block: slice, z: Array) -> Array:
        nonlocal value
        y = rows.y[block]
        values, v = loss.value_and_slope(site.oracle.arguments(z, y))
        value += rows.mean(values, block)
        for k, factor in enumerate(FACTORS):
            fan[k] += rows.mean(_constants(site, factor * v, y), block)
        return _weighted(site, v, y, rows.mass(block))

    slope = _swept(site, x, visit)
    return value, fan, slope


def _halves(site: Site, x: Array) -> Array:
    """Two cuts, (2, 1 + d): of the rows that lean to one side in b, and of the others."""
    rows, loss, out = site.rows, site.oracle.loss, []
    for side in (1.0, -1.0):
        constant = 0.0

        def visit(block: slice, z: Array, side: float = side) -> Array:
            nonlocal constant
            y = rows.y[block]
            v = loss.slope(site.oracle.arguments(z, y))
            lean = v * y if site.oracle.is_margin else v
            v = np.where(side * lean > 0.0, v, 0.0)
            constant += rows.mean(_constants(site, v, y), block)
            return _weighted(site, v, y, rows.mass(block))

        slope = _swept(site, x, visit)
        out.append(np.append(constant, slope))
    return np.array(out)


def _curvature(site: Site, x: Array) -> Array:
    """The rows' second derivatives times their masses."""
    rows, (w, b) = site.rows, _split(site, x)
    m = site.oracle.arguments(rows.scores(w, b), rows.y)
    return np.asarray(site.oracle.loss.curvature(m) * rows.mass())


def _swept(site: Site, x: Array, visit: Callable[[slice, Array], Array]) -> Array:
    w, b = _split(site, x)
    g, gb = site.rows.sweep(w, b, visit)
    return np.append(g, gb)[: site.dimension]


def _split(site: Site, x: Array) -> tuple[Array, float]:
    return (x[:-1], float(x[-1])) if site.shared_intercept else (x, 0.0)


def _weighted(site: Site, v: Array, y: Array, mass: Array | float) -> Array:
    return np.asarray(v * y * mass if site.oracle.is_margin else v * mass)


def _constants(site: Site, v: Array, y: Array) -> Array:
    """What slopes v prove at x = 0, row by row."""
    constants = -site.oracle.loss.conjugate(v)
    return constants if site.oracle.is_margin else constants - v * y
