"""The bundled data against rows of the public files, typed here, and a second parser."""

import gzip
import hashlib
import re
from importlib.resources import files

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from drfl import datasets
from drfl.datasets import load_abalone, load_breast_cancer, load_four_hospitals, load_heart

LOADERS = [load_heart, load_breast_cancer, load_abalone]
DATA = files("drfl.datasets") / "data"

# Row, label and features as UCI's heart.dat, breast-cancer-wisconsin.data and abalone.data
# print them (class 2 of heart is "present").
HEART_RAW = [
    (0, 1, [70, 1, 4, 130, 322, 0, 2, 109, 0, 2.4, 2, 3, 3]),
    (1, -1, [67, 0, 3, 115, 564, 0, 2, 160, 0, 1.6, 2, 0, 7]),
    (2, 1, [57, 1, 2, 124, 261, 0, 0, 141, 0, 0.3, 1, 0, 7]),
    (-1, 1, [67, 1, 4, 160, 286, 0, 2, 108, 1, 1.5, 2, 3, 3]),
]
BREAST_CANCER_RAW = [
    (0, -1, [1000025, 5, 1, 1, 1, 2, 1, 3, 1, 1]),
    (1, -1, [1002945, 5, 4, 4, 5, 7, 10, 3, 2, 1]),
    (5, 1, [1017122, 8, 10, 10, 8, 7, 10, 9, 7, 1]),
    (-1, 1, [897471, 4, 8, 8, 5, 4, 5, 10, 4, 1]),
]
ABALONE_RAW = [
    (0, 15, [1, 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15]),
    (2, 9, [2, 0.53, 0.42, 0.135, 0.677, 0.2565, 0.1415, 0.21]),
    (4, 7, [3, 0.33, 0.255, 0.08, 0.205, 0.0895, 0.0395, 0.055]),
    (-1, 12, [1, 0.71, 0.555, 0.195, 1.9485, 0.9455, 0.3765, 0.495]),
]
# The same in LIBSVM's scaled files, which omit zeros.
HEART_SCALE = [
    (
        0,
        "1:0.708333 2:1 3:1 4:-0.320755 5:-0.105023 6:-1 7:1 8:-0.419847 9:-1 10:-0.225806 12:1 "
        "13:-1",
    ),
    (
        2,
        "1:0.166667 2:1 3:-0.333333 4:-0.433962 5:-0.383562 6:-1 7:-1 8:0.0687023 9:-1 "
        "10:-0.903226 11:-1 12:-1 13:1",
    ),
]
BREAST_CANCER_SCALE = [
    (
        0,
        "1:-0.860107 2:-0.111111 3:-1 4:-1 5:-1 6:-0.777778 7:-1 8:-0.555556 9:-1 10:-1",
    ),
    (
        5,
        "1:-0.857554 2:0.555556 3:1 4:1 5:0.555556 6:0.333333 7:1 8:0.777778 9:0.333333 10:-1",
    ),
    # Two samples before this one have a missing value and are left out.
    (
        43,
        "1:-0.84462 2:-1 3:-1 4:-1 5:-1 6:-0.777778 7:-1 8:-0.777778 9:-1 10:-0.777778",
    ),
    (
        -1,
        "1:-0.875424 2:-0.333333 3:0.555556 4:0.555556 5:-0.111111 6:-0.333333 7:-0.111111 8:1 "
        "9:-0.333333 10:-1",
    ),
]
ABALONE_SCALE = [
    (
        0,
        "1:-1 2:0.027027 3:0.0420168 4:-0.831858 5:-0.63733 6:-0.699395 7:-0.735352 8:-0.704036",
    ),
    (
        -2,
        "2:0.486486 3:0.445378 4:-0.734513 5:-0.226138 6:-0.287155 7:-0.314022 8:-0.413054",
    ),
    (
        -1,
        "1:-1 2:0.716216 3:0.680672 4:-0.654867 5:0.378785 6:0.270343 7:-0.00987492 8:-0.0164425",
    ),
]


def dense(libsvm_row: str, n_features: int) -> np.ndarray:
    x = np.zeros(n_features)
    for j, value in re.findall(r"(\d+):(\S+)", libsvm_row):
        x[int(j) - 1] = float(value)
    return x


