r"""The paper's three data sets and four hospitals, read from the package.

Scaled features are affine images of the raw ones,

.. math:: x_j \mapsto 2\,\frac{x_j-\min x_j}{\max x_j-\min x_j}-1 \in [-1,1],

with minimum and maximum over the rows returned. They equal LIBSVM's ``heart_scale``,
``breast-cancer_scale`` and ``abalone_scale``, which keep six digits, within 1e-6.
"""

from __future__ import annotations

import csv
import gzip
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array

if TYPE_CHECKING:
    from sklearn.utils import Bunch


# Feature, lowest and highest raw value in the 270 rows, decimals of the raw value.
_HEART = (
    ("age", 29.0, 77.0, 0),
    ("sex", 0.0, 1.0, 0),
    ("chest_pain_type", 1.0, 4.0, 0),
    ("resting_blood_pressure", 94.0, 200.0, 0),
    ("serum_cholesterol", 126.0, 564.0, 0),
    ("fasting_blood_sugar", 0.0, 1.0, 0),
    ("resting_ecg", 0.0, 2.0, 0),
    ("max_heart_rate", 71.0, 202.0, 0),
    ("exercise_angina", 0.0, 1.0, 0),
    ("oldpeak", 0.0, 6.2, 1),
    ("st_slope", 1.0, 3.0, 0),
    ("major_vessels", 0.0, 3.0, 0),
    ("thal", 3.0, 7.0, 0),
)
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_BREAST_CANCER = (
    "clump_thickness",
    "uniformity_of_cell_size",
    "uniformity_of_cell_shape",
    "marginal_adhesion",
    "single_epithelial_cell_size",
    "bare_nuclei",
    "bland_chromatin",
    "normal_nucleoli",
    "mitoses",
)
_ABALONE = (
    "sex",
    "length",
    "diameter",
    "height",
    "whole_weight",
    "shucked_weight",
    "viscera_weight",
    "shell_weight",
)
_ABALONE_SEX = {"M": 1.0, "F": 2.0, "I": 3.0}  # LIBSVM's code


def load_heart(*, scaled: bool = True) -> Bunch:
    """Load Statlog heart: 270 patients, 13 features; the target is heart disease.

    Parameters
    ----------
    scaled : bool, default=True
        Features in [-1, 1]; if False, in their original units.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (270, 13) float64; ``target`` (270,) int, +1 = disease present, -1 = absent;
        ``feature_names``; ``target_names`` of the labels -1, +1; ``DESCR``.

    Examples
    --------
    >>> heart = load_heart(scaled=False)
    >>> heart.feature_names[0], float(heart.data[0, 0]), int(heart.target[0])
    ('age', 70.0, 1)
    """
    names, low, high, decimals = zip(*_HEART, strict=True)
    X, y = _read_libsvm("heart_scale.gz", n_features=len(names))
    # The file is scaled, so the raw value is the inverse image, rounded to its known resolution.
    X = np.asarray(low) + 0.5 * (X + 1.0) * np.subtract(high, low)
    tens = 10.0 ** np.asarray(decimals)
    X = np.rint(X * tens) / tens
    return _bunch("heart", X, y, names, scaled, target_names=("absent", "present"))


def load_breast_cancer(*, scaled: bool = True, include_id: bool = False) -> Bunch:
    """Load Breast Cancer Wisconsin (Original): 683 samples, 9 features; the target is malignancy.

    The 16 of 699 samples with a missing value are left out, as in LIBSVM's file.

    Parameters
    ----------
    scaled : bool, default=True
        Features in [-1, 1]; if False, the original grades 1 to 10.
    include_id : bool, default=False
        Put the sample number in front, as in LIBSVM's file. Scaled it is nearly constant and acts
        as an intercept; it says nothing about the tumour.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (683, 9), or (683, 10) with the id, float64; ``target`` (683,) int,
        +1 = malignant (LIBSVM's 4), -1 = benign (LIBSVM's 2); ``feature_names``;
        ``target_names`` of the labels -1, +1; ``DESCR``.

    Examples
    --------
    >>> load_breast_cancer(include_id=True).feature_names[:2]
    ['id', 'clump_thickness']
    """
    rows = list(csv.reader(_read("breast-cancer-wisconsin.csv.gz").splitlines()))[1:]
    complete = [row for row in rows if "" not in row]
    X = np.array([row[:-1] for row in complete], dtype=np.float64)
    y = np.array([1 if row[-1] == "malignant" else -1 for row in complete])
    names: tuple[str, ...] = ("id", *_BREAST_CANCER)
    if not include_id:
        X, names = X[:, 1:], names[1:]
    return _bunch("breast_cancer", X, y, names, scaled, target_names=("benign", "malignant"))


