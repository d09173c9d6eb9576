"""The live line, on a real terminal."""

import os
import pty
import re
import subprocess

import pytest

from kit.program import THREE, command, drfl, environment, write_csv


def test_the_live_line_shows_rounds_bounds_gap_worst_client_and_bytes(files):
    shown = on_terminal(command("train", *THREE, "--out", "R"), files)
    line = re.compile(
        r"\r\x1b\[Kround (\d+)  upper (\S+)  lower (\S+)  gap (\S+)  worst ([abc])  (\S+) kB"
    )
    found = line.findall(shown)
    assert [int(entry[0]) for entry in found] == list(range(1, len(found) + 1))
    assert len(found) > 2
    upper, lower = (float(found[-1][k]) for k in (1, 2))
    assert lower <= upper
    kilobytes = [float(entry[5]) for entry in found]
    assert kilobytes == sorted(kilobytes)
    assert "certified" in shown


def test_no_live_line_without_a_terminal_nor_if_quiet(files):
    assert "\x1b" not in drfl("train", *THREE, "--out", "P", cwd=files).err
    assert on_terminal(command("train", *THREE, "--out", "Q", "--quiet"), files) == ""


@pytest.mark.slow
def test_a_line_never_wraps(files):
    shown = on_terminal(command("train", *THREE, "--out", "N"), files, columns=40)
    lines = [part for part in re.split(r"\r\x1b\[K|\r?\n", shown) if part.startswith("round ")]
    assert lines
    assert max(map(len, lines)) <= 39


def on_terminal(arguments, cwd, columns=120):
    """Everything a terminal of this width would get from the process."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        arguments,
        cwd=cwd,
        env=environment() | {"COLUMNS": str(columns)},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        close_fds=True,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # what Linux answers when the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(master)
    assert process.wait(timeout=120) == 0
    return shown.decode()


def test_names_from_files_cannot_command_a_terminal(tmp_path):
    rows = [[k % 7, k % 2] for k in range(30)]
    write_csv(tmp_path / "p.csv", ["u\x1b[2J", "y"], rows)
    said = drfl("train", "--client", "p.csv", "--target", "y", "--out", "R", cwd=tmp_path)
    assert "\x1b" not in said.out + said.err
    assert "u?[2J" in said.out
    said = drfl("train", "--client", "p.csv", "--target", "z\x1b[2J", cwd=tmp_path, code=3)
    assert "\x1b" not in said.err
