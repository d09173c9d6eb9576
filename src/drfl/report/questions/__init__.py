"""The questions of a report."""

from __future__ import annotations

from collections.abc import Callable

from drfl.report.blocks import Section
from drfl.report.evidence import Evidence
from drfl.report.questions import (
    clients,
    coefficients,
    course,
    curves,
    messages,
    proof,
    protection,
    radius,
    repeat,
    table_one,
    unseen,
)
from drfl.report.suppression import Groups

QUESTIONS: tuple[Callable[[Evidence, Groups], Section | None], ...] = (
    proof.section,
    unseen.section,
    table_one.section,
    clients.section,
    coefficients.section,
    curves.section,
    protection.section,
    radius.section,
    course.section,
    messages.section,
    repeat.section,
    protection.rows_section,
)
"""In the order in which a page answers them; None where the question does not arise."""
