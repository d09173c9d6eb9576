"""One path over the grid: every problem once, each from the last, or from what is proved."""

from drfl.selection.path.walk import Fit, KnownFits, follow

__all__ = ["Fit", "KnownFits", "follow"]
