"""Settings of the whole test run."""

import os
import signal

# Before NumPy is loaded: one thread, so that sums are added in one order on every machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections import defaultdict
from zlib import crc32

import pytest
from hypothesis import settings

# The same examples on every run and machine; no timing assertions.
settings.register_profile("drfl", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("drfl")

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every program
# that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files of hospitals, and a run over them, for the tests of the program and of what it reads.
pytest_plugins = ["kit.hospitals"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test marked ``sampled(k)`` all cases but one in k, drawn by their names, are slow."""
    cases = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, k), every in cases.items():
        every.sort(key=lambda item: crc32(item.nodeid.encode()))
        for item in every[-(-len(every) // k) :]:
            item.add_marker(pytest.mark.slow)
