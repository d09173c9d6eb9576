"""Whether a result is what it says: checked with the exact objective alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import drfl
from kit.cases import Case

Array = NDArray[np.float64]

BOUND_TOL = 1e-9
"""Rounding that a lower bound may be above the best value known, relatively."""


def assert_honest(case: Case, result: drfl.Result) -> None:
    """Check that objective, losses and weights are those of the returned model."""
    losses = np.array(list(result.client_losses.values()))
    exact = np.array([part.value for part in case.parts(case.at(result))])
    floor = 1e-9 * case.exact(np.zeros(case.dimension))
    np.testing.assert_allclose(losses, exact, rtol=1e-9, atol=floor)
    np.testing.assert_allclose(result.objective, case.exact(case.at(result)), rtol=1e-9, atol=floor)
    q = np.array(list(result.weights.values()))
    assert case.resolved.contains(q), f"the weights {q} are not in Q"
    np.testing.assert_allclose(q @ losses, result.objective, rtol=1e-9, atol=floor)


def assert_bounded(case: Case, result: drfl.Result, *models: Array) -> None:
    """Check that none of the models is better than the proved lower bound."""
    at_zero = case.exact(np.zeros(case.dimension))
    for x in (case.at(result), np.zeros(case.dimension), *models):
        f = case.exact(x)
        assert result.lower_bound <= f + BOUND_TOL * max(abs(f), 1e-3 * at_zero), (
            f"the lower bound {result.lower_bound:.12g} is above f = {f:.12g} at {x}: "
            f"a false proof ({result.status})"
        )


def assert_optimal(case: Case, result: drfl.Result, x: Array, tol: float = 1e-6) -> None:
    """Check that a certified result is as good as the model x of another method, and honest."""
    assert result.status.kind == "certified", str(result.status)
    assert result.gap <= tol
    assert_honest(case, result)
    assert_bounded(case, result, x)
    ours, other = case.exact(case.at(result)), case.exact(x)
    scale = tol * max(abs(ours), 1e-3 * case.exact(np.zeros(case.dimension)))
    assert ours <= other + scale, f"the objective {ours:.12g} is not {other:.12g}"
    assert other <= ours + scale, f"the other method has {other:.12g}, not {ours:.12g}"
