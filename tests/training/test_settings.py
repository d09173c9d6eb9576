"""Settings: what is written as TOML is read back."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drfl.training.settings import FIELDS, Settings, read_settings, to_toml

words = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1).filter(
    lambda word: word.strip() and word not in (".", "..")
)
numbers = st.floats(allow_nan=False)


@given(
    st.dictionaries(words, words, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {"target": words},
        optional={
            "exclude": st.lists(words).map(tuple),
            "radius": st.one_of(st.just("auto"), numbers, st.dictionaries(words, numbers)),
            "label_cost": st.just(math.inf) | numbers,
            "mixture_center": st.sampled_from(["uniform", (0.5, 0.5)]),
            "intercept": st.sampled_from(["shared", "none", "per_client"]),
            "support": st.dictionaries(words, st.just((-math.inf, 3.0))),
            "max_rounds": st.integers(1, 10**6),
            "loss": words,
        },
    ),
)
def test_toml_is_read_back(tmp_path_factory, clients, values):
    path = tmp_path_factory.mktemp("s") / "s.toml"
    files = {name: Path("/data") / file for name, file in clients.items()}
    settings = Settings(files, values)
    path.write_text(to_toml(settings), encoding="utf-8")
    again = read_settings(path, {}, [])
    assert again.clients == settings.clients
    assert again.all() == settings.all()


def test_every_setting_has_a_line_of_help():
    assert all(field.help for field in FIELDS.values())
