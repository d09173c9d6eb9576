r"""The paper's convex programs, corrected, typed in cvxpy: slow, general, and independent.

Nothing else in the package imports this one. It is the yardstick of the tests and benchmarks, and
of anyone who wants to compare; it needs the extra ``oracle`` (``pip install 'drfl[oracle]'``).

Three deviations from the paper's text, each of which changes numbers:

- Data outside the support are refused: the printed constraints would mute such rows.
- In regression the dual norm of the metric is two bounds, :math:`\|\cdot\|_*\le\lambda` for the
  features and :math:`|\cdot|\le\kappa\lambda` for the target.
- The intercept is never transported: it stays out of :math:`\|w\|_*`.
"""

from drfl.reference.pooled import Reference, solve, worst_case_loss

__all__ = ["Reference", "solve", "worst_case_loss"]
