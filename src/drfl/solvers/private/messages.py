"""What clients with differential privacy are asked, and what they answer.

Every request states its price in zCDP; the client adds it up and refuses what its budget does not
hold.
"""

from __future__ import annotations

from drfl.wire import Field

TERMS, START, SLOPE, CLOSE = "private_terms", "private_start", "private_slope", "private_close"

REQUESTS = {
    TERMS: {},
    START: {"rho": Field("float64", (2,))},  # of the moments and of the slope at 0
    SLOPE: {"x": Field("float64", ("d",)), "rho": Field("float64")},
    CLOSE: {
        "x": Field("float64", ("d",)),
        "region": Field("float64", ("d", "d")),  # the inverse of the region's matrix W
        "rho": Field("float64", (3,)),  # of the slope, the curvature and the value
    },
}

REPLIES = {
    # Public: the number of rows, the bounds of rows and targets, and what is left of the budget.
    TERMS: {
        "rows": Field("float64"),
        "norm": Field("float64"),
        "target": Field("float64"),
        "left": Field("float64"),
    },
    # Noisy; matrices are packed to their upper triangle, "t" numbers.
    START: {"moments": Field("float64", ("t",)), "slope": Field("float64", ("d",))},
    SLOPE: {"slope": Field("float64", ("d",))},
    CLOSE: {
        "slope": Field("float64", ("d",)),
        "curvature": Field("float64", ("t",)),
        "value": Field("float64"),
    },
}
