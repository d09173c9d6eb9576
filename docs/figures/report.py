"""Draw docs/figures/report.png: the upper part of a report about heart patients of three hospitals.

    python docs/figures/report.py

It needs Chromium on the path. The page itself stays beside the picture only if a path is given:

    python docs/figures/report.py report.html
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drfl
from drfl.datasets import load_heart, partition

NAMES = ("north", "south", "west")
SIZE = (1000, 1560)


def write_report(path: Path) -> Path:
    """Train on three hospitals, one of which measures badly, and write the report."""
    rng = np.random.default_rng(0)
    heart = load_heart(scaled=False)
    X = pd.DataFrame(heart.data, columns=heart.feature_names)
    y = np.where(heart.target > 0, "disease", "none")
    hospital = np.empty(len(y), dtype=object)
    for name, rows in zip(NAMES, partition.random(len(y), len(NAMES), rng), strict=True):
        hospital[rows] = name
    noise = rng.normal(size=X.shape) * X.std().to_numpy()
    X += noise * (hospital == "north")[:, None]
    robust = drfl.DRFLClassifier(radius=0.05, mixture_radius=0.2)
    model = make_pipeline(StandardScaler(), robust)
    model.fit(X, y, drflclassifier__clients=hospital)
    return drfl.report(model, path, X, y, hospital)


def photograph(page: Path, picture: Path) -> None:
    """Let a headless Chromium draw the page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("there is no Chromium on the path: install it first")
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}"]
        command = [browser, *flags, f"--screenshot={picture}", page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    target = Path(__file__).with_suffix(".png")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "report.html"
        photograph(write_report(wanted), target)
    print(f"wrote {target}")
