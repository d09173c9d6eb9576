r"""Gauges: what bounds the price of transport from below, :math:`\lambda\ge\mathrm{gauge}(x)`.

Moving a row by :math:`\delta` changes a score by at most :math:`\mathrm{gauge}(x)\|\delta\|`, so
that on the whole space no smaller :math:`\lambda` keeps the adversary's gain finite. For one
score :math:`\langle w,x\rangle+b` it is the dual norm of w; several scores, or other features of
the same columns, are another gauge. All that a solver and the proof of its lower bound ask of it is
here: its value and a subgradient, its epigraph as rows of a quadratic program, and its *polar*,
which says which slopes a price pays for.
"""

from drfl.gauges.base import Gauge
from drfl.gauges.one_score import DualNorm, ShapedCurves
from drfl.gauges.pairs import Pairs

__all__ = ["DualNorm", "Gauge", "Pairs", "ShapedCurves"]