@pytest.mark.parametrize(
    ("bunch", "rows"),
    [
        (load_heart(scaled=False), HEART_RAW),
        (load_breast_cancer(scaled=False, include_id=True), BREAST_CANCER_RAW),
        (load_abalone(scaled=False), ABALONE_RAW),
    ],
    ids=["heart", "breast_cancer", "abalone"],
)
def test_raw_rows_are_those_of_the_original_files(bunch, rows):
    for i, label, x in rows:
        assert bunch.target[i] == label
        np.testing.assert_array_equal(bunch.data[i], x)


@pytest.mark.parametrize(
    ("bunch", "rows"),
    [
        (load_heart(), HEART_SCALE),
        (load_breast_cancer(include_id=True), BREAST_CANCER_SCALE),
        (load_abalone(), ABALONE_SCALE),
    ],
    ids=["heart", "breast_cancer", "abalone"],
)
def test_scaled_rows_are_those_of_libsvm(bunch, rows):
    for i, text in rows:
        np.testing.assert_allclose(bunch.data[i], dense(text, bunch.data.shape[1]), atol=1e-6)


def test_heart_scales_back_to_the_whole_bundled_file():
    with gzip.open(str(DATA / "heart_scale.gz")) as file:
        X, y = load_svmlight_file(file, n_features=13)
    heart = load_heart()
    np.testing.assert_allclose(heart.data, X.toarray(), rtol=0.0, atol=1e-6)
    np.testing.assert_array_equal(heart.target, y)


@pytest.mark.parametrize(
    ("loader", "shape", "dtype"),
    [
        (load_heart, (270, 13), np.int64),
        (load_breast_cancer, (683, 9), np.int64),
        (load_abalone, (4177, 8), np.float64),
    ],
)
@pytest.mark.parametrize("scaled", [True, False])
def test_shapes_and_types(loader, shape, dtype, scaled):
    bunch = loader(scaled=scaled)
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float64
    assert bunch.data.flags["C_CONTIGUOUS"]
    assert np.isfinite(bunch.data).all()
    assert bunch.target.shape == shape[:1]
    assert bunch.target.dtype == dtype
    assert len(set(bunch.feature_names)) == shape[1]


@pytest.mark.parametrize("loader", LOADERS)
def test_scaled_columns_reach_exactly_minus_one_and_one(loader):
    X = loader().data
    np.testing.assert_array_equal(X.min(axis=0), -1.0)
    np.testing.assert_array_equal(X.max(axis=0), 1.0)


@pytest.mark.parametrize("loader", LOADERS)
def test_scaled_is_an_increasing_affine_image_of_raw(loader):
    X, scaled = loader(scaled=False).data, loader().data
    for raw, image in zip(X.T, scaled.T, strict=True):
        slope, offset = np.polyfit(raw, image, 1)
        assert slope > 0.0
        np.testing.assert_allclose(slope * raw + offset, image, atol=1e-12)


def test_heart_raw_ranges_and_resolution():
    X = load_heart(scaled=False).data
    np.testing.assert_array_equal(X.min(axis=0), [29, 0, 1, 94, 126, 0, 0, 71, 0, 0.0, 1, 0, 3])
    np.testing.assert_array_equal(X.max(axis=0), [77, 1, 4, 200, 564, 1, 2, 202, 1, 6.2, 3, 3, 7])
    integers = np.delete(X, 9, axis=1)
    np.testing.assert_array_equal(integers, np.rint(integers))
    assert set(np.unique(X[:, 12])) == {3.0, 6.0, 7.0}
    assert X[:, 1].sum() == 183  # men


@pytest.mark.parametrize(
    ("loader", "negative", "positive", "names"),
    [
        (load_heart, 150, 120, ["absent", "present"]),
        (load_breast_cancer, 444, 239, ["benign", "malignant"]),
    ],
)
def test_class_balance_and_names_of_the_labels(loader, negative, positive, names):
    bunch = loader()
    labels, counts = np.unique(bunch.target, return_counts=True)
    assert labels.tolist() == [-1, 1]
    assert counts.tolist() == [negative, positive]
    assert bunch.target_names.tolist() == names


