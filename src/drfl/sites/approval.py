"""A person at the site sees each kind of message before the first one leaves.

The question is a file in a folder of the site, and so is the answer: whoever asks at the terminal
(`drfl sites join`) is another process.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

from drfl.models.store import write_text


class Verdict(Enum):
    """What the person says."""

    YES = "yes"
    NO = "no"
    NOT_YET = "not yet"


class Approvals:
    """Asks once for every kind of message, for as long as the job lasts.

    Parameters
    ----------
    folder : Path or None
        Of questions and answers; None: everything is approved.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder, self._asked = folder, set[str]()

    def of(self, kind: str, entry: dict[str, Any]) -> Verdict:
        """Whether messages of a kind may leave; the entry is what the person is shown."""
        if self.folder is None:
            return Verdict.YES
        # A kind is one name, or two with a slash between them: nothing else can be in it.
        stem = kind.replace("/", ".")
        question, answer = self.folder / f"{stem}.asked.json", self.folder / f"{stem}.answer"
        if kind not in self._asked:
            answer.unlink(missing_ok=True)
            write_text(question, json.dumps(entry, indent=1) + "\n")
            self._asked.add(kind)
        try:
            said = answer.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return Verdict.NOT_YET
        return {"yes": Verdict.YES, "no": Verdict.NO}.get(said, Verdict.NOT_YET)
