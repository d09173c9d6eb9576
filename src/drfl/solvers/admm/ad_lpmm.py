r"""The paper's Algorithm 1: AD-LPMM, and the closed-form updates of its server.

The problem (4.3) is split as (Section 5 and Appendix E)

.. math::
    \min\ \hat q^\top t+\theta\|t\|_{p_*}-\gamma\quad\text{s.t.}\quad t=z+\gamma e+\eta,\quad
    w=\hat w_s,\quad z_s=\pi_s,\quad \eta\ge0,\quad \pi_s\ge F_s(\hat w_s),

with the multipliers :math:`\sigma` of the first constraint, :math:`\psi_s` of the second and
:math:`\zeta_s` of the third. The augmented Lagrangian has the step size c; proximal terms
:math:`\tfrac12\|\cdot\|_{c'I-cA_1^\top A_1}^2` on (t, z) and
:math:`\tfrac12\|\cdot\|_{c''I-cA_2^\top A_2}^2` on :math:`(\gamma,\eta)` make every update
separable. A bar (here the suffix ``_old``) marks the previous iterate.

Deviations from the text, each necessary: the soft threshold is :math:`[|x|-\delta]_+\,
\mathrm{sgn}\,x`; for :math:`\theta=0` the update of t is u; :math:`c'` and :math:`c''` are
arguments, because 2Sc is more than it takes (`tight_constants`).

All primal and dual variables start at 0. The run ends when the proved gap is within the tolerance,
or with the rounds. On a batch of the rows (`batch_size`) the iterates hover around the solution and
do not converge; their average is evaluated as well and is usually much better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl import checks
from drfl.arrays import Array
from drfl.norms import L1, L2, LInf, Norm
from drfl.solvers.admm.multipliers import Penalties
from drfl.solvers.admm.session import AdmmSession, AdmmSolver

# The unit ball of the p-norm onto which P_t projects.
BALLS: dict[float, Norm] = {1: L1(), 2: L2(), math.inf: LInf()}


def printed_constants(c: float, S: int) -> tuple[float, float]:
    r""":math:`c'=c''=2Sc`, as printed."""
    return 2.0 * S * c, 2.0 * S * c


def tight_constants(c: float, S: int) -> tuple[float, float]:
    r"""The least that makes the proximal terms convex: :math:`c'=2c,\ c''=(S+1)c`.

    They are c times the largest eigenvalues of :math:`A_1^\top A_1`, :math:`A_1=[I\ -I]`, and of
    :math:`A_2^\top A_2`, :math:`A_2=[-e\ -I]`.
    """
    return 2.0 * c, (S + 1.0) * c


def update_w(w_hat: Array, psi: Array, c: float, price: Array | float = 0.0) -> Array:
    r""":math:`\mathfrak P_w` (equation operator_w).

    .. math::
        \arg\min_w r^\top w+\sum_s\psi_s^\top w+\tfrac c2\sum_s\|w-\hat w_s\|^2
        =\frac1{cS}\Big(\sum_s(c\hat w_s-\psi_s)-r\Big)

    Parameters
    ----------
    w_hat, psi : arrays of shape (S, d)
        The clients' models and the multipliers of :math:`w=\hat w_s`.
    c : float
        The step size.
    price : array of shape (d,)
        r: 0 in the paper; with one ball around the mixture w contains its multiplier, which costs
        the radius.
    """
    return np.asarray((w_hat - (psi + price / len(psi)) / c).mean(axis=0))


def update_z(
    t_old: Array,
    z_old: Array,
    eta: Array,
    gamma: float,
    pi: Array,
    zeta: Array,
    sigma: Array,
    c: float,
    c1: float,
) -> Array:
    r""":math:`\mathfrak P_z` (equation operator_z); ``c1`` is :math:`c'`.

    .. math::
        \arg\min_z -(\sigma+\zeta+c\,r)^\top z+\tfrac c2\|z-\pi\|^2+\tfrac{c'}2\|z-\bar z\|^2
        =\frac{c(\pi+r)+c'\bar z+\zeta+\sigma}{c+c'},\qquad r=\bar t-\bar z-\gamma e-\eta

    All that is needed of the clients' :math:`\lambda_s,\alpha_s` is
    :math:`\pi_s=\rho_s\lambda_s+\tfrac1{N_s}e^\top\alpha_s`.
    """
    r = t_old - z_old - gamma - eta
    return np.asarray((c * (pi + r) + c1 * z_old + zeta + sigma) / (c + c1))


def update_t(
    t_old: Array,
    z_old: Array,
    eta: Array,
    gamma: float,
    sigma: Array,
    center: Array,
    theta: float,
    p: float,
    c: float,
    c1: float,
) -> Array:
    r""":math:`\mathfrak P_t` (equation operator_t); ``c1`` is :math:`c'`.

    .. math::
        \arg\min_t (\hat q+\sigma+c\,r)^\top t+\theta\|t\|_{p_*}+\tfrac{c'}2\|t-\bar t\|^2
        =u-\frac\theta{c'}\,\mathrm{Proj}_{\|\cdot\|_p\le1}\Big(\frac{c'}\theta u\Big),\qquad
        u=\bar t-\frac{\hat q+\sigma+c\,r}{c'}

    At :math:`\theta=0` it is u.
    """
    r = t_old - z_old - gamma - eta
    u = t_old - (center + sigma + c * r) / c1
    if theta == 0.0:
        return np.asarray(u)
    return np.asarray(u - theta / c1 * BALLS[p].project_ball(c1 / theta * u))


def update_eta(
    t: Array, z: Array, eta_old: Array, gamma_old: float, sigma: Array, c: float, c2: float
) -> Array:
    r""":math:`\mathfrak P_\eta` (equation operator_eta); ``c2`` is :math:`c''`.

    .. math::
        \arg\min_{\eta\ge0} -(\sigma+c\,r)^\top\eta+\tfrac{c''}2\|\eta-\bar\eta\|^2
        =\Big[\bar\eta+\frac{\sigma+c\,r}{c''}\Big]_+,\qquad r=t-z-\bar\gamma e-\bar\eta
    """
    return np.maximum(eta_old + (sigma + c * (t - z - gamma_old - eta_old)) / c2, 0.0)


def update_gamma(
    t: Array, z: Array, eta_old: Array, gamma_old: float, sigma: Array, c: float, c2: float
) -> float:
    r""":math:`\mathfrak P_\gamma` (equation operator_gamma); ``c2`` is :math:`c''`.

    .. math::
        \arg\min_\gamma -\gamma\,(1+e^\top(\sigma+c\,r))+\tfrac{c''}2(\gamma-\bar\gamma)^2
        =\bar\gamma+\frac{1+e^\top(\sigma+c\,r)}{c''},\qquad r=t-z-\bar\gamma e-\bar\eta
    """
    return gamma_old + (1.0 + float((sigma + c * (t - z - gamma_old - eta_old)).sum())) / c2


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
