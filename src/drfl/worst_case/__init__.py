r"""A client's worst-case expected loss :math:`F(w,b)`."""

from drfl.worst_case.make import make_oracle, worst_case_loss
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase

__all__ = ["Distribution", "Oracle", "WorstCase", "make_oracle", "worst_case_loss"]
