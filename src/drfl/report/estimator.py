"""The report of a fitted estimator or network: the records that a run would have left."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from drfl.defaults import FEW_ROWS
from drfl.estimators.base import RobustModel
from drfl.estimators.client_table import ALL, ClientTable
from drfl.estimators.data_warnings import inspect
from drfl.estimators.parameters import seed_of
from drfl.metrics import class_metrics, number_metrics
from drfl.models import Model
from drfl.models.estimator import LoadedModel, coded, input_names, model_of
from drfl.models.file_rows import features_of
from drfl.problem import Json, to_json
from drfl.problem.plain import ball_to_dict, loss_to_dict, mixture_to_dict
from drfl.report.measure import ClientSample, Plan, measured
from drfl.report.measure.refits import drawn_curves
from drfl.report.measure.sample import metrics
from drfl.report.page import units_of
from drfl.run import Result
from drfl.selection import Selection
from drfl.training.run_folder import costs, message_facts, round_facts, versions


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
    return [*records, _network_result(fitted, names, scores)]


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


def _network_result(fitted: Any, names: list[str], scores: dict[str, Any]) -> Json:
    model = {
        **_proved(fitted.result_),
        "weights": dict(zip(names, fitted.client_weights_.tolist(), strict=True)),
        "losses": dict(zip(names, fitted.client_losses_.tolist(), strict=True)),
    }
    told = {"method": type(fitted).__name__, **costs([fitted.result_])}
    return {"kind": "result", **told, "models": [model], "clients": scores}


def _proved(found: Any) -> Json:
    """What a result, or the certificate of a model, says of its objective."""
    status = {"kind": str(found.status.kind), "message": found.status.message}
    numbers = {name: getattr(found, name) for name in ("objective", "lower_bound", "gap")}
    return {**numbers, "status": status}


def records_of(estimator: Any, X: Any, y: Any, clients: Any, plan: Plan) -> list[Json]:
    """The records; the arguments are those of `drfl.report`."""
    selection = estimator if isinstance(estimator, Selection) else None
    estimator = estimator.estimator if selection is not None else estimator
    fitted = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if (X is None) != (y is None):
        raise ValueError("a report needs both X and y, or neither")
    if is_network(fitted):
        known = [_start(fitted), _settings(fitted, None), *_rounds(fitted), *_messages(fitted)]
        told: list[Json] = to_json([*known, *network_records(estimator, X, y, clients)])
        return told
    model = model_of(estimator)
    selection = selection or getattr(fitted, "selection_", None)
    data = {} if X is None else _data(model, fitted, _columns(estimator, X), y, clients)
    found = [{"kind": "plan", **asdict(plan)}, *measured(model, data, plan)] if data else []
    records = [
        _start(fitted),
        _settings(fitted, selection),
        _preflight(model, getattr(y, "name", None), data) | _table_one(X, y, clients),
    ]
    records += [{"kind": "problem", **model.problem.to_dict()}, *units_of(model)]
    records += [] if selection is None else [_selection(selection)]
    if data and plan.validation and isinstance(fitted, RobustModel):
        records += [_validation(estimator, fitted, X, y, clients, plan.seed)]
    curves, refused = drawn_curves(model, data)
    records += [{"kind": "inference", "refused": refused}] if refused else []
    records += [*_rounds(fitted), _result(model, fitted, data, curves), *_messages(fitted), *found]
    told = to_json(records)
    return told


def _columns(estimator: Any, X: Any) -> Any:
    """The rows of a pipeline that chooses columns by name; other rows as they are."""
    steps = [step for _, step in getattr(estimator, "steps", [])[:-1]]
    if all(isinstance(step, StandardScaler) for step in steps):
        return X
    names = input_names(estimator)
    if hasattr(X, "columns"):
        return {name: np.asarray(X[own]) for name, own in zip(names, X.columns, strict=True)}
    return dict(zip(names, np.asarray(X).T, strict=True))


def _data(model: Model, fitted: Any, X: Any, y: Any, clients: Any) -> dict[str, ClientSample]:
    """The rows by client, for the model: in the order of its clients."""
    names = [part.name for part in model.clients]
    named = isinstance(fitted, LoadedModel) or isinstance(X, Mapping)
    X = features_of(X, model) if named else X.to_numpy() if hasattr(X, "to_numpy") else X
    X = np.asarray(X, dtype=np.float64) if isinstance(X, list) else X
    table = ClientTable.of(X, coded(model, np.asarray(y)), clients, None)
    if sorted(table.labels) != sorted(names):
        hint = ": name the client of each row" if table.labels == [ALL] else ""
        raise ValueError(f"the rows are not of the clients of the fit, {', '.join(names)}{hint}")
    factors = getattr(fitted, "class_weight_", None)
    data = {}
    for k, label in enumerate(table.labels):
        rows = np.flatnonzero(table.member == k)
        codes = table.y[rows]
        weight = None if factors is None else factors[codes.astype(np.intp)]
        ones = weight is None or bool((weight == 1.0).all())
        data[label] = ClientSample(table.X[rows], codes, None if ones else weight)
    return {name: data[name] for name in names}


def _start(fitted: Any) -> Json:
    given = getattr(fitted, "random_state", None)
    known = given is None or isinstance(given, Integral)
    # What was drawn from a RandomState has left no trace in it; a loaded model has no seed.
    seed = {"seed": seed_of(given) if known else "not known: a RandomState was given"}
    made_on = f"{platform.system()} {platform.machine()}"
    start = {"kind": "start", **versions(), "platform": made_on}
    return start | ({} if isinstance(fitted, LoadedModel) else seed)


def _settings(fitted: Any, selection: Selection | None) -> Json:
    params = {} if isinstance(fitted, LoadedModel) else fitted.get_params(deep=False)
    plain = (str, int, float, bool, list, tuple, dict, type(None))
    told = {key: v if isinstance(v, plain) else repr(v) for key, v in params.items()}
    chosen = {} if selection is None else selection.settings
    told |= {f"selection {key}": value for key, value in chosen.items()}
    return {"kind": "settings", "estimator": type(fitted).__name__, **told}


def _preflight(model: Model, target: Any, data: Mapping[str, ClientSample]) -> Json:
    known = {part.name: part.rows for part in model.clients if part.rows > 0}
    rows = {name: len(sample.y) for name, sample in data.items()} or known
    classes = model.target.classes
    found: Json = {"kind": "preflight", "target": target, "rows": rows}
    if classes is None:
        return found
    codes = range(len(classes))
    counts = {name: [int((s.y == k).sum()) for k in codes] for name, s in data.items()}
    return found | {"classes": list(classes), "class_counts": counts}


def _table_one(X: Any, y: Any, clients: Any) -> Json:
    """Table 1 of the rows as they were given; without what fewer than 5 rows hold."""
    if X is None or hasattr(X, "tocsr"):
        return {}
    found = inspect(X, y, clients)
    told = []
    for cell in found.cells:
        named = {k: v for k, v in (cell.shares or {}).items() if v * cell.rows > FEW_ROWS - 0.5}
        shares = None if cell.shares is None else named
        told += [asdict(replace(cell, shares=shares))] if cell.rows >= FEW_ROWS else []
    return {"table": told, "warnings": list(found.warnings)}


def _selection(selection: Selection) -> Json:
    table = [asdict(point) for point in selection.table]
    rule = selection.settings.get("rule", "that was asked for")
    return {"kind": "selection", "rule": rule, "reason": selection.reason, "table": table}


def _validation(
    estimator: Any, fitted: RobustModel, X: Any, y: Any, clients: Any, seed: int
) -> Json:
    """How good it is on what it has not seen; a failure is told, the rest of the report stands."""
    rows = estimator[:-1].transform(X) if hasattr(estimator, "steps") else X
    try:
        found = fitted.validate(rows, y, clients, random_state=seed)
    except (ValueError, RuntimeError) as error:
        return {"kind": "validation", "failure": str(error)}
    return {"kind": "validation", **found.facts(), "remarks": found.sentences()}


def _results(fitted: Any) -> list[Result]:
    found = getattr(fitted, "result_", [])
    return found if isinstance(found, list) else [found]


def _rounds(fitted: Any) -> list[Json]:
    return [
        {"kind": "round", "model": k, **round_facts(record)}
        for k, result in enumerate(_results(fitted))
        for record in result.history
    ]


def _messages(fitted: Any) -> list[Json]:
    sent = message_facts(_results(fitted))
    return [to_json({"kind": "messages", **entry}) for entry in sent]


def _own_intercepts(model: Model, k: int) -> Json:
    if not model.problem.own_intercepts:
        return {}
    own = {name: c.intercept for name, c in model.calibrations.items()}
    return {"intercepts": own if model.joint else {name: b[k] for name, b in own.items()}}


def _result(
    model: Model, fitted: Any, data: Mapping[str, ClientSample], curves: list[Json]
) -> Json:
    models = [
        {
            "coef": model.linear(k)[0],
            "intercept": model.linear(k)[1],
            **_own_intercepts(model, k),
            **_proved(proof),
            "weights": {part.name: part.weights[k] for part in model.clients},
            "losses": {part.name: part.losses[k] for part in model.clients},
        }
        for k, proof in enumerate(model.certificates)
    ]
    scores = {n: metrics(model, model.coef, model.at(n).intercept, s) for n, s in data.items()}
    kind = type(fitted).__name__
    method = "drfl" if isinstance(fitted, LoadedModel) or kind.startswith("DRFL") else kind
    known = {  # of a model out of a file
        "gap": max(proof.gap for proof in model.certificates),
        "rounds": sum(proof.rounds for proof in model.certificates),
    }
    known |= costs(_results(fitted)) if _results(fitted) else {}
    names = {"features": model.coefficients, "models": models, "clients": scores}
    names |= {"curves": curves} if curves else {}
    return {"kind": "result", "method": method, **known, **names}