def load_abalone(*, scaled: bool = True) -> Bunch:
    """Load Abalone: 4177 shells, 8 features; the target is the number of rings.

    Parameters
    ----------
    scaled : bool, default=True
        Features in [-1, 1]; if False, in the units of UCI's file (200 mm, 200 g).
        Sex is coded M = 1, F = 2, I = 3 before scaling. Rings are never scaled.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (4177, 8) float64; ``target`` (4177,) float64, the rings; ``feature_names``;
        ``DESCR``.

    Examples
    --------
    >>> abalone = load_abalone()
    >>> abalone.data.shape, float(abalone.target[0])
    ((4177, 8), 15.0)
    """
    rows = csv.reader(_read("abalone.data.gz").splitlines())
    table = np.array([[_ABALONE_SEX[row[0]], *map(float, row[1:])] for row in rows])
    return _bunch("abalone", table[:, :-1], table[:, -1], _ABALONE, scaled)


def load_four_hospitals() -> Bunch:
    """Load heart disease at four hospitals: 920 patients, 13 features, with gaps.

    Returns
    -------
    sklearn.utils.Bunch
        ``data`` (920, 13) float64 in original units, NaN where a value is missing; ``target``
        (920,) int, +1 = disease, -1 = none; ``hospital`` (920,) str, the client of each row;
        ``feature_names``; ``target_names`` of the labels -1, +1; ``DESCR``.

    Examples
    --------
    >>> hearts = load_four_hospitals()
    >>> {str(name): int((hearts.hospital == name).sum()) for name in np.unique(hearts.hospital)}
    {'cleveland': 303, 'hungarian': 294, 'switzerland': 123, 'va': 200}
    """
    names = [name for name, *_ in _HEART]
    rows = [
        [*row, hospital]
        for hospital in HOSPITALS
        for row in csv.reader(_read(f"processed.{hospital}.data.gz").splitlines())
    ]
    table = np.array([[np.nan if v == "?" else float(v) for v in row[:-1]] for row in rows])
    X, y = table[:, :-1], np.where(table[:, -1] > 0.0, 1, -1)
    for name in ("serum_cholesterol", "resting_blood_pressure"):
        column = X[:, names.index(name)]
        column[column == 0.0] = np.nan  # nobody has none: it was not measured
    bunch = _bunch("four_hospitals", X, y, tuple(names), False, target_names=("none", "disease"))
    bunch.hospital = np.array([row[-1] for row in rows])
    return bunch


def _bunch(
    name: str,
    X: Array,
    y: NDArray[Any],
    names: tuple[str, ...],
    scaled: bool,
    **extra: tuple[str, ...],
) -> Bunch:
    # Here, because importing scikit-learn is slow and imports pandas where that is installed.
    from sklearn.utils import Bunch

    return Bunch(
        data=_min_max(X) if scaled else np.ascontiguousarray(X),
        target=y.copy(),
        feature_names=list(names),
        DESCR=(files("drfl.datasets") / "data" / f"{name}.md").read_text(encoding="utf-8"),
        **{key: np.array(value) for key, value in extra.items()},
    )


def _min_max(X: Array) -> Array:
    low, high = X.min(axis=0), X.max(axis=0)
    return np.ascontiguousarray(2.0 * (X - low) / (high - low) - 1.0)


def _read(name: str) -> str:
    return gzip.decompress((files("drfl.datasets") / "data" / name).read_bytes()).decode("ascii")


def _read_libsvm(name: str, n_features: int) -> tuple[Array, NDArray[np.int64]]:
    lines = [line.split() for line in _read(name).splitlines()]
    X = np.zeros((len(lines), n_features))  # zeros are not written in the file
    for x, (_, *entries) in zip(X, lines, strict=True):
        for entry in entries:
            column, value = entry.split(":")
            x[int(column) - 1] = float(value)
    return X, np.array([int(line[0]) for line in lines], dtype=np.int64)
