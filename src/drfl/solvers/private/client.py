r"""The client's half: noisy means over rows of bounded length, paid for in advance.

With :math:`\zeta=(x,1)` a row contributes to no mean more than the bounds that the sensitivities
are made of; what a loss of one's own might do beyond them is clipped.
Every request states its price in zCDP; the client adds it up and refuses what its budget does not
hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import numpy as np

from drfl.arrays import Array
from drfl.client import RefusedError, Site
from drfl.losses import Loss
from drfl.privacy.dp import (
    DifferentialPrivacy,
    Sensitivity,
    Spending,
    noisy,
    packed,
    row_length,
)
from drfl.privacy.keys import rows_key
from drfl.wire import Field, Message

TERMS, START, SLOPE, CLOSE = "private_terms", "private_start", "private_slope", "private_close"

REQUESTS = {
    TERMS: {},
    START: {"rho": Field("float64", (2,))},  # of the moments and of the slope at 0
    SLOPE: {"x": Field("float64", ("d",)), "rho": Field("float64")},
    CLOSE: {
        "x": Field("float64", ("d",)),
        "region": Field("float64", ("d", "d")),  # the inverse of the region's matrix W
        "rho": Field("float64", (3,)),  # of the slope, the curvature and the value
    },
}

REPLIES = {
    # Public: the number of rows, the bounds of rows and targets, and what is left of the budget.
    TERMS: {
        "rows": Field("float64"),
        "norm": Field("float64"),
        "target": Field("float64"),
        "left": Field("float64"),
    },
    # Noisy; matrices are packed to their upper triangle, "t" numbers.
    START: {"moments": Field("float64", ("t",)), "slope": Field("float64", ("d",))},
    SLOPE: {"slope": Field("float64", ("d",))},
    CLOSE: {
        "slope": Field("float64", ("d",)),
        "curvature": Field("float64", ("t",)),
        "value": Field("float64"),
    },
}


SMALLEST = 1e-6
"""Slopes of arguments nearer than this differ by rounding."""

FARTHEST = 1e100
"""Numbers of a request are no larger: where sums overflow depends on the rows."""


def terms(site: Site, message: Message) -> Mapping[str, Array]:
    """What is public: how many rows there are, their bounds, and what may still be spent."""
    guard, spending = _promise(site)
    told = {
        "rows": float(site.rows.n_rows),
        "norm": guard.norm,
        "target": guard.target,
        "left": spending.left(guard.budget),
    }
    return {name: np.array(value) for name, value in told.items()}


def start(site: Site, message: Message) -> Mapping[str, Array]:
    """The second moments of the rows, and the slope at 0."""
    rho = message.arrays["rho"]

    def answer(tell: Teller) -> dict[str, Array]:
        ones = np.full(site.rows.n_rows, 1.0 / site.rows.n_rows)
        moments = tell(packed(_gram(site, ones)), tell.sensitivity.moments, rho[0])
        x = np.zeros(site.dimension)
        return {
            "moments": moments,
            "slope": tell(mean_slope(site, x), tell.sensitivity.slope, rho[1]),
        }

    return _release(site, message, answer)


def slope(site: Site, message: Message) -> Mapping[str, Array]:
    """The slope of the mean loss at a point."""
    x, rho = message.arrays["x"], float(message.arrays["rho"])

    def answer(tell: Teller) -> dict[str, Array]:
        return {"slope": tell(mean_slope(site, x), tell.sensitivity.slope, rho)}

    return _release(site, message, answer)


def close(site: Site, message: Message) -> Mapping[str, Array]:
    """Slope, least curvature and value at the last point: what a proof is made of."""
    x, region, rho = (message.arrays[name] for name in ("x", "region", "rho"))

    def answer(tell: Teller) -> dict[str, Array]:
        bound = tell.sensitivity
        matrix = packed(least_curvature(site, x, region))
        value = np.array([mean_value(site, x, bound)])
        return {
            "slope": tell(mean_slope(site, x), bound.slope, rho[0]),
            "curvature": tell(matrix, bound.curvature, rho[1]),
            "value": tell(value, bound.value(x), rho[2])[0],
        }

    return _release(site, message, answer)


# ------------------------------------------------------------------ means over rows, not noisy yet
def mean_slope(site: Site, x: Array) -> Array:
    """The gradient of the mean loss at x; it must not leave as it is."""
    z, sign, loss = _arguments(site, x)
    slopes = np.clip(loss.slope(z), *loss.slope_range)
    g, gb = site.rows.combine(sign * slopes / site.rows.n_rows)
    return np.append(g, gb)[: site.dimension]


def mean_value(site: Site, x: Array, bound: Sensitivity) -> float:
    """The mean loss at x; it must not leave as it is."""
    z, _, loss = _arguments(site, x)
    return float(np.mean(np.clip(loss.value(z), *bound.values(x))))


def least_curvature(site: Site, x: Array, region: Array) -> Array:
    r"""The mean of :math:`k(z_i,t_i)\,\zeta_i\zeta_i^T`; it must not leave as it is.

    :math:`t_i=\sqrt{\zeta_i^TW^{-1}\zeta_i}` is how far the argument of row i moves at most while
    the model moves within :math:`v^TWv\le1`; see `least_quotient`.
    """
    z, _, loss = _arguments(site, x)
    reach = np.empty(site.rows.n_rows)
    for block, part in site.rows.dense_blocks():
        rows = np.column_stack([part, np.ones(len(part))])[:, : site.dimension]
        reach[block] = np.sqrt(np.maximum(np.einsum("ij,ij->i", rows @ region, rows), 0.0))
    k = np.clip(least_quotient(loss, z, reach), 0.0, loss.curvature_bound)
    return _gram(site, k / site.rows.n_rows)


def least_quotient(loss: Loss, z: Array, reach: Array) -> Array:
    r"""The least :math:`(L'(z+s)-L'(z))/s` over :math:`0<|s|\le t`.

    The quotient is the mean of :math:`L''` between z and z + s. A running mean of a function with
    one peak has one peak itself, so that it is least at an end: s = 0, t or -t.
    """
    t = np.maximum(reach, SMALLEST)
    here = loss.slope(z)
    up, down = (loss.slope(z + t) - here) / t, (here - loss.slope(z - t)) / t
    return np.asarray(np.minimum(loss.curvature(z), np.minimum(up, down)))


# ------------------------------------------------------------------ noise, and what it costs
class Teller:
    """Puts noise on means."""

    def __init__(self, site: Site) -> None:
        guard, _ = _promise(site)
        loss = site.oracle.loss
        self.draw = guard.noise()
        self.sensitivity = Sensitivity(
            site.rows.n_rows,
            row_length(guard.norm, intercept=site.shared_intercept),
            guard.target if loss.task == "regression" else 0.0,
            loss,
        )

    def __call__(self, values: Array, sensitivity: float, rho: float) -> Array:
        """The values as they may leave for this price."""
        return noisy(values, sensitivity, float(rho), self.draw)


def _release(
    site: Site, message: Message, answer: Callable[[Teller], dict[str, Array]]
) -> dict[str, Array]:
    guard, spending = _promise(site)
    prices = np.atleast_1d(message.arrays["rho"])
    if not (prices > 0.0).all():
        raise RefusedError("every number has a price")
    if any(np.abs(array).max(initial=0.0) > FARTHEST for array in message.arrays.values()):
        raise RefusedError("a point or a region is too far away")
    question = _question(site, message)
    rho = float(prices.sum())
    return spending.release(question, rho, guard.budget, lambda: answer(Teller(site)))


def _question(site: Site, message: Message) -> bytes:
    """A digest of all that the answer depends on: the rows, the loss and the request.

    And of how the rows are read: that an answer is an old one must not depend on what is in them.
    """
    if "rows_key" not in site.memory:
        site.memory["rows_key"] = rows_key(site.rows)
    about = (message.kind, repr(site.oracle.loss), site.shared_intercept, site.reading)
    sha = hashlib.sha256(site.memory["rows_key"] + repr(about).encode())
    for name, array in message.arrays.items():
        sha.update(name.encode() + b"\0" + (array + 0.0).tobytes())
    return sha.digest()


def _promise(site: Site) -> tuple[DifferentialPrivacy, Spending]:
    if site.privacy is None or site.spending is None:
        raise RefusedError("this client has made no promise of differential privacy")
    return site.privacy, site.spending


def _arguments(site: Site, x: Array) -> tuple[Array, Array, Loss]:
    """Margins or residuals z, their signs of the slope, and the loss."""
    w, b = (x[:-1], float(x[-1])) if site.shared_intercept else (x, 0.0)
    rows, oracle = site.rows, site.oracle
    sign = rows.y if oracle.is_margin else np.ones(rows.n_rows)
    return oracle.arguments(rows.scores(w, b), rows.y), sign, oracle.loss


def _gram(site: Site, weights: Array) -> Array:
    d = site.dimension
    return site.rows.gram(weights)[:d, :d]
