"""What it costs to start: fresh interpreters, in turns, the best of each."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.suite.memory import one_thread
from benchmarks.suite.race import race
from benchmarks.suite.row import Row

SECTION = "startup"
REPEATS = 12
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def rows(options: argparse.Namespace) -> Iterator[Row]:
    ours, theirs = _imports("drfl", "sklearn.linear_model")
    yield Row(
        SECTION,
        "import drfl / import sklearn.linear_model",
        ours / theirs,
        at_most=1.3,
        detail=f"{ours:.3g} s against {theirs:.3g} s",
    )
    ours, theirs = _imports("drfl.estimators", "sklearn.linear_model")
    yield Row(
        SECTION,
        "import drfl.estimators / import sklearn.linear_model",
        ours / theirs,
        more_is_better=False,
        detail=f"{ours:.3g} s against {theirs:.3g} s: what `import drfl` puts off until it is used",
    )
    lanes = race(
        {
            "help": lambda: _python("-m", "drfl", "--help"),
            "import": lambda: _python("-c", "import sklearn.linear_model"),
        },
        REPEATS,
        time.perf_counter,
    )
    ours, theirs = lanes["help"].seconds, lanes["import"].seconds
    yield Row(
        SECTION,
        "drfl --help / import sklearn.linear_model",
        ours / theirs,
        at_most=1.5,
        detail=f"{ours:.3g} s against {theirs:.3g} s, both with the start of Python",
    )


def _imports(*modules: str) -> list[float]:
    """The best seconds of each import, as the interpreter itself sees them."""
    best = dict.fromkeys(modules, float("inf"))
    for _ in range(REPEATS):
        for module in modules:
            best[module] = min(best[module], float(_python("-c", IMPORT.format(module))))
    return list(best.values())


def _python(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments], env=one_thread(), capture_output=True, text=True, check=True
    ).stdout
