r"""From a robust model to the unpenalised one, and its covariance in three ways.

The target is :math:`\theta^*=\arg\min\sum_sq_sE_sL`. A robust model is shrunk, and intervals around
it are wrong. One step of Newton's method on :math:`\sum_sq_s\hat E_sL`,
:math:`\tilde\theta=\hat\theta-H^{-1}g`, takes the shrinkage away; it is repeated, with H and g
taken again, until the step is small against the standard error. Then

.. math:: \mathrm{cov}=H^{-1}VH^{-1},\qquad H=\sum_sq_sH_s,\qquad V=\sum_sq_s^2J_s

with the J of the rows ("robust"), of the information if the model is true ("model"), or
:math:`g_sg_s^T` of whole clients ("clustered").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import Norm

KINDS = ("model", "robust", "clustered")
MOST_ROUNDS = 40
SMALL = 1e-7
"""A step that is smaller, in standard errors, is none: the point is the minimiser."""
STILL = 1e-5
"""Nor may it be larger in itself. Where a column separates the classes of some rows, like a level
without any positive one, its coefficient has no end: steps of 1 while the curvature falls by e."""
SINGULAR = 1e-10


class InferenceError(ValueError):
    """Raised where there are no standard errors, with a sentence that says why."""


@dataclass(frozen=True, eq=False)
class ModelPieces:
    """What one client tells at a point; see `drfl.inference.protocol`.

    Attributes
    ----------
    total, squares : float
        The total weight of its rows, and the sum of the squares of their masses.
    loss : float
        Their mean loss.
    moments : array of shape (2,)
        The means of the squared slopes and of the curvatures of the loss.
    gradient, hessian, outer : arrays of shape (d,), (d, d), (d, d)
        g, H and, if it was asked for, J.
    """

    total: float
    squares: float
    loss: float
    moments: Array
    gradient: Array
    hessian: Array
    outer: Array | None

    def without(self, n: int) -> ModelPieces:
        """The same with the first n coefficients held as they are."""
        outer = None if self.outer is None else self.outer[n:, n:]
        return replace(self, gradient=self.gradient[n:], hessian=self.hessian[n:, n:], outer=outer)


Ask = Callable[[Array, bool], Mapping[str, ModelPieces]]
"""Everybody's pieces at a point, with J or without."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """The unpenalised model and its covariances; (w, b), in scaled units.

    Attributes
    ----------
    robust, point : arrays of shape (d,)
        The robust model, and the estimate.
    covariances : mapping of str to array of shape (d, d)
        By kind.
    refusals : mapping of str to str
        Why other kinds are not there.
    hessian, score_covariance : arrays of shape (d, d)
        H and the robust V at the estimate.
    weights, rows : dict of str to float
        q, and the total weight of the rows, by client.
    log_likelihood : float or None
        Of all rows, where the loss is that of a likelihood.
    steps : int
        So many were made.
    used : array of shape (d,)
        Which coefficients are estimated; the column of any other is zero in all rows that count,
        and it keeps its robust value.
    """

    robust: Array
    point: Array
    covariances: Mapping[str, Array]
    refusals: Mapping[str, str]
    hessian: Array
    score_covariance: Array
    weights: dict[str, float]
    rows: dict[str, float]
    log_likelihood: float | None
    steps: int
    used: NDArray[np.bool_]

    def to_dict(self) -> dict[str, Any]:
        """For the records of a run."""
        return {
            "robust": self.robust.tolist(),
            "point": self.point.tolist(),
            "covariances": {kind: cov.tolist() for kind, cov in self.covariances.items()},
            "refusals": dict(self.refusals),
            "weights": self.weights,
            "rows": self.rows,
            "log_likelihood": self.log_likelihood,
            "steps": self.steps,
            "used": self.used.tolist(),
        }


def require_curved(loss: Loss) -> None:
    """Refuse a loss that has no second derivative to speak of."""
    if not isinstance(loss, Loss) or loss.curvature_bound == 0.0:
        raise InferenceError(
            f"no standard errors: the loss {loss.name!r} has no second derivative; train with "
            "logistic, smooth_hinge or huber, or take the bootstrap intervals of the report"
        )


def corrected(
    ask: Ask,
    loss: Loss,
    x: Array,
    weights: Mapping[str, float],
    *,
    names: list[str] | None = None,
    own_intercepts: int = 0,
) -> Estimate:
    """Go from a robust model to the unpenalised one, and sum up what clients tell there.

    Parameters
    ----------
    ask : callable
        Asks the clients.
    loss : Loss
        With a second derivative.
    x : array of shape (d,)
        The robust model.
    weights : mapping of str to float
        q by client.
    names : list of str, optional
        Of the coefficients, for sentences.
    own_intercepts : int
        How many more coefficients every client has fitted for itself.
    """
    require_curved(loss)
    robust, steps = x.copy(), 0
    last, step = np.inf, np.zeros_like(x)
    for _ in range(MOST_ROUNDS):
        found = ask(x, False)
        q = _weights(weights, found)
        value = sum(w * piece.loss for w, piece in zip(q, found.values(), strict=True))
        if value > last + 1e-12 * max(1.0, abs(last)):  # too far: half of the step
            step = 0.5 * step
            x = x + step
            continue
        H = _mixed(q, [piece.hessian for piece in found.values()])
        g = _mixed(q, [piece.gradient for piece in found.values()])
        try:
            step, size = _step(H, g, names)
        except InferenceError:
            if steps == 0:
                raise
            break  # they were told apart where it began: probabilities have gone to 0 and 1
        scale = sum(w * w * piece.squares for w, piece in zip(q, found.values(), strict=True))
        small = float(np.max(np.abs(step) / np.sqrt(size * scale), initial=0.0)) <= SMALL
        if small and not _running(step, x).any():
            return _summed(ask(x, True), loss, robust, x, weights, steps, own_intercepts)
        x, last, steps = x - step, value, steps + 1
    far = [n for n, runs in zip(names or (), _running(step, x), strict=False) if runs]
    told = f", here {listed(far[:6])}" if far else ""
    raise InferenceError(
        "no standard errors: without the radius no minimum of the loss was found, as where columns "
        f"separate the classes{told}: leave columns out, join levels, or report the robust "
        "coefficients alone"
    )


def _running(step: Array, x: Array) -> NDArray[np.bool_]:
    """Which coefficients are still on their way."""
    return np.asarray(np.abs(step) > STILL * np.maximum(1.0, np.abs(x)))


def _weights(weights: Mapping[str, float], found: Mapping[str, ModelPieces]) -> list[float]:
    q = [float(weights[name]) for name in found]
    total = sum(q)
    return [w / total for w in q]


def _mixed(q: list[float], parts: list[Array]) -> Array:
    total = np.zeros_like(parts[0])
    for w, part in zip(q, parts, strict=True):
        total += w * part
    return total


def _step(H: Array, g: Array, names: list[str] | None) -> tuple[Array, Array]:
    """Newton's step, and the diagonal of the inverse; infinite where nothing is known."""
    inverse, used = _inverse(H, names), _used(H)
    return inverse @ g, np.where(used, np.diag(inverse), np.inf)


