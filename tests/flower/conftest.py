"""Flower is loaded here, where a warning of what it loads is not ours; two sites over it."""

import warnings

import pytest

from kit.real_flower import Faulty

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.clientapp
    import flwr.serverapp  # noqa: F401


@pytest.fixture
def deployed(tmp_path):
    made = Faulty(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()
