"""`drfl flower` where Flower is not installed; where it is: tests/flower."""

from kit.program import drfl


def test_what_to_install_is_said(tmp_path):
    said = drfl("flower", "init", "sites.toml", cwd=tmp_path, code=3).err
    assert said == "drfl: `drfl flower` needs Flower: pip install 'drfl[flower]'\n"
