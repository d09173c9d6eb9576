r"""Consensus ADMM with the exact prox of h, over-relaxation and adaptive penalties.

.. math::
    \min\ h(z)\quad\text{s.t.}\quad \hat w_s=w,\ \pi_s=z_s,\ \pi_s\ge F_s(\hat w_s).

The clients' part is the same projection as in Algorithm 1; on the server, instead of the paper's
four linearised variables,

.. math::
    w=\frac1S\sum_s\Big(\hat w_s-\frac{\psi_s}{c_w}\Big),\qquad
    z=\mathrm{prox}_{h/c_z}\Big(\pi+\frac\zeta{c_z}\Big),

with penalties of their own for models and values, each balanced by its residuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl.client import Checked, Handler
from drfl.solvers.admm.exchange import KIND, REPLY, REQUEST, Penalty, answer
from drfl.solvers.admm.session import AdmmSession
from drfl.solvers.base import Solver

IMBALANCE = 3.0  # of the residuals, at which a penalty changes
FACTOR = 2.0  # by which it changes at first
EVERY = 1
SETTLED = 1e-300


@dataclass(frozen=True)
class Admm(Solver):
    relaxation: float = 1.6
    adaptive: bool = True
    certify_every: int = 5
    kw: float = 1.0
    kz: float = 1.0
    imb: float = 3.0
    fac: float = 2.0
    every: int = 1
    decay: float = 0.0
    init: int = 1

    name: ClassVar[str] = "admm"
    handlers: ClassVar[Mapping[str, Handler]] = {KIND: Checked(answer, REQUEST, REPLY)}

    def start(self, problem, names, n_features, *, tol, max_rounds):
        return AdmmConsensus(self, problem, names, n_features, tol=tol, max_rounds=max_rounds)


class AdmmConsensus(AdmmSession):
    step_at_once = False

    def __init__(self, settings, problem, names, n_features, *, tol, max_rounds):
        super().__init__(problem, names, n_features, tol=tol, max_rounds=max_rounds, certify_every=settings.certify_every)
        self.settings = settings
        self._penalty = Penalty(1.0, 1.0, settings.relaxation)
        self.previous = self.last.copy()

    @property
    def penalty(self):
        return self._penalty

    def begin(self):
        S, d = self.dual.shape[0], len(self.w)
        point = self.certifier.best
        F = point.values
        q = self.certifier.terms.mixture.worst_weights(F)
        G = point.gradients
        g = np.linalg.norm(q @ G)
        f0 = float(q @ F)
        gs = float(q @ np.linalg.norm(G, axis=1))
        g = max(g, 1e-3 * gs, 1e-300)
        cz = self.settings.kz / (S * f0)
        cw = self.settings.kw * g * g / (S * f0)
        self._penalty = Penalty(cw, cz, self.settings.relaxation)
        self.last[:, d] = F
        self.z = F.copy()
        if self.settings.init == 1:
            self.dual[:, d] = q
        elif self.settings.init == 2:
            self.dual[:, d] = q
            self.dual[:, :d] = q[:, None] * G
            self.dual[:, :d] -= self.dual[:, :d].mean(axis=0)
        self.previous = self.last.copy()
        self.k = 0

    def move(self):
        S, d = self.dual.shape[0], len(self.w)
        st = self.settings
        if st.adaptive and self.k and self.k % st.every == 0:
            self.adapt()
        self.k += 1
        p = self._penalty
        self.previous = self.last.copy()
        self.w = (self.last[:, :d] - self.dual[:, :d] / p.model).mean(axis=0)
        self.z = self.certifier.terms.mixture.prox(self.last[:, d] + self.dual[:, d] / p.value, p.value)

    def adapt(self):
        d = len(self.w); p = self._penalty; st = self.settings
        N = np.linalg.norm
        new = []
        tau = 1 + (st.fac - 1) / (1 + (st.decay * self.k) ** 2)
        for cols, here, c in ((slice(0, d), self.w[None], p.model), (slice(d, d + 1), self.z[:, None], p.value)):
            v, old = self.last[:, cols], self.previous[:, cols]
            r = N(v - here) / max(N(np.broadcast_to(here, v.shape)), N(v), 1e-300)
            s = c * N(v - old) / max(N(self.dual[:, cols]), 1e-300)
            if r > st.imb * s: c = c * tau
            elif s > st.imb * r: c = c / tau
            new.append(c)
        self._penalty = Penalty(new[0], new[1], p.relaxation)
