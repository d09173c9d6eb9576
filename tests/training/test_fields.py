"""Settings, each read from a text of the command line or a value of a TOML file."""

import math

import pytest

from drfl.training import fields
from drfl.training.fields import Setting, read_values

READ = [
    (fields.number, "0.5", 0.5),
    (fields.number, "inf", math.inf),
    (fields.number, 3, 3.0),
    (fields.whole, "12", 12),
    (fields.whole, 12.0, 12),
    (fields.flag, "true", True),
    (fields.flag, False, False),
    (fields.texts, "a, b,,c", ("a", "b", "c")),
    (fields.texts, ["a"], ("a",)),
    (fields.pairs, "CA=mean, DOSE=drop", {"CA": "mean", "DOSE": "drop"}),
    (fields.probabilities, "0.5,0.2", (0.2, 0.5)),
    (fields.probabilities, 0.3, (0.3,)),
    (fields.groups, "sex,age:50,65", ("sex", "age:50,65")),
    (fields.groups, ["sex", "age:50,65"], ("sex", "age:50,65")),
    (fields.knots, "-1,0,1", (-1.0, 0.0, 1.0)),
    (fields.knots, "4", 4),
    (fields.radius, "auto", "auto"),
    (fields.radius, "NORTH=0.1,SOUTH=0.2", {"NORTH": 0.1, "SOUTH": 0.2}),
    (fields.center, "0.25,0.75", (0.25, 0.75)),
    (fields.center, "uniform", "uniform"),
    (fields.bounds, "AGE=0:120", {"AGE": (0.0, 120.0)}),
    (fields.bounds, {"AGE": [0, 120]}, {"AGE": (0.0, 120.0)}),
    (fields.intercept, "per_client", "per_client"),
    (fields.word_or("dp", fields.whole), "dp", "dp"),
    (fields.word_or("dp", fields.whole), "5", 5),
]
REFUSED = [
    (fields.text, "  ", "must be a text"),
    (fields.number, "many", "must be a number"),
    (fields.number, math.nan, "must be a number"),
    (fields.whole, "1.5", "must be a whole number"),
    (fields.whole, True, "must be a whole number"),
    (fields.flag, "yes", "must be true or false"),
    (fields.texts, [1], "must be a list of texts"),
    (fields.pairs, "mean", "write COLUMN=HOW"),
    (fields.probabilities, "0,1", "between 0 and 1"),
    (fields.radius, {"NORTH": "far"}, "of 'NORTH' must be a number"),
    (fields.center, 0.5, "uniform, proportional or a list"),
    (fields.bounds, "AGE=0", "must be two bounds"),
    (fields.bounds, "AGE=120:0", "the bound 120 is above 0"),
    (fields.one_of("mean", "drop"), "meen", "did you mean 'mean'"),
    (fields.intercept, "own", "unknown it"),
]


@pytest.mark.parametrize(("read", "given", "wanted"), READ)
def test_what_is_given_is_read(read, given, wanted):
    found = read("it", given)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(("read", "given", "sentence"), REFUSED)
def test_what_is_wrong_is_said_with_the_name(read, given, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        read("it", given)
    assert "it" in str(caught.value)


def test_a_table_of_settings_is_read_as_the_user_calls_them():
    known = {"max_rounds": Setting(200, fields.whole, "rounds")}
    assert read_values("setting", known, {"max_rounds": "7"}) == {"max_rounds": 7}
    with pytest.raises(ValueError, match=r"^--max-rounds must be a whole number"):
        read_values("setting", known, {"max_rounds": "x"}, {"max_rounds": "--max-rounds"}.get)
    with pytest.raises(ValueError, match="unknown setting 'rounds': did you mean 'max_rounds'"):
        read_values("setting", known, {"rounds": 3})
