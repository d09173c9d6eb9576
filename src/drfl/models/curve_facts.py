"""The curves of an additive model as a reader sees them: in the units of the files, with bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.inference import Estimate
from drfl.inference.classes import centred
from drfl.metrics.probabilities import HALF
from drfl.models.document import Model

PLACES = 41  # at which a band is drawn

Estimated = tuple[Array, Array]  # unpenalised slopes (n',), and their covariance (n', n')


def slope_estimates(model: Model, found: Mapping[int, Estimate]) -> dict[int, Estimated]:
    """Of every score, from the estimates of the problems; several classes at once are centred."""
    n, problem = model.coef.shape[1], model.problem
    if problem.classes is not None:
        every = range(problem.classes) if 0 in found else ()
        return {k: centred(found[0], problem, k, n) for k in every}
    return {k: (e.point[:n], e.covariances["robust"][:n, :n]) for k, e in found.items()}


def curve_facts(
    model: Model,
    *,
    estimates: Mapping[int, Estimated] | None = None,
    lines: Array | None = None,
    rows: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    r"""Every curve as points, for the records and the report; all are 0 at the column's mean.

    Beyond its knots a curve is shown for one standard deviation more. Where clients scale their
    rows by themselves the units are standard deviations. With :math:`r(x)` the ramps of a column
    less those at its mean, the unpenalised curve is :math:`\langle\tilde s,r(x)\rangle` and its
    standard error :math:`\sqrt{r(x)^\top Cr(x)}`: nothing at the mean, and more where rows are few.

    Parameters
    ----------
    model : Model
        With curves; others have none.
    estimates : mapping of int to Estimated, optional
        Of the models that have them.
    lines : array of shape (K, n), optional
        The coefficients of linear models that are drawn beside.
    rows : sequence of int, optional
        Rows in every piece (n',).
    """
    curves, facts = model.problem.curves, list[dict[str, Any]]()
    if curves is None:
        return facts
    for k, slopes in enumerate(model.coef):
        for j in np.flatnonzero(curves.sizes > 1).tolist():
            knots, (shift, scale) = np.array(curves.knots[j]), _units(model, j)
            z = np.unique(np.concatenate([[knots[0] - 1.0, 0.0], knots, [knots[-1] + 1.0]]))
            fact = {
                "model": k,
                "name": model.features[j],
                "rules": list(curves.shapes[j]),
                "x": (z * scale + shift).tolist(),
                "y": (_rise(curves, j, z) @ slopes[curves.of(j)]).tolist(),
                "knots": (knots * scale + shift).tolist(),
            }
            if lines is not None:
                fact["line"] = (lines[k, j] * z).tolist()
            if rows is not None:
                fact["rows"] = [int(count) for count in rows[curves.of(j)]]
            if estimates and k in estimates:
                places = np.unique(np.concatenate([z, np.linspace(z[0], z[-1], PLACES)]))
                band = _band(curves, j, places, *estimates[k])
                fact["band"] = {"x": (places * scale + shift).tolist(), **band}
            facts.append(fact)
    return facts


def _units(model: Model, j: int) -> tuple[float, float]:
    if model.scale == "per-client":
        return 0.0, 1.0
    shift, scale = model.scaling(np.zeros((1, len(model.features))))
    return float(shift[j]), float(scale[j])


def _rise(curves: Curves, j: int, z: Array) -> Array:
    """The ramps of a column at z less those at 0, (Z, pieces)."""
    at = np.arange(curves.n_slopes)[curves.of(j)]
    both = curves.ramps(np.repeat(np.append(z, 0.0)[:, None], len(at), axis=1), at)
    return np.asarray(both[:-1] - both[-1])


def _band(curves: Curves, j: int, z: Array, slopes: Array, covariance: Array) -> dict[str, Any]:
    rise, at = _rise(curves, j, z), curves.of(j)
    middle = rise @ slopes[at]
    half = HALF * np.sqrt(np.maximum(np.einsum("zp,pq,zq->z", rise, covariance[at, at], rise), 0.0))
    return {"y": middle.tolist(), "low": (middle - half).tolist(), "high": (middle + half).tolist()}
