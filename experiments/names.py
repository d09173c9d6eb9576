"""Which experiments there are; apart, because help should load nothing else."""

from __future__ import annotations

NAMES = {
    "heart": "the paper's comparison on heart disease",
    "breast-cancer": "the same on breast cancer",
    "abalone": "the same on abalone, a Huber regression",
    "heart-imbalanced": "the paper's comparison with few rows of one class",
    "breast-cancer-imbalanced": "the same on breast cancer",
    "volume": "Example 4.1: coverage and volume of the two ambiguity sets",
    "convergence": "gaps against rounds, kilobytes and seconds",
    "heterogeneity": "where robustness for every client should pay",
}
"""What there is, with a line each."""

NETWORKS = {"neural": "does robustness help networks? (needs PyTorch; not part of all)"}
"""What needs more than the others."""
