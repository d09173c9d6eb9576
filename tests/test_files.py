"""Files that are there as a whole or not at all, with the mode that was asked for."""

import os
import stat

import pytest

from drfl.files import PRIVATE, replacing, write_bytes, write_json, write_text


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    write_text(path, "old\n")

    def fail():
        with replacing(path) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old\n"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_a_private_file_is_never_open_to_others(tmp_path):
    path = tmp_path / "a"
    path.write_text("it was open to all")
    path.chmod(0o666)
    with replacing(path, mode=PRIVATE) as file:
        (partial,) = tmp_path.glob(".a.*.partial")
        assert stat.S_IMODE(partial.stat().st_mode) == PRIVATE  # while it is written, too
        file.write("b")
    assert stat.S_IMODE(path.stat().st_mode) == PRIVATE
    write_bytes(path, b"c", mode=PRIVATE)
    assert stat.S_IMODE(path.stat().st_mode) == PRIVATE
    assert path.read_bytes() == b"c"


def test_json_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())
