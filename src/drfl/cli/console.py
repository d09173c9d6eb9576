"""What a user sees while a command works."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

from drfl.cli.main import printable
from drfl.problem import to_json
from drfl.run import Record


class Console:
    """Speaks to a reader, to a script (``--json``), or hardly at all (``--quiet``).

    Results go to the standard output; the live line, warnings and errors to the standard error.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.live = not (quiet or as_json) and sys.stderr.isatty()
        self._shown = False

    def say(self, *lines: str) -> None:
        """Lines for a reader."""
        if not (self.quiet or self.as_json):
            self.clear()
            for line in lines:
                print(printable(line), flush=True)

    def warn(self, sentence: str) -> None:
        """A sentence of warning."""
        if not self.quiet:
            self.clear()
            print(f"drfl: warning: {printable(sentence)}", file=sys.stderr, flush=True)

    def record(self, record: dict[str, Any]) -> None:
        """An object for a script."""
        if self.as_json:
            print(json.dumps(to_json(record), allow_nan=False), flush=True)

    def progress(self, record: Record, prefix: str = "") -> None:
        """The live line of a round."""
        if self.live:
            kilobytes = (sum(record.bytes_up.values()) + sum(record.bytes_down.values())) / 1000
            line = (
                f"{prefix}round {record.round}  upper {record.objective:.6g}  "
                f"lower {record.lower_bound:.6g}  gap {record.gap:.1e}  "
                f"worst {record.worst_client}  {kilobytes:.1f} kB"
            )
            self.note(line)

    def note(self, line: str) -> None:
        """Put a text in place of the live line."""
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + printable(line)[:width])
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """End the live line."""
        if self._shown:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._shown = False
