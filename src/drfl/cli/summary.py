"""``drfl summary``, and what a reader is told at the end of a training."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drfl.aligned import aligned
from drfl.cli.main import require_new, say, show, show_json

if TYPE_CHECKING:  # help must not wait for SciPy
    from drfl.models import Model

KINDS = ("model", "robust", "clustered")
SHOWN = 15
EXAMPLE = """\
example:
  drfl summary RUN
  drfl summary RUN --kind clustered --level 0.9 --csv table.csv

A robust model is shrunk, so that intervals around it would be wrong: the estimates, errors and
intervals are those of its correction to the unpenalised model, and the robust coefficients stand
beside them. docs/inference.md says what each number is.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("run", metavar="RUN", help="the folder of a run that has ended")
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals (0.95)")
    parser.add_argument("--kind", choices=KINDS, default="robust", help="of the errors (robust)")
    parser.add_argument(
        "--against", metavar="CLASS", help="of several classes, what others are compared with"
    )
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write the table here as well")
    parser.add_argument("--force", action="store_true", help="overwrite the file that is there")
    parser.add_argument("--json", action="store_true", help="one JSON object per coefficient")


def run(options: argparse.Namespace) -> None:
    """Print the table."""
    import warnings

    from drfl.files import write_text
    from drfl.inference import FewClustersWarning
    from drfl.models import read_model
    from drfl.models.standard_errors import csv_records, inferred
    from drfl.report.evidence import read_records

    require_new(options.csv, options)
    folder = Path(options.run)
    records = read_records(folder / "records.jsonl")
    model = read_model(folder / "model.json")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FewClustersWarning)
        how = {"kind": options.kind, "level": options.level, "against": options.against}
        found = inferred(model, records, **how)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        advice = text.replace("kind='robust'", "--kind robust")
        say(f"warning: {advice}")
    entries = csv_records(found)
    if options.csv is not None:
        table = io.StringIO()
        writer = csv.DictWriter(table, list(entries[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(entries)
        write_text(options.csv, table.getvalue())
    if options.json:
        show_json(entries)
    else:
        show(inference_lines(model, found))


def inference_lines(model: Model, found: Sequence[Any]) -> list[str]:
    """The tables of all linear models."""
    lines = [f"{model.target.name}: {model.problem.loss.name} loss", ""]
    for entry in found:
        if entry.label:
            one = f"class {entry.label} against the rest"
            lines += [f"every class {entry.label}" if model.joint else one]
        first = entry.units or entry.scaled
        lines += [*first.heading(), ""]
        if entry.units is not None:
            lines += ["per unit of the files", *entry.units.body(), ""]
        lines += ["per standard deviation of a column", *entry.scaled.body(), ""]
        lines += [*first.factor_lines(), ""] if first.factor_lines() else []
    return lines[:-1]


def summary(model: Model, records: Sequence[dict[str, Any]]) -> list[str]:
    """Lines about the proof, the clients, the coefficients and what was compared."""
    (result,) = [record for record in records if record["kind"] == "result"]
    others = [record for record in records if record["kind"] == "comparison"]
    inside = _coefficients(model) if model.problem.network is None else _network(model)
    lines = [*_proofs(model), "", *_clients(model, result), "", *inside]
    if others:
        lines += ["", *comparison([result, *others])]
    for record in records:
        if record["kind"] == "validation" and "text" in record:
            lines += ["", *record["text"].splitlines()]
    return lines


def _proofs(model: Model) -> list[str]:
    lines = []
    for k, proof in enumerate(model.certificates):
        what = f"class {_positive(model, k)}: " if len(model.certificates) > 1 else ""
        lines.append(f"{what}{proof.status}")
        proved = "" if model.problem.network else f", proved to be at least {proof.lower_bound:.6g}"
        lines.append(f"  worst-case loss {proof.objective:.6g}{proved}, {proof.rounds} rounds")
    if model.predicts_nothing:
        other = "" if model.probabilistic else ", or the logistic loss"
        lines.append(
            "  all coefficients are zero: the model predicts nothing, it gives every row the same "
            f"scores; take a smaller radius{other}"
        )
    return lines


def _positive(model: Model, k: int) -> Any:
    assert model.target.classes is not None
    return model.target.classes[k]


def _clients(model: Model, result: dict[str, Any]) -> list[str]:
    told = result["clients"]
    names = list(next(iter(told.values()), ()))
    rows = [["client", "rows", "weight", "worst loss", *(n.replace("_", " ") for n in names)]]
    for client in model.clients:
        own = told.get(client.name)
        known = [client.name, str(client.rows), f"{client.weights[0]:.4f}"]
        judged = ["-" if own is None else _number(own[name]) for name in names]
        rows.append([*known, f"{client.losses[0]:.5g}", *judged])
    return aligned(rows, [0, 8, 7, 10, *(17 for _ in names)])


def _network(model: Model) -> list[str]:
    told = model.problem.to_dict()["loss"]
    return [
        f"the network {told['module']!r} with {model.coef.size} parameters, loss {told['loss']}: "
        "nothing is proved of it but the bounds that `drfl explain` shows"
    ]


def _coefficients(model: Model) -> list[str]:
    size = np.abs(model.coef).max(axis=0)
    order = np.argsort(-size, kind="stable")[:SHOWN]
    names = model.coefficients
    width = max(len("intercept"), *(len(names[j]) for j in order))
    lines = [_coefficients_of(model), *_class_heads(model, width)]
    lines += [
        f"{names[j]:{width}}" + "".join(f"  {w:+10.4f}" for w in model.coef[:, j]) for j in order
    ]
    more = len(size) - len(order)
    lines += [f"and {more} more"] if more > 0 else []
    if not model.problem.own_intercepts:
        return [*lines, _intercept("intercept", width, model.intercept)]
    lines.append("intercepts of the clients")
    for client in model.clients:
        found = model.calibrations.get(client.name)
        told = f"{client.name:{width}}  kept by the client"
        own = told if found is None else _intercept(client.name, width, found.intercept)
        lines.append(own)
    return lines


def _intercept(name: str, width: int, values: Iterable[float]) -> str:
    return f"{name:{width}}" + "".join(f"  {b:+10.4f}" for b in values)


def _coefficients_of(model: Model) -> str:
    """What the numbers that follow are."""
    classes = model.target.classes
    if classes is None:
        return f"coefficients of scaled columns, for scaled {model.target.name}"
    return f"coefficients of scaled columns, positive for {model.target.name} = " + (
        f"{classes[1]}" if len(classes) == 2 else "the class above the column"
    )


def _class_heads(model: Model, width: int) -> list[str]:
    """The classes above their columns, if there are several."""
    if len(model.coef) == 1:
        return []
    heads = [str(_positive(model, k))[:10] for k in range(len(model.coef))]
    return [" " * width + "".join(f"  {head:>10}" for head in heads)]


def comparison(records: Sequence[dict[str, Any]]) -> list[str]:
    """The table of methods, each judged on the clients' own rows."""
    from drfl.metrics import worst

    name = next(iter(next(iter(records[0]["clients"].values()))))
    rows = [["method", f"mean {name}", "worst client", "proved gap", "rounds", "kB"]]
    for record in records:
        values = [float(scores[name]) for scores in record["clients"].values()]
        gap = "none" if float(record["gap"]) >= 1.0 else f"{float(record['gap']):.1e}"
        scores = [f"{np.mean(values):.4g}", f"{worst(name, values):.4g}"]
        costs = [str(record["rounds"]), f"{record['kilobytes']:.1f}"]
        rows.append([record["method"], *scores, gap, *costs])
    return aligned(rows, [12, 14, 14, 10, 6, 8])


def _number(value: float | str) -> str:
    return f"{float(value):.4g}"
