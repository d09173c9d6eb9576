r"""osbdo on a federated problem: agents that answer with drfl's own worst-case oracle.

Only the outer method differs. With the mixture radius 0 the problem is

.. math:: \min_{x}\; \sum_s \hat q_s F_s(x_s), \qquad x_1 = \dots = x_S, \quad x = (w, b),

which osbdo calls consensus. Losses are at least 0, so the constant 0 is the first minorant, and no
box is needed. (On the heart data, hinge, it reached 1e-4 and 1e-6 in 21 and 30 rounds without one,
in 24 and 30 with |x| <= 100, in 23 and 41 with |x| <= 5.)

Labels never move here, so :math:`F_s(w,b) = \tfrac1N\sum_i L(m_i) + \rho\|w\|_*`. ``structured``
gives osbdo the norm as the part of the objective that it knows, and the agents answer with a ball
of radius 0; otherwise they answer with all of :math:`F_s`.

Its upper bound is the objective at the point it queried, where the clients' copies of x agree up to
the tolerance of the conic solver; its lower bound is the value of its cutting-plane model as that
solver found it. Both hold up to that tolerance, about 1e-8, and are not proved beyond it.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import drfl
from drfl.rows import Rows
from drfl.worst_case import make_oracle

Data = list[tuple[np.ndarray, np.ndarray]]

ITERATIONS = 300
SECONDS = 120.0


@dataclass(frozen=True)
class Step:
    """Where osbdo stood after so many queries of every agent."""

    rounds: int
    seconds: float  # of the processor
    gap: float


@dataclass
class Run:
    """The steps of one run, and the bounds at its end."""

    steps: list[Step] = field(default_factory=list)
    lower: float = -math.inf
    upper: float = math.inf

    def first(self, tol: float) -> Step | None:
        """The first step with a gap of at most ``tol``."""
        return next((step for step in self.steps if step.gap <= tol), None)


class Done(Exception):  # noqa: N818  (it is no error)
    """The gap is small enough, or the time is over."""


def run_osbdo(problem: drfl.Problem, data: Data, tol: float, *, structured: bool) -> Run:
    """Solve until the gap is at most ``tol``, for at most 300 iterations and 120 seconds."""
    osbdo, cp = _modules()
    run, share, ball = Run(), 1.0 / len(data), problem.ball_of("one")
    if math.isfinite(ball.label_cost) or ball.norm.name != "l1":
        raise ValueError("osbdo is run with the l1 norm and labels that never move")
    asked = drfl.Ball(0.0, "l1") if structured else ball

    class Agent(osbdo.Agent):
        def _construct_params(self) -> None:
            rows = Rows(*self.params["data"])
            self.oracle = make_oracle(rows, problem.loss, asked)

        def query(self, *, v: np.ndarray, solver: str) -> Any:
            worst = self.oracle.evaluate(v[:-1], float(v[-1]))
            slope = np.append(worst.gradient, worst.intercept_gradient)
            return osbdo.Point(x=v, q=share * slope, f=share * worst.value)

        def get_init_minorant(self) -> Any:
            return cp.Constant(0.0)

    class Watched(osbdo.Problem):
        def record_optim_gap(self, *args: Any, **kwargs: Any) -> Any:
            found = super().record_optim_gap(*args, **kwargs)
            run.lower, run.upper = float(self.lower_bnd[-1]), float(self.upper_bnd[-1])
            gap = float(self.get_rel_gap(U=run.upper, L=run.lower))
            step = Step(len(run.steps) + 1, time.process_time() - start, gap)
            run.steps.append(step)
            if gap <= tol or step.seconds > SECONDS:
                raise Done
            return found

    start = time.process_time()
    free = {"dimension": data[0][0].shape[1] + 1, "lower_bound": None, "upper_bound": None}
    agents = [Agent({**free, "data": part}) for part in data]
    equal = [agent.x == agents[0].x for agent in agents[1:]]
    norm = cp.norm(agents[0].x[:-1], "inf")
    known = ball.radius * norm if structured else cp.Constant(0.0)
    coupling = osbdo.Coupling(agents=agents, function=known, domain=equal)
    # It prints every iteration. A memory that is never full keeps every cut, as its default does,
    # in one matrix instead of a nested expression, which is quicker for cvxpy.
    settings = {"memory": ITERATIONS + 1, "max_iter": ITERATIONS, "solver": "CLARABEL"}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.suppress(Done):
            Watched(agents=agents, g=coupling).solve(rel_gap=tol, abs_gap=0.0, **settings)
    return run


def _modules() -> tuple[Any, Any]:
    """osbdo and cvxpy; osbdo 0.0.6 calls ``np.product``, which NumPy 2 no longer has."""
    vars(np).setdefault("product", np.prod)
    with warnings.catch_warnings():  # invalid escapes in its docstrings
        warnings.simplefilter("ignore")
        import cvxpy as cp
        import osbdo
    return osbdo, cp
