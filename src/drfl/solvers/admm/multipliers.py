r"""What the server and each client both know: multipliers, and the steps since they were sent.

Both sides update the multipliers by the same function, so they agree to the last bit and need not
send them. After a missing answer nobody knows what the client did: it is told its multipliers and
starts afresh. So it does after `AFRESH` steps, which bounds what it would have to repeat after a
crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array

AFRESH = 50  # steps after which a client is told its multipliers again and drops old cuts
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Penalties:
    r"""The penalties of :math:`w=\hat w_s` and :math:`z_s=\pi_s`, and the over-relaxation."""

    model: float
    value: float
    relaxation: float = 1.0

    @property
    def array(self) -> Array:
        """As it travels."""
        return np.array([self.model, self.value, self.relaxation])

    @classmethod
    def of(cls, array: Array) -> Penalties:
        """What `array` wrote."""
        return cls(*(float(entry) for entry in array))

    def vector(self, d: int) -> Array:
        """One penalty per entry of (x, value)."""
        return np.append(np.full(d, self.model), self.value)


@dataclass(frozen=True)
class ClientMultipliers:
    r"""The multipliers :math:`(\psi_s,\zeta_s)` and the last answer :math:`(\hat w_s,\pi_s)`."""

    dual: Array  # (d + 1,)
    last: Array  # (d + 1,)

    def target(self, point: Array, penalty: Penalties) -> Array:
        """The server's point, over-relaxed."""
        return penalty.relaxation * point + (1.0 - penalty.relaxation) * self.last

    def centre(self, target: Array, penalty: Penalties) -> Array:
        r"""What is projected: :math:`w+\psi/c` and :math:`z-\zeta/c`."""
        c = penalty.vector(len(target) - 1)
        return np.asarray(target + _signs(target) * self.dual / c)

    def after(self, target: Array, answer: Array, penalty: Penalties) -> ClientMultipliers:
        r""":math:`\psi+c(w-\hat w)` and :math:`\zeta+c(\pi-z)`."""
        c = penalty.vector(len(target) - 1)
        return ClientMultipliers(self.dual + _signs(target) * c * (target - answer), answer)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """As it travels."""
        both = np.array([self.dual, self.last])
        return {"duals": both[:, :-1], "pair": both[:, -1]}


def _signs(point: Array) -> Array:
    signs = np.ones(len(point))
    signs[-1] = -1.0  # the constraints are w - w_hat = 0 but pi - z = 0
    return signs


@dataclass
class Window:
    """What a client has been told since it started afresh: it could repeat all of it."""

    start: ClientMultipliers
    steps: list[tuple[Array, Penalties]] = field(default_factory=list)


class Multipliers:
    """The server's copy of every client's state.

    ``dual`` and ``last`` (S, d + 1) are the multipliers (psi_s, zeta_s) and the last answers
    (w_hat_s, pi_s), all 0 at first; a client whose window is None has to start afresh.
    """

    def __init__(self, n_clients: int, dimension: int, batch_size: int, seed: int) -> None:
        self.dual = np.zeros((n_clients, dimension + 1))
        self.last = np.zeros((n_clients, dimension + 1))
        self.windows: list[Window | None] = [None] * n_clients
        self.batch = np.array([batch_size, seed])

    def state(self, s: int) -> ClientMultipliers:
        """A copy of a client's state."""
        return ClientMultipliers(self.dual[s].copy(), self.last[s].copy())

    def take(self, s: int, point: Array, answer: Array | None, penalty: Penalties) -> None:
        """The multipliers after a step from (w, z_s); without an answer everything stays."""
        if answer is None:
            self.windows[s] = None
            return
        state = self.state(s)
        after = state.after(state.target(point, penalty), answer, penalty)
        window = self.windows[s] or Window(state)
        window.steps.append((point, penalty))
        self.windows[s] = window if len(window.steps) < AFRESH else None
        self.dual[s], self.last[s] = after.dual, after.last

    def news(self, s: int, penalty: Penalties) -> Arrays:
        """What a client has to be told before its next step: often nothing."""
        window = self.windows[s]
        if window is None:
            return self._afresh(self.state(s), penalty)
        return {} if window.steps[-1][1] == penalty else {"penalty": penalty.array}

    def repetitions(self, penalty: Penalties) -> dict[int, Arrays]:
        """For each client that has not to start afresh, the steps that it repeats."""
        told = {s: window for s, window in enumerate(self.windows) if window is not None}
        return {s: self._repetition(s, window, penalty) for s, window in told.items()}

    def _afresh(self, state: ClientMultipliers, penalty: Penalties) -> Arrays:
        arrays = state.arrays | {"penalty": penalty.array}
        return arrays | ({"batch": self.batch} if self.batch[0] else {})

    def _repetition(self, s: int, window: Window, penalty: Penalties) -> Arrays:
        """With a batch size a client has no cuts to make again, so there is nothing to repeat."""
        steps, start = window.steps, window.start
        if self.batch[0]:
            steps, start = [], self.state(s)
        points = np.array([point for point, _ in steps]).reshape(len(steps), len(start.dual))
        penalties = np.array([c.array for _, c in steps]).reshape(len(steps), 3)
        arrays = {"x": points[:, :-1], "z": points[:, -1], "penalties": penalties}
        return self._afresh(start, penalty) | arrays
