r"""The closed-form updates of the paper's Algorithm 1 (Section 5 and Appendix E).

The problem (4.3) is split as

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
"""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array
from drfl.norms import L1, L2, LInf, Norm

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
