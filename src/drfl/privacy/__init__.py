"""Disclosure control: what leaves a site tells of at least k rows."""

from drfl.privacy.guard import Guard, guard_line
from drfl.privacy.journal import SpentError
from drfl.privacy.keeper import NO_BOUND, GuardedAnswer, Keeper
from drfl.privacy.keys import file_key, file_prints, meaning_of
from drfl.privacy.ledger import Ledger
from drfl.privacy.leverage import Leverage
from drfl.privacy.refusals import merge_categories, require_answerable
from drfl.privacy.scalars import (
    count_refused,
    release_metric,
    release_scalar,
    release_sums,
    require_sums_left,
)
from drfl.privacy.statement import audit, audit_ledger

__all__ = [
    "NO_BOUND",
    "Guard",
    "GuardedAnswer",
    "Keeper",
    "Ledger",
    "Leverage",
    "SpentError",
    "audit",
    "audit_ledger",
    "count_refused",
    "file_key",
    "file_prints",
    "guard_line",
    "meaning_of",
    "merge_categories",
    "release_metric",
    "release_scalar",
    "release_sums",
    "require_answerable",
    "require_sums_left",
]
