"""Differential privacy: noise that hides any single row, and a budget for all of it."""

from drfl.privacy.dp.mechanism import (
    ENOUGH,
    NO_CURVES,
    DifferentialPrivacy,
    Sensitivity,
    deviation,
    noisy,
    os_normal,
    packed,
    require_known,
    row_length,
    unpacked,
)
from drfl.privacy.dp.spending import Spending, delta_of, epsilon_of, rho_of

__all__ = [
    "ENOUGH",
    "NO_CURVES",
    "DifferentialPrivacy",
    "Sensitivity",
    "Spending",
    "delta_of",
    "deviation",
    "epsilon_of",
    "noisy",
    "os_normal",
    "packed",
    "require_known",
    "rho_of",
    "row_length",
    "unpacked",
]
