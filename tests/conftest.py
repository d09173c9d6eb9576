"""Settings of the whole test run."""

import os

# Before NumPy is loaded: one thread, so that sums are added in one order on every machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

# The same examples on every run and machine; no timing assertions.
settings.register_profile("drfl", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("drfl")