def test_malignant_samples_have_the_higher_grades():
    bunch = load_breast_cancer(scaled=False)
    malignant, benign = bunch.data[bunch.target == 1], bunch.data[bunch.target == -1]
    assert (malignant.mean(axis=0) > benign.mean(axis=0)).all()
    assert set(np.unique(bunch.data)) == set(range(1, 11))


@pytest.mark.parametrize("scaled", [True, False])
def test_the_id_is_an_extra_first_column(scaled):
    plain = load_breast_cancer(scaled=scaled)
    with_id = load_breast_cancer(scaled=scaled, include_id=True)
    np.testing.assert_array_equal(with_id.data[:, 1:], plain.data)
    assert with_id.feature_names == ["id", *plain.feature_names]


def test_the_scaled_id_is_nearly_constant_and_uninformative():
    bunch = load_breast_cancer(include_id=True)
    spread = bunch.data.std(axis=0)
    assert spread[0] < 0.1 < 0.3 < spread[1:].min()
    correlation = np.corrcoef(bunch.data.T, bunch.target)[-1, :-1]
    assert abs(correlation[0]) < 0.15 < 0.4 < correlation[1:].min()


def test_abalone_counts():
    bunch = load_abalone(scaled=False)
    assert np.unique(bunch.data[:, 0], return_counts=True)[1].tolist() == [1528, 1307, 1342]
    assert (bunch.target.min(), bunch.target.max()) == (1.0, 29.0)
    np.testing.assert_array_equal(bunch.target, load_abalone().target)
    assert "target_names" not in bunch


@pytest.mark.parametrize(
    ("loader", "doi", "file"),
    [
        (load_heart, "10.24432/C57303", "heart_scale"),
        (load_breast_cancer, "10.24432/C5HP4Z", "breast-cancer-wisconsin.csv"),
        (load_abalone, "10.24432/C55C7W", "abalone.data"),
    ],
)
def test_origin_licence_and_integrity(loader, doi, file):
    text = loader().DESCR
    assert f"https://doi.org/{doi}" in text
    assert "CC BY 4.0" in text
    packed = (DATA / f"{file}.gz").read_bytes()
    # Flags and time of the gzip header: no name and no date, so the bytes can be reproduced.
    assert packed[3:8] == bytes(5)
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() in text


def test_every_feature_is_described():
    for loader in LOADERS:
        bunch = loader()
        assert all(name in bunch.DESCR for name in bunch.feature_names)


@pytest.mark.parametrize("loader", LOADERS)
def test_each_call_returns_arrays_of_its_own(loader):
    loader().data[:] = 0.0
    loader().target[:] = 0
    assert loader().data.any()
    assert loader().target.any()


def test_public_names():
    assert sorted(datasets.__all__) == datasets.__all__
    assert all(hasattr(datasets, name) for name in datasets.__all__)


def test_the_four_hospitals_are_the_files_with_gaps():
    bunch = load_four_hospitals()
    assert bunch.data.shape == (920, 13)
    counts = {"cleveland": (303, 139), "hungarian": (294, 106), "switzerland": (123, 115)}
    for name, (patients, ill) in {**counts, "va": (200, 149)}.items():
        at = bunch.hospital == name
        assert (int(at.sum()), int((bunch.target[at] == 1).sum())) == (patients, ill)
        with gzip.open(str(DATA / f"processed.{name}.data.gz")) as file:
            assert hashlib.sha256(file.read()).hexdigest() in bunch.DESCR
    first = [63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6]
    np.testing.assert_array_equal(bunch.data[0], first)
    cholesterol = bunch.data[:, bunch.feature_names.index("serum_cholesterol")]
    assert np.isnan(cholesterol[bunch.hospital == "switzerland"]).all()
    assert np.nanmin(bunch.data[:, 3:5]) > 0.0
    # 6, 782, 273 and 698 question marks, 123 + 49 cholesterols and one blood pressure of 0
    assert np.isnan(bunch.data).sum() == 6 + 782 + 273 + 698 + 123 + 49 + 1
    assert "CC BY 4.0" in bunch.DESCR
