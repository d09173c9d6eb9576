r"""Consensus ADMM with the exact prox of h, over-relaxation and adaptive penalties.

.. math::
    \min\ h(z)\quad\text{s.t.}\quad w=\hat w_s,\quad z_s=\pi_s,\quad \pi_s\ge F_s(\hat w_s).

The clients' part is the same projection as in Algorithm 1. On the server the exact prox replaces
the paper's linearised variables :math:`t,\eta,\gamma`:

.. math::
    w=\frac1S\sum_s\Big(\hat w_s-\frac{\psi_s}{c_w}\Big),\qquad
    z=\mathrm{prox}_{h/c_z}\Big(\pi+\frac\zeta{c_z}\Big).

Clients project around :math:`\alpha(w,z)+(1-\alpha)(\hat w_s,\pi_s)` (over-relaxation). Models and
values have penalties of their own. Each is raised while the relative primal residual, say
:math:`\|w-\hat w\|/\max(\|w\|,\|\hat w\|)`, is much larger than the relative dual one,
:math:`c_w\|\hat w-\hat w^{\text{old}}\|/\|\psi\|`, and lowered in the opposite case, by factors
that tend to 1 fast enough for the method to converge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl import checks
from drfl.arrays import Array
from drfl.solvers.admm.ad_lpmm import update_w
from drfl.solvers.admm.multipliers import Penalties
from drfl.solvers.admm.session import AdmmSession, AdmmSolver

IMBALANCE = 3.0  # of the residuals, at which a penalty changes
FACTOR, FADE = 2.0, 30.0  # by which it changes at first, and the rounds in which that fades
NOTHING = 1e-300


class AdmmConsensus(AdmmSession):
    """The server of consensus ADMM; the first round only evaluates w = 0."""

    step_at_once = False

    settings: Admm

    def prepare(self) -> None:
        self.moves = 0
        self.previous = self.last.copy()
        self._penalty = Penalties(1.0, 1.0, self.settings.relaxation)

    @property
    def penalty(self) -> Penalties:
        return self._penalty

    def begin(self) -> None:
        r"""Start at w = 0 with the values and the worst weights there.

        The multipliers of the values are weights of size 1/S, those of the models slopes of size
        unit/S, with ``unit`` the size of a feature; values are of the size of f(0), models of the
        size f(0)/unit. A penalty is the ratio of such sizes.
        """
        values, server = self.certifier.best.values, self.certifier.server
        size = max(len(self.names) * self.certifier.at_zero, NOTHING)
        first = self.settings.penalty / size
        self._penalty = Penalties(first * server.unit**2, first, self.settings.relaxation)
        self.last[:, -1] = self.previous[:, -1] = values
        self.dual[:, -1] = server.mixture.worst_weights(values)
        self.dual[:, :-1] = -self.certifier.price / len(self.names)

    def move(self) -> None:
        if self.settings.adaptive and self.moves > 0:
            self._adapt()
        self.moves += 1
        self.previous = self.last.copy()
        c, models, values = self.penalty, self.last[:, :-1], self.last[:, -1]
        psi, zeta = self.dual[:, :-1], self.dual[:, -1]
        self.w = update_w(models, psi, c.model, self.certifier.price)
        self.z = self.certifier.server.mixture.prox(values + zeta / c.value, c.value)

    def _adapt(self) -> None:
        c, factor = self.penalty, 1.0 + (FACTOR - 1.0) / (1.0 + (self.moves / FADE) ** 2)
        here = np.tile(self.w, (len(self.names), 1))
        model = c.model * self._balance(slice(None, -1), here, c.model, factor)
        value = c.value * self._balance(slice(-1, None), self.z[:, None], c.value, factor)
        self._penalty = Penalties(model, value, c.relaxation)

    def _balance(self, part: slice, here: Array, c: float, factor: float) -> float:
        """By what a penalty changes, from the relative residuals of its constraint."""
        now, old = self.last[:, part], self.previous[:, part]
        size = max(_norm(here), _norm(now), NOTHING)
        primal = _norm(now - here) / size
        dual = c * _norm(now - old) / max(_norm(self.dual[:, part]), NOTHING)
        if primal > IMBALANCE * dual:
            return factor
        return 1.0 / factor if dual > IMBALANCE * primal else 1.0


@dataclass(frozen=True)
class Admm(AdmmSolver):
    r"""Consensus ADMM.

    Attributes
    ----------
    relaxation : float
        :math:`\alpha` in (0, 2); 1: none.
    adaptive : bool
        Whether residuals are balanced by changing the penalties.
    penalty : float
        The first penalties, in units of what the scale of the problem suggests.
    certify_every : int
        Every so many rounds the clients also evaluate w exactly, for the certificate.
    """

    relaxation: float = 1.6
    adaptive: bool = True
    penalty: float = 1.0
    certify_every: int = 5

    name: ClassVar[str] = "admm"
    session: ClassVar[type[AdmmSession]] = AdmmConsensus

    def __post_init__(self) -> None:
        checks.number("relaxation", self.relaxation, above=0.0, below=2.0)
        checks.number("penalty", self.penalty, above=0.0)
        checks.flag("adaptive", self.adaptive)
        checks.whole("certify_every", self.certify_every, least=1)


def _norm(array: Array) -> float:
    return float(np.linalg.norm(array))
