r"""One client's uncertainty: a Wasserstein ball around its data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drfl import checks
from drfl.norms import Norm, make_norm
from drfl.supports import Support, WholeSpace


@dataclass(frozen=True, init=False)
class Ball:
    r"""All distributions within transport cost ``radius`` of a client's rows.

    .. math::
        d\big((x,y),(x',y')\big) = \|x-x'\| + \kappa\,|y-y'| \quad\text{(regression)},

    .. math::
        d\big((x,y),(x',y')\big) = \|x-x'\| + \kappa\,1[y\ne y'] \quad\text{(classification)}.

    The intercept is never transported.

    Parameters
    ----------
    radius : float
        :math:`\rho\ge0`, in the units of the features.
    norm : {"l1", "l2", "linf"} or Norm
        The ground norm of the features.
    label_cost : float
        :math:`\kappa` in (0, inf]; inf: labels never move.
    support : Box, Polyhedron or None
        Where the data may live; None is the whole space.
    order : {1, 2, math.inf}
        Of the transport: 1 bounds the mean distance, 2 its root mean square, infinity the distance
        of every row. Losses of a score have order 1, networks (`drfl.torch`) 2 or infinity.

    Examples
    --------
    >>> Ball(radius=0.01, norm="l1", label_cost=1.0).label_cost
    1.0
    """

    radius: float
    norm: Norm
    label_cost: float
    support: Support
    order: float

    def __init__(
        self,
        radius: float = 0.0,
        norm: Norm | str = "l1",
        label_cost: float = math.inf,
        support: Support | None = None,
        order: float = 1,
    ) -> None:
        radius = checks.number("radius", radius, least=0.0)
        label_cost = checks.number("label_cost", label_cost, above=0.0, infinite=True)
        if not isinstance(support, Support | None):
            raise TypeError(
                "support must be a Box, a Polyhedron or None (the whole space), got "
                f"{type(support).__name__}"
            )
        if order not in (1, 2, math.inf):
            raise ValueError(f"order must be 1, 2 or math.inf, got {order!r}")
        set_field = object.__setattr__  # the record is frozen
        set_field(self, "radius", radius)
        set_field(self, "norm", make_norm(norm))
        set_field(self, "label_cost", label_cost)
        set_field(self, "support", support or WholeSpace())
        set_field(self, "order", float(order))
