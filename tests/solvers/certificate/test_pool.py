"""The pool: thousands of clients are taken in at once, as if they came one by one."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfl.solvers.certificate.cuts import Pool
from kit.pools import family_cuts

d = 3


def _told(rng, clients, family, P, G, masses=None):
    shape = len(clients), P, G
    return family_cuts(
        clients,
        rng.normal(size=shape),
        rng.normal(size=(*shape, d)),
        masses=rng.dirichlet(np.ones(G), len(clients)) if masses is None else masses,
        family=family,
        kept=rng.random(shape) < 0.8,
    )


def _alone(told, s):
    """What one of the clients told, if anything."""
    at = np.flatnonzero(told.clients == s)
    own = ("clients", "masses", "c", "g", "slope", "lift", "kept")
    return [replace(told, **{name: getattr(told, name)[at] for name in own})] if len(at) else []


def _tables(pool):
    cuts = [getattr(pool.cuts, field.name) for field in fields(pool.cuts)]
    return *cuts, pool.cut_client, pool.family_client, pool.piece_family, pool.piece_share


@given(seed=st.integers(0, 2**20), S=st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_all_at_once_is_one_by_one(seed, S):
    """The same numbers of cuts, pieces and families, round by round."""
    rng, together, alone = np.random.default_rng(seed), Pool(S, d), Pool(S, d)
    for _ in range(3):
        some, others = rng.random((2, S)) < 0.7
        told = [
            _told(rng, np.flatnonzero(some), 1, 2, 1),
            _told(rng, np.flatnonzero(~some), 3, 2, 3),
            _told(rng, np.flatnonzero(others), -1, 1, 2),
        ]
        together.add(told)
        for s in range(S):
            alone.add([own for every in told for own in _alone(every, s)])
        for one, other in zip(_tables(together), _tables(alone), strict=True):
            np.testing.assert_array_equal(one, other)


def test_masses_are_those_of_the_first_time():
    rng, pool = np.random.default_rng(0), Pool(4, d)
    first, later = rng.dirichlet(np.ones(3), (2, 2))
    pool.add([_told(rng, [1, 3], 3, 1, 3, first)])
    pool.add([_told(rng, [0, 3], 3, 1, 3, later)])
    assert pool.knows(3).tolist() == [True, True, False, True]
    assert not pool.knows(1).any()
    found = pool.shares(np.arange(4), 3, 3, 0.5)
    assert found == pytest.approx(np.array([later[0], first[0], np.full(3, 0.5), first[1]]))
