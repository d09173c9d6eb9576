"""Bundled data with origin and licence, ways to divide rows into clients, and attribute noise."""

from drfl.datasets import partition
from drfl.datasets.bundled import (
    load_abalone,
    load_breast_cancer,
    load_four_hospitals,
    load_heart,
)
from drfl.datasets.noise import add_client_noise, add_noise

__all__ = [
    "add_client_noise",
    "add_noise",
    "load_abalone",
    "load_breast_cancer",
    "load_four_hospitals",
    "load_heart",
    "partition",
]
