"""Settings of the whole test run."""

import os
import signal

# Before NumPy is loaded: one thread, so that sums are added in one order on every machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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
