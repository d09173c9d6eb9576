"""What closes a run at a guarded client: a few numbers, counted and rounded outward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import RefusedError, Site
from drfl.privacy import SpentError, release_scalar
from drfl.privacy.tilt import best_constant
from drfl.solvers.bundle.guarded import keeper_of
from drfl.wire import Field, Message

KIND = "bundle_close"
REQUEST = {
    "g": Field("float64", ("P", "d")),  # slopes
    "x": Field("float64", ("d",), optional=True),  # the best point so far
}
REPLY = {
    "constant": Field("float64", ("P",)),  # of the best minorants with these slopes
    "value": Field("float64", (1,), optional=True),  # an upper bound of F at x
}
NO_BOUND = -1e12  # instead of a constant, where no minorant has the slope


def constants(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """A constant for every slope, rounded down, and the value at a point, rounded up."""
    if site.shared_ball:
        raise RefusedError("constants are not for a shared ball")
    slopes, reply = message.arrays["g"], {}
    if "x" in message.arrays and site.ledger is not None:
        reply["value"] = np.array([_value(site, message.arrays["x"])])
    told = np.full(len(slopes), NO_BOUND)
    for k, g in enumerate(slopes):
        try:
            told[k] = _constant(site, g)
        except SpentError:
            if k == 0:
                raise
            break  # what has been told is not lost
    return {"constant": told, **reply}


def _constant(site: Site, g: NDArray[np.float64]) -> float:
    found = best_constant(site.oracle, g)
    constant = NO_BOUND if found is None else found
    if site.ledger is None or site.guard is None:
        return constant
    # Whether a slope is possible is a number like any other: it is counted as well.
    question, most = keeper_of(site).family + (g + 0.0).tobytes(), site.guard.scalars
    return release_scalar(site.ledger, "constant", question, constant, most, up=False)


def _value(site: Site, x: NDArray[np.float64]) -> float:
    """An upper bound of F at x, at the multiplier that was told there."""
    assert site.guard is not None
    keeper, n = keeper_of(site), site.n_features
    w, b = x[:n], float(x[n]) if site.dimension > n else 0.0
    answer = keeper.answer(w, b)
    exact, question = keeper.mean_loss(w, b, answer.multiplier), keeper.question(w, b)
    told = release_scalar(keeper.ledger, "value", question, exact, site.guard.scalars, up=True)
    return min(answer.upper, told + site.oracle.ball.radius * answer.multiplier)
