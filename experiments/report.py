"""What a text says of an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """The parts of the text, in lines.

    Attributes
    ----------
    intro : list of str
        What was measured.
    findings : list of str
        What holds and what does not, a sentence each.
    tables : list of str
        In Markdown.
    """

    intro: list[str]
    findings: list[str]
    tables: list[str] = field(default_factory=list)

    @property
    def summary(self) -> list[str]:
        """What a reader of the command sees."""
        return [
            *self.intro,
            "",
            "What holds and what does not:",
            "",
            *(f"- {sentence}" for sentence in self.findings),
        ]

    @property
    def lines(self) -> list[str]:
        """The whole text."""
        return [*self.summary, "", *self.tables]
