r"""How large a client's features are, from what it told in the preflight.

The mean square of a feature made of a column of numbers is

.. math:: \frac1{N_s}\Big(\frac{M_s+n_s(\mu_s-\mathrm{shift})^2}{\mathrm{scale}^2}
    +(N_s-n_s)\frac{(\mathrm{fill}-\mathrm{shift})^2}{\mathrm{scale}^2}\Big),

:math:`n_s` of the :math:`N_s` values being there. A feature of a category is 0 or 1, at most 1. A
solver refuses answers that features of this size cannot give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from drfl.protocols.data_request import DataReply
from drfl.tables import Column, Number
from drfl.tables.moments import CONSTANT

SLACK = 1e-6  # relative: sums were rounded


def column_sizes(columns: Sequence[Column], scale: str, answer: DataReply) -> tuple[float, ...]:
    """Bounds from above of the root mean square of every feature of one client.

    Parameters
    ----------
    columns : sequence of Column
        As agreed upon.
    scale : {"federated", "per-client", "none"}
        How numbers are scaled.
    answer : DataReply
        What the client told.
    """
    place = {name: k for k, name in enumerate(answer.facts["numbers"])}
    sizes: list[float] = []
    for column in columns:
        if not isinstance(column, Number):
            sizes += [1.0] * len(column.levels)
        elif column.name in place:
            sizes.append(_of_number(column, scale, answer, place[column.name]))
            sizes += [1.0] * (len(column.features) - 1)
        else:  # a sparse file without the column: it is 0 everywhere
            sizes.append((1.0 + SLACK) * abs(column.shift) / column.scale)
    return tuple(sizes)


def _of_number(column: Number, scaling: str, answer: DataReply, k: int) -> float:
    m, rows = answer.moments, max(float(answer.facts["rows"]), 1.0)
    count, mean, squares = float(m.count[k]), float(m.mean[k]), max(float(m.squares[k]), 0.0)
    gaps = 0.0 if column.fill is None else max(rows - count, 0.0)
    fill = mean if column.fill is None else column.fill
    shift, scale = column.shift, column.scale
    if scaling == "per-client":
        # Mean and deviation of the column with its gaps filled, as `Encoding.scaling` takes them.
        shift = (count * mean + gaps * fill) / rows
        between = count * (mean - shift) ** 2 + gaps * (fill - shift) ** 2
        scale = math.sqrt((squares + between) / rows)
        scale = scale if scale > CONSTANT * abs(shift) else 1.0
    total = squares + count * (mean - shift) ** 2 + gaps * (fill - shift) ** 2
    # Where a column is almost constant, its deviation is known up to rounding of its mean.
    return (math.sqrt(total / rows) * (1.0 + SLACK) + SLACK * (abs(mean) + abs(shift))) / scale
