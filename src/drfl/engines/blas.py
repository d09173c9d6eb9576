"""One BLAS thread for what a client computes, on every engine.

With several threads a product is summed in parts, and the parts depend on how many threads there
are: the same rows would give other last digits on another machine or another engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

# Read by the libraries when they are loaded; the same names on every platform.
VARIABLES = (
    "BLIS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class _Here:
    """The limit in this process: it holds as long as anyone wants it.

    The number of threads belongs to the process, not to a thread of it: two runs at once must not
    lift each other's limit.
    """

    def __init__(self) -> None:
        self.lock, self.wanted = Lock(), 0
        self.libraries: list[Any] | None = None
        self.before: list[tuple[Any, int]] = []

    def want(self) -> None:
        with self.lock:
            if self.wanted == 0:
                many = [(each, each.get_num_threads()) for each in self._libraries()]
                self.before = [(each, number) for each, number in many if number != 1]
                for each, _ in self.before:
                    each.set_num_threads(1)
            self.wanted += 1

    def _libraries(self) -> list[Any]:
        if self.libraries is None:
            # SciPy brings a BLAS of its own, which must be loaded to be found. The search takes
            # milliseconds, too long for every round.
            import scipy.linalg  # noqa: F401

            self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return self.libraries

    def release(self) -> None:
        with self.lock:
            self.wanted -= 1
            if self.wanted == 0:
                for each, number in self.before:
                    each.set_num_threads(number)


_here, _environment = _Here(), Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Compute with one BLAS thread in this process."""
    _here.want()
    try:
        yield
    finally:
        _here.release()


@contextmanager
def one_blas_thread_in_children() -> Iterator[None]:
    """Processes started here have one BLAS thread.

    It goes by the environment, because a child loads NumPy before it runs a line of ours, and the
    library makes its threads when it is loaded.
    """
    with _environment:
        before = {name: os.environ.get(name) for name in VARIABLES}
        os.environ.update(dict.fromkeys(VARIABLES, "1"))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
