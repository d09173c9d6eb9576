"""Clients survive the way to another process: no copy of a file, no change of order."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from drfl.client import Client
from drfl.engines.placement import pack, unpack
from drfl.rows import Rows

N, n = 500, 7
X = np.random.default_rng(0).normal(size=(N, n))
Y = np.sign(X[:, 0])
W = np.random.default_rng(1).normal(size=n)


def size(frames):
    return sum(memoryview(frame).nbytes for frame in frames)


def mapped(folder, mode="r", offset=24):
    """X in a file, behind a header."""
    file = folder / "X.bin"
    file.write_bytes(bytes(offset) + X.tobytes())
    return np.memmap(file, np.float64, mode, offset=offset, shape=X.shape)


def moved(thing):
    frames = pack(thing)
    return unpack([bytes(frame) for frame in frames])


VIEWS = {
    "whole": lambda a: a,
    "rows": lambda a: a[30:90],
    "columns": lambda a: a[:, 2:5],
    "every other": lambda a: a[1::2, ::3],
    "backwards": lambda a: a[::-1, ::-2],
    "transposed": lambda a: a.T,
    "slice of a slice": lambda a: np.asarray(a[10:])[5:50],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_memory_map_is_opened_again(tmp_path, view, mode):
    array = view(mapped(tmp_path, mode))
    assert size(pack(array)) < 600
    again = moved(array)
    assert np.array_equal(again, array)
    assert again.strides == array.strides
    assert isinstance(again.base, np.memmap)
    assert not again.flags.writeable


def test_a_memory_map_that_its_file_does_not_hold_is_copied(tmp_path):
    array = mapped(tmp_path, "c")
    array[0, 0] = 4711.0
    assert np.array_equal(moved(array), array)
    gone = mapped(tmp_path)
    Path(gone.filename).unlink()
    assert np.array_equal(moved(gone), X)


def test_a_client_on_files_travels_light(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    client = Client("a", mapped(tmp_path), np.load(tmp_path / "y.npy", mmap_mode="r"))
    assert size(pack(client)) < 2000
    again = moved(client)
    assert again.rows.scores(W).tobytes() == client.rows.scores(W).tobytes()


def test_a_file_that_vanished_on_the_way_is_an_error(tmp_path):
    frames = pack(mapped(tmp_path))
    (tmp_path / "X.bin").unlink()
    with pytest.raises(FileNotFoundError):
        unpack(frames)


WIDE = np.hstack([X, X])
LAYOUTS = {
    "C": X,
    "Fortran": np.asfortranarray(X),
    "rows of C": np.vstack([X, X])[100:400],
    "every other row": X[::2],
    "rows of Fortran": np.asfortranarray(X)[100:400],
    "every other row of Fortran": np.asfortranarray(X)[::2],
    "one row of Fortran": np.asfortranarray(X)[3:4],
    "columns": WIDE[:, 3:9],
    "two columns": WIDE[:, 3:5],
    "one column": WIDE[:, 3:4],
    "every other column": WIDE[:, ::2],
    "backwards": X[::-1, ::-1],
    "float32 rows of Fortran": np.asfortranarray(X, dtype=np.float32)[5:],
    "CSR": sparse.csr_array(X * (X > 0)),
}


@pytest.mark.parametrize("data", LAYOUTS.values(), ids=LAYOUTS)
def test_rows_give_the_same_bits_on_the_other_side(data):
    weights = np.linspace(1.0, 2.0, data.shape[0])
    rows = Rows(data, np.ones(data.shape[0]), weights=weights, shift=0.1 * W[: data.shape[1]])
    w, v = W[: data.shape[1]], np.linspace(-1.0, 1.0, data.shape[0])
    for one in (rows, rows.clipped(np.full(len(w), -0.5), np.full(len(w), 0.5))):
        other = moved(one)
        assert one.scores(w, 0.3).tobytes() == other.scores(w, 0.3).tobytes()
        assert one.combine(v)[0].tobytes() == other.combine(v)[0].tobytes()
        assert one.gram(v**2).tobytes() == other.gram(v**2).tobytes()
        assert one.group_sums(v, 3)[0].tobytes() == other.group_sums(v, 3)[0].tobytes()
        assert one.moments()[1].tobytes() == other.moments()[1].tobytes()


def test_rows_are_not_sent_twice(monkeypatch):
    monkeypatch.setattr("drfl.rows.operator.BLOCK_ELEMENTS", 1000)
    for data, nbytes in ((X, X.nbytes), (sparse.csr_array(X), 1.6 * X.nbytes)):
        rows = Rows(data, Y)
        assert len(list(rows.blocks())) > 3
        assert size(pack(rows)) < nbytes + Y.nbytes + 3000
        assert len(pickle.dumps(rows)) < nbytes + Y.nbytes + 3000
        assert np.array_equal(moved(rows).scores(W), rows.scores(W))


def test_contiguous_arrays_are_not_copied_for_sending():
    _, buffer = pack(X)
    assert np.shares_memory(np.frombuffer(buffer), X)
