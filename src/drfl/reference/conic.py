"""cvxpy, imported when needed, and one way to call a solver."""

from __future__ import annotations

import warnings
from typing import Any


def cvxpy() -> Any:
    """Return the module, or say how to get it."""
    try:
        import cvxpy as cp
    except ImportError:
        raise ImportError("drfl.reference needs cvxpy: pip install 'drfl[oracle]'") from None
    return cp


def minimise(objective: Any, constraints: list[Any], solver: str) -> float:
    """Return the minimum; the variables then have values."""
    cp = cvxpy()
    problem = cp.Problem(cp.Minimize(objective), constraints)
    for options in _PRECISE if solver == "CLARABEL" else [{}]:
        try:
            with warnings.catch_warnings():  # of inaccuracy: the options say how much is accepted
                warnings.simplefilter("ignore")
                problem.solve(solver=solver, **options)
        except cp.SolverError:
            continue
        if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            return float(problem.value)
    raise RuntimeError(f"{solver} found no optimum: scale the data, or try another solver")


def _precision(aim: float, accept: float) -> dict[str, float]:
    """Return settings of Clarabel: the tolerance to aim at, and the one to make do with."""
    kinds = ("gap_abs", "gap_rel", "feas")
    aims = {f"tol_{kind}": aim for kind in kinds}
    return aims | {f"reduced_tol_{kind}": accept for kind in kinds}


# A yardstick for 1e-6 has to be better than that; where rounding stops it, less must do.
_PRECISE = [_precision(1e-10, 1e-8), _precision(1e-8, 1e-7)]
