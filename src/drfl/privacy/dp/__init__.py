"""Differential privacy: noise that hides any single row, and a budget for all of it."""

from drfl.privacy.dp.mechanism import (
    ENOUGH,
    DifferentialPrivacy,
    Sensitivity,
    require_known,
    row_length,
)
from drfl.privacy.dp.noise import deviation, noisy, os_normal, packed, unpacked
from drfl.privacy.dp.spending import Spending
from drfl.privacy.dp.zcdp import delta_of, epsilon_of, rho_of

__all__ = [
    "ENOUGH",
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
