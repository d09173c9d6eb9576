r"""What crosses in a round of the ADMMs, and the client's half.

Ordinarily the server sends (w, z_s), n + 1 numbers (with an intercept n + 2), and the client
answers with :math:`(\hat w_s,\pi_s)`. The multipliers :math:`(\psi_s,\zeta_s)` follow from what
both have seen, so each computes them for itself, by the same function and hence to the last bit;
:math:`\lambda_s` and :math:`\alpha_s` never leave the client. Only a client that may have lost
count (the first round, a lost answer, a restart) is sent its multipliers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Site
from drfl.losses import Array
from drfl.rows import Rows
from drfl.solvers.admm.client_step import ClientStep
from drfl.solvers.bundle.client import answer as evaluate
from drfl.solvers.bundle.exchange import REPLY as CUTS
from drfl.solvers.bundle.exchange import Request
from drfl.wire import Field, Message, WireError
from drfl.worst_case import make_oracle
from drfl.worst_case.oracle import Oracle

KIND = "admm"

REQUEST = {
    "x": Field("float64", ("d",)),  # the server's w (and b)
    "z": Field("float64", (), optional=True),  # with it a step is wanted
    "duals": Field("float64", (2, "d"), optional=True),  # multipliers, last answer: of the model
    "pair": Field("float64", (2,), optional=True),  # and of the value
    "penalty": Field("float64", (3,), optional=True),  # of x and of the value; relaxation
    "batch": Field("int64", (2,), optional=True),  # rows of the step, seed
    "plan": Field("uint8", (2,), optional=True),  # wanted: cuts, an introduction
    "also": Field("float64", ("d",), optional=True),  # another point to cut at
}
REPLY = {
    "model": Field("float64", ("d",), optional=True),  # the client's own
    "pi": Field("float64", (), optional=True),  # and its value
    **{name: replace(CUTS[name], optional=True) for name in ("value", "cuts", "about", "facts")},
}


@dataclass(frozen=True)
class Penalty:
    r"""The penalties of :math:`w=\hat w_s` and :math:`z_s=\pi_s`, and the over-relaxation."""

    model: float
    value: float
    relaxation: float = 1.0

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
        r"""(a, e): :math:`w+\psi/c` and :math:`z-\zeta/c`."""
        c = penalty.vector(len(target) - 1)
        return np.asarray(target + _signs(target) * self.dual / c)

    def after(self, target: Array, answer: Array, penalty: Penalty) -> State:
        r""":math:`\psi+c(w-\hat w)` and :math:`\zeta+c(\pi-z)`."""
        c = penalty.vector(len(target) - 1)
        return State(self.dual + _signs(target) * c * (target - answer), answer)


def _signs(point: Array) -> Array:
    signs = np.ones(len(point))
    signs[-1] = -1.0  # the constraints are w - w_hat = 0 but pi - z = 0
    return signs


# ---------------------------------------------------------------------- the client's half
@dataclass
class Memory:
    """What a client keeps between rounds; the server can restore all of it but the cuts."""

    state: State | None = None
    penalty: Penalty | None = None
    step: ClientStep | None = None
    batch: tuple[int, int] = (0, 0)  # rows, seed; no rows: all


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Make a step if the message has a value z, and cuts if its plan wants any."""
    memory: Memory = site.memory.setdefault(KIND, Memory())
    reply: dict[str, NDArray[Any]] = {}
    if "z" in message.arrays:
        *model, pi = _step(site, message, memory)
        reply |= {"model": np.array(model), "pi": np.array(pi)}
    cuts, introduction = message.arrays.get("plan", (0, 0))
    if cuts:
        points = [message.arrays[name] for name in ("x", "also") if name in message.arrays]
        request = Request(np.array(points), tuple(range(len(points))), (False,) * len(points))
        # The bundle's half introduces itself in round 0.
        reply.update(evaluate(site, request.message(0 if introduction else 1)))
    return reply


def _step(site: Site, message: Message, memory: Memory) -> Array:
    arrays = message.arrays
    if "duals" in arrays and "pair" in arrays:
        memory.state = State(*np.column_stack([arrays["duals"], arrays["pair"]]))
    if "penalty" in arrays:
        memory.penalty = Penalty(*(float(entry) for entry in arrays["penalty"]))
    if "batch" in arrays:
        memory.batch = (int(arrays["batch"][0]), int(arrays["batch"][1]))
    state, penalty = memory.state, memory.penalty
    if state is None or penalty is None:
        raise WireError("this client has lost its multipliers and needs them again")
    target = state.target(np.append(arrays["x"], arrays["z"]), penalty)
    *a, e = state.centre(target, penalty)
    step = _stepper(site, message.round, memory)
    found = step.project(np.array(a), float(e), penalty.model / penalty.value)
    answer = np.append(found.v, found.value)
    memory.state = state.after(target, answer, penalty)
    return answer


def _stepper(site: Site, round: int, memory: Memory) -> ClientStep:
    """The client's own, with its cuts; with a batch size a fresh one on fresh rows."""
    size, seed = memory.batch
    if 0 < size < site.rows.n_rows:
        return ClientStep(sampled(site, size, seed, round), site.dimension)
    memory.step = memory.step or ClientStep(site.oracle, site.dimension)
    return memory.step


def sampled(site: Site, size: int, seed: int, round: int) -> Oracle:
    """The oracle of ``size`` rows, drawn anew in every round, differently at every client."""
    rng = np.random.default_rng([seed, round, *site.name.encode()])
    oracle = site.oracle
    rows, chosen = oracle.rows, np.sort(rng.choice(oracle.rows.n_rows, size, replace=False))
    weights = rows.masses(chosen)
    if not weights.any():  # the batch has weightless rows only: all alike
        weights = np.ones(size)
    batch = Rows(rows.take(chosen), rows.y[chosen], weights=weights)
    return make_oracle(batch, oracle.loss, oracle.ball)
