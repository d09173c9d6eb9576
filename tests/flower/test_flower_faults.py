"""Replies that are spoiled, and a SuperNode that is killed: real processes."""

import numpy as np
import pytest

# Flower needs a machine that is not busy: it takes a client that needs 30 s to start for crashed.
pytestmark = pytest.mark.slow

SLOW = 4.0  # seconds that a site takes for a round, where somebody strikes in the middle


def test_bad_replies_are_refused_and_a_supernode_that_is_killed_comes_back(deployed):
    """NaN, another shape, a SuperNode killed in the middle of a round: the end is the same."""
    deployed.behave(slow=SLOW, r1="nan", r2="shape")
    deployed.run()
    deployed.in_the_middle(1)
    deployed.kill("node-north")
    deployed.supernode("north")
    result, here = deployed.end(), deployed.undisturbed()
    told = [failures.pop("west") for failures in result["failures"].values()]
    assert told[0] == "array 'value' has NaN or infinite entries"
    assert told[1].startswith("array 'value' must have shape (")
    assert not any(result["failures"].values())
    (one,), (two,) = result["models"], here["models"]
    assert one["status"]["kind"] == two["status"]["kind"] == "certified"
    np.testing.assert_allclose(one["coef"], two["coef"], atol=1e-3)
    assert "attempt" not in deployed.said("run")
