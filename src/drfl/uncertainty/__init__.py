"""What the adversary may do: a ball around each client's data, and a set of clients' weights."""

from drfl.uncertainty.ball import Ball
from drfl.uncertainty.mixture import Mixture

__all__ = ["Ball", "Mixture"]
