"""The page about networks: its code runs."""

from kit.pages import ROOT, blocks, run_python


def test_the_code_of_the_page_runs(tmp_path):
    page = ROOT / "docs" / "networks.md"
    namespace = {"__name__": page.stem}
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        run_python(page, block, namespace, tmp_path)
