"""Number checks and the one sentence each of them has."""

import math

import numpy as np
import pytest

from drfl import checks


@pytest.mark.parametrize(
    ("value", "bounds", "sentence"),
    [
        ("1", {}, "a must be a number, got '1'"),
        (True, {}, "a must be a number, got True"),
        (math.nan, {}, "a must be a finite number, got nan"),
        (math.nan, {"infinite": True}, "a must be a number or inf, got nan"),
        (math.inf, {}, "a must be a finite number, got inf"),
        (math.inf, {"above": 0.0, "below": 2.0}, "a must be a finite number > 0 and < 2, got inf"),
        (0.0, {"above": 0.0}, "a must be a finite number > 0, got 0.0"),
        (2, {"least": 0.0, "most": 1.0}, "a must be a finite number >= 0 and <= 1, got 2"),
        (-1.0, {"least": 0.0, "infinite": True}, "a must be a number >= 0 or inf, got -1.0"),
        (10**400, {}, "a is too large a number"),
    ],
)
def test_a_number_out_of_bounds_is_refused(value, bounds, sentence):
    with pytest.raises((TypeError, ValueError)) as error:
        checks.number("a", value, **bounds)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (1.0, "a must be a whole number >= 1, got 1.0"),
        (np.True_, "a must be a whole number >= 1, got np.True_"),
        (0, "a must be a whole number >= 1, got 0"),
        (2**63, "a must be a whole number >= 1, got 9223372036854775808"),
    ],
)
def test_a_whole_number_out_of_bounds_is_refused(value, sentence):
    with pytest.raises((TypeError, ValueError)) as error:
        checks.whole("a", value, least=1)
    assert str(error.value) == sentence


def test_what_passes_is_returned_as_plain_python():
    found = checks.number("a", np.float32(0.5), least=0.5, most=0.5)
    assert (found, type(found)) == (0.5, float)
    assert checks.number("a", math.inf, above=0.0, infinite=True) == math.inf
    assert type(checks.whole("a", np.int64(3))) is int
    assert checks.flag("a", np.False_) is False
    assert checks.optional(checks.whole, "a", None, least=1) is None
    with pytest.raises(ValueError, match="a must be None or a whole number >= 1, got 0"):
        checks.optional(checks.whole, "a", 0, least=1)
