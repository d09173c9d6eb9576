r"""What crosses in a round of the ADMMs.

Ordinarily the server sends (w, z_s), n + 1 numbers (with an intercept n + 2), and the client
answers with :math:`(\hat w_s,\pi_s)`. The multipliers :math:`(\psi_s,\zeta_s)` follow from what
both have seen, so each computes them for itself, by the same function and hence to the last bit;
:math:`\lambda_s` and :math:`\alpha_s` never leave the client. A client that may have lost count
(in the first round, after a lost answer) is sent its multipliers and starts afresh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.messages import REPLY as CUTS
from drfl.solvers.bundle.messages import REQUEST as ASK
from drfl.wire import Field

KIND, RECALL_KIND = "admm", "admm_recall"

_AFRESH = {
    "duals": Field("float64", (2, "d"), optional=True),  # multipliers, last answer: of the model
    "pair": Field("float64", (2,), optional=True),  # and of the value
    "batch": Field("int64", (2,), optional=True),  # rows per step (0: all), seed
    "penalty": Field("float64", (3,), optional=True),  # of the model, of the value; relaxation
}
REQUEST = {
    **_AFRESH,
    "x": Field("float64", ("d",)),  # the server's w and b
    "z": Field("float64", (), optional=True),  # with it a step is wanted
    # Cuts wanted: the bundle's request, at x (if there are fewer other points than numbers) and at
    # other points.
    **{name: replace(ASK[name], optional=True) for name in ("id", "plan")},
    "also": Field("float64", (None, "d"), optional=True),
}
REPLY = {
    "model": Field("float64", ("d",), optional=True),  # the client's own
    "pi": Field("float64", (), optional=True),  # and its value
    "support": Field("float64", ("c",), optional=True),  # the supporting cut there
    **{name: replace(CUTS[name], optional=True) for name in ("value", "cuts", "about", "facts")},
}
RECALL = {
    **_AFRESH,
    "x": Field("float64", ("k", "d")),  # the steps since then
    "z": Field("float64", ("k",)),
    "penalties": Field("float64", ("k", 3)),
}


@dataclass(frozen=True)
class Penalty:
    r"""The penalties of :math:`w=\hat w_s` and :math:`z_s=\pi_s`, and the over-relaxation."""

    model: float
    value: float
    relaxation: float = 1.0

    @property
    def array(self) -> Array:
        """As it travels."""
        return np.array([self.model, self.value, self.relaxation])

    @classmethod
    def of(cls, array: Array) -> Penalty:
        """What `array` wrote."""
        return cls(*(float(entry) for entry in array))

    def vector(self, d: int) -> Array:
        """One penalty per entry of (x, value)."""
        return np.append(np.full(d, self.model), self.value)


@dataclass(frozen=True)
class State:
    r"""The multipliers :math:`(\psi_s,\zeta_s)` and the last answer :math:`(\hat w_s,\pi_s)`."""

    dual: Array  # (d + 1,)
    last: Array  # (d + 1,)

    def target(self, point: Array, penalty: Penalty) -> Array:
        """The server's point, over-relaxed."""
        return penalty.relaxation * point + (1.0 - penalty.relaxation) * self.last

    def centre(self, target: Array, penalty: Penalty) -> Array:
        r"""What is projected: :math:`w+\psi/c` and :math:`z-\zeta/c`."""
        c = penalty.vector(len(target) - 1)
        return np.asarray(target + _signs(target) * self.dual / c)

    def after(self, target: Array, answer: Array, penalty: Penalty) -> State:
        r""":math:`\psi+c(w-\hat w)` and :math:`\zeta+c(\pi-z)`."""
        c = penalty.vector(len(target) - 1)
        return State(self.dual + _signs(target) * c * (target - answer), answer)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """As it travels."""
        both = np.array([self.dual, self.last])
        return {"duals": both[:, :-1], "pair": both[:, -1]}


def _signs(point: Array) -> Array:
    signs = np.ones(len(point))
    signs[-1] = -1.0  # the constraints are w - w_hat = 0 but pi - z = 0
    return signs
