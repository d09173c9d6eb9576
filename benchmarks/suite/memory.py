"""Peak memory of one job in a process of its own: what it needs beyond its data."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
EVERY = 0.002  # seconds between two looks


class Peak:
    """The largest resident size while the block runs, in bytes, and its growth."""

    def __enter__(self) -> Peak:
        self._process = psutil.Process()
        self.before = self.most = self._process.memory_info().rss
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._done.is_set():
            self.most = max(self.most, self._process.memory_info().rss)
            time.sleep(EVERY)

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._watch.join()
        self.most = max(self.most, self._process.memory_info().rss)

    @property
    def growth(self) -> int:
        return self.most - self.before


def in_process(*arguments: str, timeout: float = 900.0) -> list[str]:
    """Run ``python -m ARGUMENTS`` with one thread; the words of its last line."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=one_thread(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {last}")
    return done.stdout.splitlines()[-1].split()


def one_thread() -> dict[str, str]:
    """The environment of a job with one thread."""
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1")}
