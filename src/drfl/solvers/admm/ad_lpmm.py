r"""The paper's Algorithm 1: AD-LPMM, with the updates of `drfl.solvers.admm.operators`.

Exactly as printed, with what is necessary to run it (see `operators` and `exchange`). All primal
and dual variables start at 0. The run ends when the proved gap is within the tolerance, or with
the rounds. On a batch of the rows (`batch_size`) the iterates hover around the solution and do not
converge; their average is evaluated as well and is usually much better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl import checks
from drfl.solvers.admm.multipliers import Penalties
from drfl.solvers.admm.operators import (
    printed_constants,
    tight_constants,
    update_eta,
    update_gamma,
    update_t,
    update_w,
    update_z,
)
from drfl.solvers.admm.session import AdmmSession, AdmmSolver, Rounds


class AdLpmmSession(AdmmSession):
    r"""The server of Algorithm 1; :math:`t,\eta,\gamma,\sigma` are its own variables."""

    step_at_once = True  # w and z are 0 in the first round, whatever the mixture

    settings: AdLpmm

    def prepare(self) -> None:
        S = len(self.names)
        self.c = self.settings.c
        constants = tight_constants if self.settings.tight else printed_constants
        self.c1, self.c2 = constants(self.c, S)
        self.t, self.eta, self.sigma, self.gamma = np.zeros(S), np.zeros(S), np.zeros(S), 0.0
        self.z_old = np.zeros(S)

    @property
    def penalty(self) -> Penalties:
        return Penalties(self.c, self.c)

    def begin(self) -> None:
        mixture = self.certifier.server.mixture
        self.center, self.p = mixture.weights, mixture.p
        # Beyond the diameter of the simplex a larger radius changes nothing.
        self.theta = min(mixture.radius, 2.0 ** (1.0 / self.p))

    def move(self) -> None:
        """Lines 6-8 and 14 of this iteration, then lines 4 and 5 of the next."""
        c, c1, c2, sigma, z = self.c, self.c1, self.c2, self.sigma, self.z
        t = update_t(
            self.t, self.z_old, self.eta, self.gamma, sigma, self.center, self.theta, self.p, c, c1
        )
        eta = update_eta(t, z, self.eta, self.gamma, sigma, c, c2)
        gamma = update_gamma(t, z, self.eta, self.gamma, sigma, c, c2)
        self.t, self.eta, self.gamma, self.z_old = t, eta, gamma, z
        self.sigma = sigma + c * (t - z - gamma - eta)
        d = len(self.w)
        psi, zeta, w_hat, pi = self.dual[:, :d], self.dual[:, d], self.last[:, :d], self.last[:, d]
        self.w = update_w(w_hat, psi, c, self.certifier.price)
        self.z = update_z(t, z, eta, gamma, pi, zeta, self.sigma, c, c1)


@dataclass(frozen=True)
class AdLpmm(AdmmSolver):
    r"""Algorithm 1 of the paper.

    Attributes
    ----------
    c : float
        The step size. Its best value depends on the data: compare a few powers of ten.
    tight : bool
        The least proximal constants :math:`c'=2c,\ c''=(S+1)c` instead of the printed 2Sc, which
        cost a multiple of the rounds.
    batch_size : int or None
        How many rows a client takes for its step, drawn anew in every round; None: all.
    seed : int
        Of these draws.
    certify_every : int
        Every so many rounds the clients also evaluate w exactly, for the certificate.
    """

    c: float = 0.01
    tight: bool = False
    batch_size: int | None = None
    seed: int = 0
    certify_every: int = 5

    name: ClassVar[str] = "ad_lpmm"
    session: ClassVar[type[AdmmSession]] = AdLpmmSession

    def __post_init__(self) -> None:
        checks.number("c", self.c, above=0.0)
        checks.flag("tight", self.tight)
        checks.whole("certify_every", self.certify_every, least=1)
        checks.whole("seed", self.seed, least=0)
        if self.batch_size is not None:
            checks.whole("batch_size", self.batch_size, least=1)

    @property
    def rounds(self) -> Rounds:
        return Rounds(self.certify_every, self.batch_size or 0, self.seed)
