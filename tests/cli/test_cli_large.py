"""A file of several gigabytes, trained with less memory than it has bytes."""

import resource
import subprocess

import numpy as np
import pytest

from drfl.models import read_model
from kit.program import command, environment

SIZE = 2_500_000_000
LIMIT = 600_000_000
COLUMNS, BLOCK = 100, 2000


def write_large(path, size):
    """The same block of rows over and over."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(BLOCK, COLUMNS))
    y = X[:, :5].sum(axis=1) + rng.normal(size=BLOCK) > 0
    rows = [",".join([*(f"{v:.16f}" for v in x), str(int(t))]) for x, t in zip(X, y, strict=True)]
    block = ("\n".join(rows) + "\n").encode()
    with path.open("wb") as file:
        file.write((",".join([*(f"u{j}" for j in range(COLUMNS)), "y"]) + "\n").encode())
        for _ in range(size // len(block) + 1):
            file.write(block)
    return X, y


@pytest.mark.slow
def test_a_file_larger_than_the_memory(tmp_path):
    X, y = write_large(tmp_path / "large.csv", SIZE)
    assert (tmp_path / "large.csv").stat().st_size > 4 * LIMIT
    rows = [",".join(map(str, [*x, int(t)])) for x, t in zip(X.tolist(), y, strict=True)]
    names = ",".join([*(f"u{j}" for j in range(COLUMNS)), "y"])
    (tmp_path / "small.csv").write_text("\n".join([names, *rows]) + "\n")
    clients = ("--client", "large.csv", "--client", "small.csv", "--target", "y")
    # The limit is on what a process allocates; mapped files are the system's to keep or drop.
    done = subprocess.run(
        command("train", *clients, "--tol", "1e-3", "--out", "RUN", "--quiet"),
        cwd=tmp_path,
        env=environment() | {"TMPDIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT)),
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr
    model = read_model(tmp_path / "RUN" / "model.json")
    large, small = model.clients
    assert large.rows % BLOCK == 0
    # Both clients have the same distribution, and the radius is smaller where there are more rows.
    assert small.rows == BLOCK
    assert large.losses[0] == pytest.approx(small.losses[0], rel=0.05)
    (tmp_path / "large.csv").unlink()


def test_a_limit_is_felt(tmp_path):
    """The limit of the test above is one: without blocks the file would not fit."""
    done = subprocess.run(
        command("list"),
        cwd=tmp_path,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (10_000_000, 10_000_000)),
        capture_output=True,
        timeout=100,
    )
    assert done.returncode != 0
