"""A person at the site sees each kind of message before the first one leaves.

The question is a file in a folder of the site, and so is the answer: whoever asks at the terminal
(`drfl sites join`) is another process. It empties the folder when it starts; until it ends, an
answer holds for every job.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from drfl.files import write_json


class Verdict(Enum):
    """What the person says."""

    YES = "yes"
    NO = "no"
    NOT_YET = "not yet"


class Approvals:
    """Asks once for every kind of message.

    Parameters
    ----------
    folder : Path or None
        Of questions and answers; None: everything is approved.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def of(self, kind: str, entry: dict[str, Any]) -> Verdict:
        """Whether messages of a kind may leave; the entry is what the person is shown."""
        if self.folder is None:
            return Verdict.YES
        # A kind is one name, or two with a slash between them: nothing else can be in it.
        stem = kind.replace("/", ".")
        question, answer = self.folder / f"{stem}.asked.json", self.folder / f"{stem}.answer"
        try:
            said = answer.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            if not question.exists():
                write_json(question, entry)
            return Verdict.NOT_YET
        return {"yes": Verdict.YES, "no": Verdict.NO}.get(said, Verdict.NOT_YET)
