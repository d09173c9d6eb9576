"""A client's own model, of the training rows of a part: one vector crosses, in one message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Client, Handler, Site
from drfl.problem import Problem
from drfl.run import solve
from drfl.run.result import Result, stacked
from drfl.selection.client_half.folds import on_parts
from drfl.solvers import StatusKind
from drfl.supports import WholeSpace
from drfl.uncertainty import Mixture
from drfl.wire import Field, Message, WireError, validate

KIND = "select_alone"
REQUEST = {"tol": Field("float64")}
REPLY = {"coef": Field("float64", ("C", "n")), "intercept": Field("float64", ("C",))}
UNSEEN = math.log(1e-6)  # of a class without rows here: its intercept, below the lowest other one


def possible(problem: Problem) -> bool:
    """Whether clients can do it: the method for rows in one process knows the whole space alone.

    It knows no curves either; several classes at once take another one, which does.
    """
    plain = (problem.curves is None or problem.classes is not None) and not problem.shared_ball
    return plain and issubclass(problem.support_kind, WholeSpace)


def fit(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    rows, tol = site.raw, float(message.arrays["tol"])  # ramps are made of them again
    if not 0.0 < tol < 1.0:
        raise WireError("there is no such tolerance")
    weight = None if rows.p is None else rows.p * rows.total
    client = Client(
        site.name, rows.X, rows.y, sample_weight=weight, shift=rows.shift, scale=rows.scale
    )
    if site.problem.classes is not None:
        return _of_classes(site, client, tol)
    # Alone, a client's own intercept is the only one.
    own = "none" if site.problem.intercept == "none" else "shared"
    problem = Problem(site.problem.loss, site.oracle.ball, intercept=own)
    result = solve(problem, [client], solver="local", tol=tol)
    coef, intercept = stacked([_checked(result)])
    return {"coef": coef, "intercept": intercept}


def _of_classes(site: Site, client: Client, tol: float) -> Mapping[str, NDArray[Any]]:
    """The model of the classes that have rows here."""
    problem = replace(site.problem, mixture=Mixture())
    coef, intercept, result = solve_present(problem, [client], tol=tol)
    if result is not None:
        _checked(result)
    return {"coef": coef, "intercept": intercept}


def solve_present(
    problem: Problem, clients: Sequence[Client], **options: Any
) -> tuple[Array, Array, Result | None]:
    """A model of several classes at once; those without rows are all but impossible.

    Returns
    -------
    tuple
        Coefficients (K, n), intercepts (K,), and the result; None if there is one class.
    """
    K = problem.classes or 1
    present = np.unique(np.concatenate([client.rows.y for client in clients])).astype(np.intp)
    coefficients = problem.coefficients(clients[0].n_features)
    coef, intercept = np.zeros((K, coefficients // K)), np.full(K, UNSEEN)
    if len(present) == 1:
        intercept[present] = 0.0
        return coef, intercept, None
    for client in clients:
        client.rows.y = np.searchsorted(present, client.rows.y).astype(np.float64)
    result = solve(replace(problem, classes=len(present)), clients, **options)
    coef[present], own = stacked([result])
    intercept[:] = UNSEEN + own.min()
    intercept[present] = own
    return coef, intercept, result


def _checked(result: Result) -> Result:
    if result.status.kind is StatusKind.FAILED:
        raise ArithmeticError("the client's own rows gave no model")
    return result


HANDLERS: Mapping[str, Handler] = on_parts({KIND: Checked(fit, REQUEST, REPLY)})


def request(tol: float) -> Message:
    """Ask for it; `drfl.selection.client_half.folds.FoldEngine` adds the part and the ball."""
    return Message(KIND, 0, {"tol": np.array(tol)})


def read(message: Message, problem: Problem, n: int) -> tuple[Array, float | Array]:
    """Coefficients (n,) and the intercept of an answer; (K, n) and (K,) of classes at once."""
    validate(message, f"{KIND}/reply", 0, REPLY, {"n": n, "C": problem.classes or 1})
    coef, intercept = message.arrays["coef"], message.arrays["intercept"]
    if problem.classes is not None:
        return np.array(coef), np.array(intercept)
    return np.array(coef[0]), float(intercept[0])
