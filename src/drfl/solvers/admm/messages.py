r"""What crosses in a round of the ADMMs.

Ordinarily the server sends (w, z_s), n + 1 numbers (with an intercept n + 2), and the client
answers with :math:`(\hat w_s,\pi_s)`. The multipliers :math:`(\psi_s,\zeta_s)` follow from what
both have seen, so each computes them for itself, by the same function and hence to the last bit;
:math:`\lambda_s` and :math:`\alpha_s` never leave the client. A client that may have lost count
(in the first round, after a lost answer) is sent its multipliers and starts afresh.
"""

from __future__ import annotations

from dataclasses import replace

from drfl.solvers.bundle.messages import REPLY as CUTS
from drfl.solvers.bundle.messages import REQUEST as ASK
from drfl.wire import Field

KIND, RECALL_KIND = "admm", "admm_recall"

_AFRESH = {
    "duals": Field("float64", (2, "d"), optional=True),  # multipliers, last answer: of the model
    "pair": Field("float64", (2,), optional=True),  # and of the value
    "batch": Field("int64", (2,), optional=True),  # rows per step (0: all), seed
    "penalty": Field("float64", (3,), optional=True),  # of the model, of the value; relaxation
}
REQUEST = {
    **_AFRESH,
    "x": Field("float64", ("d",)),  # the server's w and b
    "z": Field("float64", (), optional=True),  # with it a step is wanted
    # Cuts wanted: the bundle's request, at x (if there are fewer other points than numbers) and at
    # other points.
    **{name: replace(ASK[name], optional=True) for name in ("id", "plan")},
    "also": Field("float64", (None, "d"), optional=True),
}
REPLY = {
    "model": Field("float64", ("d",), optional=True),  # the client's own
    "pi": Field("float64", (), optional=True),  # and its value
    "support": Field("float64", ("c",), optional=True),  # the supporting cut there
    **{name: replace(CUTS[name], optional=True) for name in ("value", "cuts", "about", "facts")},
}
RECALL = {
    **_AFRESH,
    "x": Field("float64", ("k", "d")),  # the steps since then
    "z": Field("float64", ("k",)),
    "penalties": Field("float64", ("k", 3)),
}
