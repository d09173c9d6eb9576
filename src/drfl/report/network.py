"""The records of a fitted network: its run, how it does, what is known of its worst case."""

from __future__ import annotations

from typing import Any

import numpy as np

from drfl.estimators.client_table import ClientTable
from drfl.metrics import class_metrics, number_metrics
from drfl.problem.plain import ball_to_dict, loss_to_dict, mixture_to_dict
from drfl.report.evidence import Json


def is_network(fitted: Any) -> bool:
    """Whether an estimator was fitted to a problem about a network."""
    return getattr(getattr(fitted, "problem_", None), "network", None) is not None


def network_records(estimator: Any, X: Any, y: Any, clients: Any) -> list[Json]:
    """The records that only a network has; X, y and clients may be None."""
    fitted = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    names = [str(name) for name in fitted.client_names_.tolist()]
    rows = dict(zip(names, fitted.client_rows_.tolist(), strict=True))
    about: Json = {"kind": "preflight", "target": getattr(y, "name", None), "rows": rows}
    records = [about, _problem(fitted)]
    scores: dict[str, Any] = {}
    if X is not None:
        X = estimator[:-1].transform(X) if hasattr(estimator, "steps") else X
        table = ClientTable.of(np.asarray(X, dtype=np.float64), np.asarray(y), clients, None)
        if sorted(table.labels) != sorted(names):
            known = ", ".join(names)
            raise ValueError(f"the rows are not of the clients of the fit, {known}: name them")
        scores, counts = _scores(fitted, table)
        if counts:
            about |= {"classes": [str(c) for c in fitted.classes_], "class_counts": counts}
        for name, (lower, upper) in fitted.worst_case(X, y, clients).items():
            found = {"client": str(name), "lower": lower, "upper": upper}
            records.append({"kind": "interval", **found})
    return [*records, _result(fitted, names, scores)]


def _problem(fitted: Any) -> Json:
    problem = fitted.problem_
    try:
        loss = loss_to_dict(problem.loss)
    except ValueError:  # a module without a name
        loss = {"name": "network", "module": "not registered", "loss": problem.loss.loss}
    return {
        "kind": "problem",
        "loss": loss,
        "ball": ball_to_dict(problem.ball),
        "mixture": mixture_to_dict(problem.mixture),
    }


def _scores(fitted: Any, table: ClientTable) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Metrics by client, and how many rows each has of every class."""
    found, counts = dict[str, Any](), dict[str, list[int]]()
    classes = getattr(fitted, "classes_", None)
    for k, name in enumerate(table.labels):
        at = np.flatnonzero(table.member == k)
        if classes is None:
            found[name] = number_metrics(fitted.predict(table.X[at]) - table.y[at])
            continue
        codes = np.searchsorted(classes, table.y[at]).astype(np.float64)
        logits = np.log(np.maximum(fitted.predict_proba(table.X[at]), 1e-300))
        z = logits if len(classes) > 2 else logits[:, 1:] - logits[:, :1]
        told = class_metrics(z, codes)
        found[name] = {key: value for key, value in told.items() if not np.isnan(value)}
        counts[name] = [int((codes == code).sum()) for code in range(len(classes))]
    return found, counts


def _result(fitted: Any, names: list[str], scores: dict[str, Any]) -> Json:
    result = fitted.result_
    sent = sum(result.bytes_up.values()) + sum(result.bytes_down.values())
    model = {
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "status": {"kind": str(result.status.kind), "message": result.status.message},
        "weights": dict(zip(names, fitted.client_weights_.tolist(), strict=True)),
        "losses": dict(zip(names, fitted.client_losses_.tolist(), strict=True)),
    }
    costs = {"gap": result.gap, "rounds": result.rounds, "kilobytes": sent / 1000}
    method = type(fitted).__name__
    return {"kind": "result", "method": method, **costs, "models": [model], "clients": scores}
