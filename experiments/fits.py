"""The models of a whole grid on some rows, each proved to be within the tolerance of optimal.

A model that is proved to be good enough for a larger set of weights as well is not computed again:
the optimum grows with the set, and the objective there is a formula in the clients' losses. To
leave room for that, models are computed to half the tolerance.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from drfl.engines import SerialEngine
from drfl.estimators.client_table import ClientTable
from drfl.selection.clients import SelectionClients
from drfl.selection.grid import Candidate, candidate
from drfl.selection.path import Fit, follow
from drfl.selection.warm import WarmBundle
from drfl.solvers import Solver, relative_gap
from drfl.solvers.bundle import Bundle
from drfl.solvers.local import Local
from experiments.literal import solve_printed
from experiments.methods import THETA, Params, center, estimator, stated
from experiments.protocol import Protocol
from experiments.scoring import Models


class Grid:
    """A method at its grid points, ready to be fitted to any part of some rows.

    Parameters
    ----------
    method : str
        One of `experiments.methods.METHODS`.
    params : sequence of dict
        The grid points.
    table : ClientTable
        All rows and their clients.
    protocol : Protocol
        Everything else.
    """

    def __init__(
        self, method: str, params: Sequence[Params], table: ClientTable, protocol: Protocol
    ) -> None:
        self.method, self.params, self.protocol = method, list(params), protocol
        model = estimator(method, protocol, table)
        self.taking_part = SelectionClients.of(table, [table.y], named=True)
        self.candidates = [candidate(model, p, self.taking_part) for p in stated(params, protocol)]
        # Without radii the local method would hand over to the bundle method, and that one cold.
        self.local = model.solver == "local" and method in ("wafl", "drfl")

    @property
    def is_printed(self) -> bool:
        """Whether the paper's printed linear program is asked for."""
        protocol = self.protocol
        asked = protocol.box if self.method in ("wafl", "drfl") else protocol.ties
        return not protocol.is_regression and asked in ("literal", "vertex")

    def fit(self, table: ClientTable) -> Models:
        """The models of all grid points for the rows of a table."""
        if self.is_printed:
            return solve_printed(self.method, self.params, table, self.protocol)
        if self.method == "wafl":  # a ball around the mixture: that of one client who holds it
            table = table.pooled(center(self.protocol, table))
        solver: Solver = Local() if self.local else WarmBundle(Bundle())
        fits = _path(self.candidates, table, solver)
        results = [fits[k].result for k in range(len(self.candidates))]
        return Models(np.array([r.coef for r in results]), np.array([r.intercept for r in results]))


def _path(candidates: Sequence[Candidate], table: ClientTable, solver: Solver) -> dict[int, Fit]:
    """The fits by number, mixture radii ascending."""
    groups: dict[float, list[int]] = defaultdict(list)
    for k, point in enumerate(candidates):
        groups[point.problem.mixture.radius].append(k)
    clients = list(table.clients(table.y))
    fits: dict[int, Fit] = {}
    latest: dict[str, Fit] = {}  # by what beside the weights states the problem
    for theta in sorted(groups):
        own = sorted(groups[theta], key=lambda k: candidates[k].order)
        rest = []
        for k in own:
            fit = _served(latest.get(_beside(candidates[k])), candidates[k], table)
            if fit is None:
                rest.append((k, candidates[k], candidates[k].problem))
            else:
                fits[k] = fit
        fits |= follow(rest, clients, solver, SerialEngine(), lambda rounds: None)
        latest |= {_beside(candidates[k]): fits[k] for k in own}
    return fits


def _beside(point: Candidate) -> str:
    return str({name: value for name, value in point.params.items() if name != THETA})


def _served(fit: Fit | None, point: Candidate, table: ClientTable) -> Fit | None:
    """The model of a smaller set of weights, if it is proved to be as good for a larger one."""
    if fit is None or fit.short:
        return None
    losses = list(fit.result.client_losses.values())
    upper = point.problem.mixture.resolve(table.totals).support(losses)
    gap = relative_gap(upper, fit.result.lower_bound, math.nan)
    return fit if gap <= 2.0 * point.choices.tol else None
