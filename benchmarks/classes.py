"""All classes in one problem against one model for each against the rest.

    python benchmarks/classes.py [NAME ...]

Of iris, wine, digits and a synthetic data set: rounds and kilobytes per client (both ways, 1000
bytes) to the certified gap, processor seconds, and the accuracy on a third of the rows that was
held out. Five clients, rows divided at random. One thread.
"""

from __future__ import annotations

import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from _data import SEVERAL, five_classes
from sklearn.model_selection import train_test_split

from drfl.estimators import DRFLClassifier

CLIENTS, RADIUS, TOL = 5, 0.03, 1e-6


def measured(name: str, multiclass: str) -> tuple[int, float, float, float]:
    """Rounds, kilobytes per client, processor seconds and accuracy."""
    X, y = (
        SEVERAL[name](return_X_y=True)
        if name in SEVERAL
        else five_classes(np.random.default_rng(5))
    )
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0, stratify=y)
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    clients = np.random.default_rng(0).permutation(len(train)) % CLIENTS
    model = DRFLClassifier(radius=RADIUS, tol=TOL, multiclass=multiclass)
    start = time.process_time()
    model.fit(X[train], y[train], clients)
    seconds = time.process_time() - start
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    sent = sum(sum(b.values()) for r in results for b in (r.bytes_up, r.bytes_down))
    return model.n_rounds_, sent / CLIENTS / 1e3, seconds, model.score(X[test], y[test])


def main(names: list[str]) -> None:
    """Print a table."""
    print("| data | method | rounds | kB per client | processor s | accuracy |")
    for name in names or [*SEVERAL, "synthetic"]:
        for multiclass in ("joint", "ovr"):
            rounds, kilobytes, seconds, accuracy = measured(name, multiclass)
            print(
                f"| {name} | {multiclass} | {rounds} | {kilobytes:.0f} | {seconds:.1f} "
                f"| {accuracy:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