def _used(H: Array) -> NDArray[np.bool_]:
    """Columns with a row that counts: others, like a level that nobody has, are left out."""
    size = np.diag(H)
    return np.asarray(size > SINGULAR**2 * size.max(initial=0.0))


def _inverse(H: Array, names: list[str] | None) -> Array:
    """The inverse of H among the columns in use, 0 elsewhere; or a sentence about the columns."""
    at = np.flatnonzero(_used(H))
    if not len(at) or not np.isfinite(H).all():
        raise InferenceError("no standard errors: no row counts at the model")
    size, part = np.sqrt(np.diag(H)[at]), H[np.ix_(at, at)]
    values, vectors = np.linalg.eigh(part / np.outer(size, size))
    if values[0] <= SINGULAR * values[-1]:
        alike = [j for j in at[np.abs(vectors[:, 0]) > 0.1].tolist() if names and j < len(names)]
        told = ": " + ", ".join(names[j] for j in alike[:6]) if names and alike else ""
        raise InferenceError(
            "no standard errors: the rows that count do not tell these columns apart"
            f"{told}; leave one of them out"
        )
    inverse = np.zeros_like(H)
    inverse[np.ix_(at, at)] = (vectors / values) @ vectors.T / np.outer(size, size)
    return inverse


def _summed(
    found: Mapping[str, ModelPieces],
    loss: Loss,
    robust: Array,
    x: Array,
    weights: Mapping[str, float],
    steps: int,
    own_intercepts: int,
) -> Estimate:
    q, pieces = _weights(weights, found), list(found.values())
    H = _mixed(q, [piece.hessian for piece in pieces])
    inverse = _inverse(H, None)
    square = [w * w for w in q]
    V = {"robust": _mixed(square, [_outer(piece) for piece in pieces])}
    refusals = {}
    if not _equal(pieces):
        refusals["model"] = "model-based errors need rows of equal weight: take kind='robust'"
    elif loss.probabilistic:
        V["model"] = _mixed(square, [piece.squares * piece.hessian for piece in pieces])
    elif loss.task == "regression":
        # Errors alike everywhere: the mean square of the slopes over their mean curvature.
        noise = _mixed(q, [piece.moments for piece in pieces])
        ratio = float(noise[0] / noise[1])
        V["model"] = ratio * _mixed(square, [piece.squares * piece.hessian for piece in pieces])
    else:
        refusals["model"] = f"the loss {loss.name!r} is no likelihood: take kind='robust'"
    used = _used(H)
    rows, d, S = sum(piece.total for piece in pieces), int(used.sum()), len(pieces)
    d += S * own_intercepts
    if S < 2:
        refusals["clustered"] = "clustered errors need clients, and there is one: take 'robust'"
    else:
        factor = S / (S - 1) * (rows - 1.0) / max(rows - d, 1.0)
        outer = [np.outer(piece.gradient, piece.gradient) for piece in pieces]
        V["clustered"] = factor * _mixed(square, outer)
    covariances = {kind: inverse @ V[kind] @ inverse for kind in KINDS if kind in V}
    likelihood = -sum(p.total * p.loss for p in pieces) if loss.probabilistic else None
    return Estimate(
        robust=robust,
        point=x,
        covariances=covariances,
        refusals=refusals,
        hessian=H,
        score_covariance=V["robust"],
        weights=dict(zip(found, q, strict=True)),
        rows={name: piece.total for name, piece in found.items()},
        log_likelihood=likelihood,
        steps=steps,
        used=used,
    )


