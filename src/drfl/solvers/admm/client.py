r"""The client's half of the ADMMs: steps, and cuts for the certificate.

Ordinarily the server sends (w, z_s), n + 1 numbers (with an intercept n + 2), and the client
answers with :math:`(\hat w_s,\pi_s)`. The multipliers :math:`(\psi_s,\zeta_s)` follow from what
both have seen, so each computes them for itself, by the same function and hence to the last bit;
:math:`\lambda_s` and :math:`\alpha_s` never leave the client. A client that may have lost count
(in the first round, after a lost answer) is sent its multipliers and starts afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Handler, Site
from drfl.rows import Rows
from drfl.solvers.admm.client_step import ClientStep, Projection
from drfl.solvers.admm.multipliers import ClientMultipliers, Penalties
from drfl.solvers.bundle.client_half.answers import answer as evaluate
from drfl.solvers.bundle.messages import KIND as CUTS
from drfl.solvers.bundle.messages import REPLY as EVALUATED
from drfl.solvers.bundle.messages import REQUEST as ASK
from drfl.solvers.bundle.messages import CutRequest
from drfl.wire import Field, Message, WireError
from drfl.worst_case import make_oracle
from drfl.worst_case.oracle import Oracle

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
    **{
        name: replace(EVALUATED[name], optional=True)
        for name in ("value", "cuts", "about", "facts")
    },
}
RECALL = {
    **_AFRESH,
    "x": Field("float64", ("k", "d")),  # the steps since then
    "z": Field("float64", ("k",)),
    "penalties": Field("float64", ("k", 3)),
}


@dataclass
class Memory:
    """What a client keeps between rounds; the server can have all of it made again."""

    state: ClientMultipliers
    penalty: Penalties
    step: ClientStep
    batch: int
    seed: int


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Make a step if the message has a value z, and cuts if it wants any."""
    arrays, reply = message.arrays, dict[str, NDArray[Any]]()
    wanted = _wanted(site, message) if "id" in arrays else None
    if "z" in arrays:
        memory = _memory(site, arrays)
        found, support = _step(site, memory, np.append(arrays["x"], arrays["z"]), message.round)
        reply |= {"model": found.v, "pi": np.array(found.value)}
        cut = support(found, lifted=wanted.lifted) if wanted and support else None
        if cut is not None:
            reply["support"] = cut
    if wanted:
        # A supporting cut has one piece, and so must the others.
        reply |= evaluate(site, wanted.message(message.round), split=False)
    return reply


def _wanted(site: Site, message: Message) -> CutRequest:
    """The bundle's request for cuts, with x put back among its points."""
    arrays = message.arrays
    points = arrays.get("also", np.zeros((0, site.dimension)))
    if len(points) < len(arrays["id"]):
        points = np.vstack([arrays["x"], points])
    ask = {"x": points, "id": arrays["id"], "plan": arrays.get("plan", np.zeros(0))}
    return CutRequest.read(Message(CUTS, message.round, ask), site.dimension)


def recall(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """Start afresh and repeat the steps since then; there is nothing to answer."""
    arrays = message.arrays
    memory = _memory(site, arrays)
    for x, z, penalty in zip(arrays["x"], arrays["z"], arrays["penalties"], strict=True):
        memory.penalty = Penalties.of(penalty)
        _step(site, memory, np.append(x, z), message.round)
    return {}


HANDLERS: dict[str, Handler] = {
    KIND: Checked(answer, REQUEST, REPLY),
    RECALL_KIND: Checked(recall, RECALL, {}),
}


def _memory(site: Site, arrays: Mapping[str, NDArray[Any]]) -> Memory:
    """What the client knows, with what the message says.

    With multipliers the client starts afresh, without its old cuts: then every answer depends on
    what the server knows of, and a run that is resumed repeats it to the last bit.
    """
    if {"duals", "pair", "penalty"} <= set(arrays):
        state = ClientMultipliers(*np.column_stack([arrays["duals"], arrays["pair"]]))
        batch, seed = arrays.get("batch", (0, 0))
        step = ClientStep(site.oracle, site.dimension, shared=site.shared_ball)
        penalty = Penalties.of(arrays["penalty"])
        site.memory[KIND] = Memory(state, penalty, step, int(batch), int(seed))
    memory: Memory | None = site.memory.get(KIND)
    if memory is None:
        raise WireError("this client has lost its multipliers and needs them again")
    if "penalty" in arrays:
        memory.penalty = Penalties.of(arrays["penalty"])
    return memory


def _step(
    site: Site, memory: Memory, point: Array, round: int
) -> tuple[Projection, Callable[..., Array | None] | None]:
    """The projection, after which the client's multipliers are those of the next round.

    Beside it, how to get the supporting cut there; None for a batch, which tells nothing certain
    about all rows.
    """
    state, penalty, step = memory.state, memory.penalty, memory.step
    partial = 0 < memory.batch < site.rows.n_rows
    if partial:
        batch = sampled(site, memory.batch, memory.seed, round)
        step = ClientStep(batch, site.dimension, shared=site.shared_ball)
    target = state.target(point, penalty)
    centre = state.centre(target, penalty)
    found = step.project(centre[:-1], float(centre[-1]), penalty.model / penalty.value)
    memory.state = state.after(target, np.append(found.v, found.value), penalty)
    return found, None if partial else step.summary


def sampled(site: Site, size: int, seed: int, round: int) -> Oracle:
    """The oracle of ``size`` rows, drawn anew in every round, differently at every client."""
    rng = np.random.default_rng([seed, round, *site.name.encode()])
    oracle, rows = site.oracle, site.oracle.rows
    weighty = np.flatnonzero(rows.masses(np.arange(rows.n_rows)))
    chosen = np.sort(rng.choice(weighty, min(size, len(weighty)), replace=False))
    batch = Rows(rows.take(chosen), rows.y[chosen], weights=rows.masses(chosen))
    return make_oracle(batch, oracle.loss, oracle.ball)
