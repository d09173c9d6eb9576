r"""The intercepts that a client finds for itself, of K scores at once; labels stay.

:math:`F_s(W)=\min_bF_s(W,b)`, b in R^K. A cut of F that does not speak of b needs shares
:math:`p_i` in the simplex whose means are those of the classes,

.. math:: \sum_im_ip_i=\pi,\qquad \pi_k=\sum_{y_i=k}m_i,

with the masses :math:`m_i`: then :math:`\sum_im_i(c(p_i)+\langle p_i-e_{y_i},z_i\rangle)` is below
the mean loss for every b, c being the `level` of the loss. For the cross-entropy the shares are the
probabilities at the best b, which Newton's method finds (`balanced`); the cut touches. For the loss
of Crammer and Singer they are those of :math:`\tau\log\sum_je^{(z_j+[j\ne y])/\tau}`, followed
while :math:`\tau` falls: the cut is below the loss by at most :math:`\tau\log K`, and by less,
since only rows at a kink count.

A class without rows here has its best intercept at minus infinity: the largest is taken at which it
has a share of nothing, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.losses.joint import raised_scores, softmax
from drfl.worst_case.joint import JointOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.own_intercept import middle_intercept

LEVEL = 1e-15  # a difference of class shares that is smaller is rounding
FAINT = 36.0  # minus the logarithm of a share that is nothing
MOST = 200  # steps of Newton's method
ROUNDING = 1e-14
SHARPEST = 1e-9  # the last tau, in units of the scores
SHARPER = 0.2  # from one tau to the next


@dataclass(frozen=True)
class JointBalance:
    """The best intercepts of a client."""

    b: Array  # (K,), adding up to 0
    # (K, N), in the simplex for every row, with the means of the classes: slopes plus own class
    # of a cut that does not speak of b
    shares: Array


def joint_balance(oracle: JointOracle, z: Array) -> JointBalance:
    """The best intercepts for scores z (K, N) without any."""
    masses = np.broadcast_to(np.asarray(oracle.rows.mass()), z.shape[1:])
    classes = oracle.class_masses
    if not oracle.loss.kinks:
        b, shares = balanced(z, masses, classes)
        return JointBalance(b - b.mean(), shares)
    return _sharpened(raised_scores(z, oracle.y), masses, classes)


def own_intercepts(oracle: Oracle, w: Array) -> Array:
    """The best intercepts of a client's rows: (K,) for W (K, n), and (1,) for one score.

    Where several are equally good, in the middle (one score).
    """
    if not isinstance(oracle, JointOracle):
        return np.array([middle_intercept(oracle, w.ravel())])
    return joint_balance(oracle, oracle.rows.scores_many(w, np.zeros(len(w)))).b


def balanced(z: Array, masses: Array, target: Array) -> tuple[Array, Array]:
    r"""The b (K,) with :math:`\sum_im_i\,\mathrm{softmax}(z_i+b)=` ``target``, and these shares.

    With the target t it minimises :math:`\sum_im_i\log\sum_je^{z_{ij}+b_j}-\langle t,b\rangle`, and
    is unique up to a constant; where a target is 0 its class has b so low that nothing is left.

    Parameters
    ----------
    z : array of shape (K, N)
        Scores.
    masses : array of shape (N,)
        Of the rows; they add up to 1.
    target : array of shape (K,)
        What the shares add up to; as much as the masses.
    """
    there = np.flatnonzero(target > 0.0)
    b = np.zeros(len(z))
    z = z - z.max(axis=0)  # a row's level plays no part, and would hide its digits
    b[there] = _newton(z[there], masses, target[there] / target[there].sum())
    absent = np.flatnonzero(target <= 0.0)
    if len(absent):
        top = _log_sums(z[there] + b[there, None])
        b[absent] = (top - z[absent]).min(axis=1) - FAINT
    shares = np.zeros_like(z)
    shares[there] = softmax(z[there] + b[there, None])
    return b, shares


def _newton(z: Array, masses: Array, target: Array) -> Array:
    """`balanced` where every target is positive: damped steps on a convex function."""
    b, reach = np.zeros(len(z)), 5.0
    value, last = _potential(z, masses, target, b), np.inf
    for _ in range(MOST):
        p = softmax(z + b[:, None])
        g = p @ masses - target
        size = float(np.abs(g).max())
        if size <= LEVEL or (size <= 1e3 * LEVEL and size >= 0.5 * last):
            break
        last, step = size, _step(p, masses, g)
        longest = float(np.abs(step).max())
        step *= min(1.0, reach / longest)
        reach = 4.0 * reach if longest > reach else 5.0
        b, value = _descended(z, masses, target, b, step, value)
    return b


def _step(p: Array, masses: Array, g: Array) -> Array:
    """Newton's step; H is a sum over pairs of classes, so that nothing cancels."""
    H = -(p * masses) @ p.T
    np.fill_diagonal(H, 0.0)
    np.fill_diagonal(H, -H.sum(axis=1))
    size = np.sqrt(np.maximum(np.diag(H), 1e-280))
    scaled = H / np.outer(size, size) + np.outer(size, size) / (size @ size)
    return np.asarray(np.linalg.solve(scaled + ROUNDING * np.eye(len(g)), g / size) / size)


def _descended(
    z: Array, masses: Array, target: Array, b: Array, step: Array, value: float
) -> tuple[Array, float]:
    """The longest of halved steps that does not go up."""
    for halvings in range(40):
        moved = b - 0.5**halvings * step
        found = _potential(z, masses, target, moved)
        if found <= value + 1e-15 * abs(value):
            break
    return moved - moved.mean(), found


def _potential(z: Array, masses: Array, target: Array, b: Array) -> float:
    return float(masses @ _log_sums(z + b[:, None]) - target @ b)


def _log_sums(z: Array) -> Array:
    top = z.max(axis=0)
    return np.asarray(top + np.log(np.exp(z - top).sum(axis=0)))


def _sharpened(raised: Array, masses: Array, target: Array) -> JointBalance:
    """The best intercepts of the largest of scores, by ever sharper maxima."""
    unit = max(float(np.ptp(raised)), 1e-6)
    tau, b, before = unit, np.zeros(len(raised)), None
    while True:
        shift, shares = balanced((raised + b[:, None]) / tau, masses, target)
        found = b + tau * shift
        if tau <= SHARPEST * unit:
            break
        # The best b is about linear in tau: so the next ones are begun where they will be.
        slope = np.zeros(len(b)) if before is None else (before[1] - found) / (before[0] - tau)
        before = (tau, found)
        b, tau = found - (1.0 - SHARPER) * tau * slope, SHARPER * tau
    found = _raised_again(raised, found, target)
    return JointBalance(found - found.mean(), shares)


def _raised_again(raised: Array, b: Array, target: Array) -> Array:
    """Classes without rows as high as they do no harm."""
    there, absent = target > 0.0, np.flatnonzero(target <= 0.0)
    top = (raised[there] + b[there, None]).max(axis=0)
    b[absent] = (top - raised[absent]).min(axis=1)
    return b