def _outer(piece: ModelPieces) -> Array:
    assert piece.outer is not None
    return piece.outer


def _equal(pieces: list[ModelPieces]) -> bool:
    """Whether all rows of every client weigh the same."""
    return all(abs(piece.squares * piece.total - 1.0) < 1e-9 for piece in pieces)


DRAWS = 20_000  # of the score, for a quantile


NO_TRUE_SLOPES = (
    "radius='confidence' is so large that a robust problem can find the true coefficients, and "
    "slopes between knots that somebody chose have none: give a number, or leave out additive"
)


def confidence_radius(
    estimate: Estimate, loss: Loss, norm: Norm, n_features: int, level: float = 0.95
) -> float:
    r"""A radius that is a statement of confidence, from draws with a fixed seed.

    With the radius :math:`\rho` the robust model's score may be off by :math:`\rho` in the ground
    norm before the model moves. The score at the truth is about normal, :math:`Z\sim N(0,PVP^T)`,
    with the intercept profiled out by :math:`P=[I,-H_{wb}/H_{bb}]`. So the true coefficients are
    among those that the robust problem could have found with probability :math:`1-\alpha` if
    :math:`\rho` is the :math:`(1-\alpha)` quantile of :math:`\|Z\|`, over the Lipschitz constant of
    the loss. Of the coefficients ``n_features`` are not the intercept; ``level`` is the confidence.
    """
    H, V, n = estimate.hessian, estimate.score_covariance, n_features
    P = np.eye(n)
    if len(H) > n and H[n, n] > 0.0:
        P = np.hstack([P, -H[:n, n:] / H[n, n]])
    values, vectors = np.linalg.eigh(P @ V @ P.T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    Z = np.random.default_rng(0).normal(size=(DRAWS, n)) @ root.T
    return float(np.quantile(norm(Z), level)) / loss.lipschitz
