"""The page about networks: its code runs, and its commands do."""

import numpy as np

from kit.pages import ROOT, blocks, run_python
from kit.program import drfl

PAGE = ROOT / "docs" / "networks.md"


def test_the_code_of_the_page_runs(tmp_path):
    namespace = {"__name__": PAGE.stem}
    assert blocks(PAGE, "python")
    for block in blocks(PAGE, "python"):
        run_python(PAGE, block, namespace, tmp_path)


def test_the_commands_of_the_page_run(tmp_path):
    for seed, name in enumerate(["a", "b", "new"]):
        X = np.random.default_rng(seed).normal(size=(60, 2))
        lines = [f"{a:.4f},{b:.4f},{'yes' if a * b > 0.0 else 'no'}" for a, b in X]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,bmi,disease", *lines]) + "\n")
    (block,) = blocks(PAGE, "console")
    assert len(block.commands) == 6
    for words, _ in block.commands:
        assert words[0] == "drfl"
        drfl(*words[1:], cwd=tmp_path, code=0)
    assert (tmp_path / "RUN" / "report.html").stat().st_size > 10_000
