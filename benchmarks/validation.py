"""What validation costs: processor time of `drfl train` over that of `drfl train --no-validation`.

python -m benchmarks.validation
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from experiments.hospitals import write_files


def write_numbers(folder: Path, rows: int = 10_000, columns: int = 40) -> list[Path]:
    """Four clients of logistic data."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=columns) / 6.0
    names = ",".join([*(f"x{j}" for j in range(columns)), "y"])
    files = []
    for client in range(4):
        X = rng.normal(size=(rows, columns))
        labels = np.where(X @ w + rng.logistic(size=rows) > 0.0, "yes", "no")
        rows_of = zip(X, labels, strict=True)
        lines = (",".join([*(f"{v:.4f}" for v in x), label]) for x, label in rows_of)
        path = folder / f"{client}.csv"
        path.write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
        files.append(path)
    return files


def seconds(files: list[Path], target: str, out: Path, *options: str) -> float:
    """Processor seconds of a training."""
    clients = [part for file in files for part in ("--client", str(file))]
    command = [sys.executable, "-m", "drfl", "train", *clients, "--target", target, "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    full = [*command, "--missing", "mean", "--out", str(out), *options]
    subprocess.run(full, check=True, env=environment, stderr=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> None:
    """Print a line for each case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = {
            "four hospitals": (list(write_files(folder / "hospitals").values()), "disease"),
            "4 x 10,000 rows, 40 columns": (write_numbers(folder), "y"),
        }
        for k, (case, (files, target)) in enumerate(cases.items()):
            plain = seconds(files, target, folder / f"plain{k}", "--no-validation")
            ratio = seconds(files, target, folder / f"validated{k}") / plain
            print(f"{case}: {ratio:.1f} times {plain:.1f} s")


if __name__ == "__main__":
    main()
