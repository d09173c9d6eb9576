r"""Several classes at once: what is estimated is against one of them.

A model :math:`(W,b)` of K classes predicts the same as :math:`(W+1c^\top,b+\beta1)`, so that only
differences are estimated: :math:`\theta_k=(W_k-W_0,b_k-b_0)`, against the first class, in the order
of all :math:`W_k-W_0`, then all :math:`b_k-b_0`. Against another class it is a linear map of that,
and so is what is centred, :math:`\theta_k-\frac1K\sum_j\theta_j` with :math:`\theta_0=0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import lookup
from drfl.arrays import Array
from drfl.inference.estimate import Estimate
from drfl.inference.table import INTERCEPT, Inference
from drfl.problem import Problem


def parameters(problem: Problem, coef: Array, intercept: float | Array) -> Array:
    """What is estimated, from a model: (w, b), or all classes against the first."""
    if problem.classes is None:
        return np.append(coef, intercept)[: len(coef) + problem.shared_intercept]
    W, b = np.asarray(coef), np.broadcast_to(intercept, (problem.classes,))
    free = (W[1:] - W[0]).ravel()
    return np.append(free, b[1:] - b[0]) if problem.shared_intercept else free


def parameter_names(
    problem: Problem, names: Sequence[str], classes: Sequence[object] | None = None
) -> list[str]:
    """What these are called, in their order; the last of one score, its intercept, is left out."""
    if problem.classes is None:
        return list(names)
    others = (list(classes or range(problem.classes)))[1:]
    found = [f"{label}: {name}" for label in others for name in names]
    own = [f"{label}: {INTERCEPT}" for label in others] if problem.shared_intercept else []
    return found + own


def against(estimate: Estimate, problem: Problem, base: int) -> Estimate:
    """The same against another class, and class by class: w and b of each that is not the base."""
    assert problem.classes is not None
    K, f = problem.classes, len(estimate.point)
    order = _class_by_class(K, f, shared=problem.shared_intercept)
    M = np.kron(np.delete(_differences(K, base), base, axis=0), np.eye(f // (K - 1)))

    def moved(cov: Array) -> Array:
        return np.asarray(M @ cov[np.ix_(order, order)] @ M.T)

    return replace(
        estimate,
        robust=M @ estimate.robust[order],
        point=M @ estimate.point[order],
        covariances={kind: moved(cov) for kind, cov in estimate.covariances.items()},
        used=estimate.used[order],
    )


def class_table(
    estimate: Estimate,
    problem: Problem,
    names: Sequence[str],
    classes: Sequence[str],
    base: int,
    *,
    factors: Mapping[str, tuple[str, ...]],
    units: tuple[Array, Array] | None = None,
    **options: Any,
) -> Inference:
    """The table of all classes against one; a factor is a column in the scores of all of them.

    Parameters
    ----------
    estimate, problem
        Of several classes at once.
    names : sequence of str
        Of the coefficients of one class, without its intercept.
    classes : sequence of str
        What they are called.
    base : int
        The class that the others are against.
    factors : mapping of str to tuple of str
        The coefficients of every column.
    units : tuple of arrays (d, d) and (d,), optional
        As for `Inference.of`, of one class.
    options
        As for `Inference.of`.
    """
    others = [label for k, label in enumerate(classes) if k != base]
    every = [*names, INTERCEPT] if problem.shared_intercept else list(names)
    size = len(every)
    T, shift = (np.eye(size), np.zeros(size)) if units is None else units
    return Inference.of(
        against(estimate, problem, base),
        [f"{label}: {name}" for label in others for name in every],
        factors={
            column: tuple(f"{label}: {name}" for label in others for name in own)
            for column, own in factors.items()
        },
        units=(np.asarray(np.kron(np.eye(len(others)), T)), np.tile(shift, len(others))),
        **options,
    )


def base_of(classes: Sequence[str], wish: str | None) -> int:
    """The class that others are against: the first, or the one that is named."""
    return 0 if wish is None else lookup("class", wish, {c: k for k, c in enumerate(classes)})


def centred(estimate: Estimate, problem: Problem, k: int, n: int) -> tuple[Array, Array]:
    """The k-th class less the mean of all: n coefficients, and their robust covariance."""
    assert problem.classes is not None
    K = problem.classes
    row = np.eye(K)[k] - 1.0 / K
    M = np.kron(row[1:], np.eye(n))
    part = slice(0, (K - 1) * n)
    cov = estimate.covariances["robust"][part, part]
    return M @ estimate.point[part], M @ cov @ M.T


def _differences(K: int, base: int) -> Array:
    r""":math:`\theta_k-\theta_c` of all classes (K, K - 1), from those against the first."""
    return np.asarray((np.eye(K) - np.eye(K)[base])[:, 1:])


def _class_by_class(K: int, f: int, *, shared: bool) -> NDArray[np.intp]:
    """Places in the order of w and b of each class."""
    n = f // (K - 1) - shared
    W = np.arange((K - 1) * n).reshape(K - 1, n)
    b = (K - 1) * n + np.arange((K - 1) * shared).reshape(K - 1, int(shared))
    return np.hstack([W, b]).ravel()
