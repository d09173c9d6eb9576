"""Mixing proofs: as good as the best mixture of all, and never better."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from drfl.solvers.certificate.frontier import Frontier

numbers = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(-1, 1))


def best_mixture(pairs):
    """The largest constant of a mixture whose slack is not negative; 0 can always be had."""
    C, slack = np.append(pairs[:, 0], 0.0), np.append(pairs[:, 1], 0.0)
    one = np.ones((1, len(C)))
    return -linprog(-C, A_ub=-slack[None], b_ub=[0.0], A_eq=one, b_eq=[1.0]).fun


@given(numbers)
def test_the_best_of_all_bounds_is_the_best_mixture(pairs):
    pairs = np.round(pairs, 6)  # no slack that is zero up to rounding
    frontier = Frontier()
    found = max(0.0, *(frontier.bound(C, slack) for C, slack in pairs))
    assert abs(found - best_mixture(pairs)) <= 1e-7


@given(numbers)
def test_what_no_mixture_needs_is_forgotten(pairs):
    frontier = Frontier()
    for C, slack in np.round(pairs, 2):
        frontier.bound(C, slack)
    slacks, constants = np.array(frontier.pairs).T
    assert (np.diff(slacks) > 0.0).all()
    assert (np.diff(constants) < 0.0).all()
    falls = np.diff(constants) / np.diff(slacks)
    assert (np.diff(falls) < 0.0).all()
