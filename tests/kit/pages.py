"""The code in pages: fenced blocks, found by kind and run one after the other."""

import doctest
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is that of its first line in the page."""

    kind: str
    text: str
    line: int

    @property
    def is_script(self):
        """Whether it has to be the program that runs."""
        return 'if __name__ == "__main__":' in self.text

    @property
    def commands(self):
        """Commands of a console, each with the output that the page shows; "" if none."""
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
        assert parts[0] == "", "a console block begins with a command"
        pairs = [part.partition("\n") for part in parts[1:]]
        return [(shlex.split(command), shown) for command, _, shown in pairs]


def name(path):
    return path.relative_to(ROOT).as_posix()


def blocks(page, *kinds):
    """The blocks of a page, of some kinds or of all."""
    text = page.read_text(encoding="utf-8")
    found = [Block(m[2], m[3], text.count("\n", 0, m.start(3))) for m in FENCE.finditer(text)]
    return [block for block in found if not kinds or block.kind in kinds]


def run_python(page, block, namespace, folder):
    """Run a block in a namespace; a script in a process of its own, in a folder."""
    source = "\n" * block.line + block.text
    if not block.is_script:
        exec(compile(source, str(page), "exec"), namespace)
        return
    script = folder / f"block_{block.line}.py"
    script.write_text(source, encoding="utf-8")
    command = [sys.executable, "-W", "error", script.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def require_same(shown, said):
    """The output that a page shows is what was said; "..." stands for anything."""
    if shown.strip() and not doctest.OutputChecker().check_output(shown, said, SAME):
        raise AssertionError(f"the page shows\n{shown}\nbut the program says\n{said}")
