"""``drfl explain``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from drfl._registry import listed
from drfl.aligned import aligned
from drfl.cli.evaluate import reading_options, sources, warn_of_unseen
from drfl.cli.main import show, show_json

EXAMPLE = """\
example:
  drfl explain RUN/model.json a.csv b.csv c.csv

A file is a client of the training, known by the file's name without its ending, or as NAME=FILE.
"per radius" is by how much the worst loss grows with the radius.
With --rows single rows are shown: use it only where the data lie.
"""
SHOWN = 8


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help="the clients' files")
    reading_options(parser)
    parser.add_argument("--rows", type=int, nargs="?", const=10, metavar="N", help="show N rows")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(options: argparse.Namespace) -> None:
    """Explain."""
    from drfl import checks
    from drfl.models import read_model
    from drfl.models.adversary import changed_rows, worst_weights
    from drfl.models.file_rows import read_rows
    from drfl.protocols.explanation import attack, explained_facts
    from drfl.training.settings import named_files

    if options.rows is not None:
        checks.whole("--rows", options.rows, least=1)
    model = read_model(options.model)
    files = sources(options, named_files(options.files))
    _require_known(model, [name for name, _, _ in files])
    read = {name: read_rows(model, path, target=True, reading=how) for name, path, how in files}
    for name, file in read.items():
        warn_of_unseen(file, model, f"{name}: ")
    for k in range(model.n_problems):
        found = {name: attack(model, k, name, rows) for name, rows in read.items()}
        attacks = {name: one for name, (one, _, _) in found.items()}
        facts = explained_facts(k, attacks, worst_weights(model, k, attacks))
        if options.json:
            show_json(facts)
            continue
        show(table(model, k, facts))
        for name, (_, rows, distribution) in found.items():
            if options.rows is not None:
                changes = list(changed_rows(model, rows, distribution, options.rows))
                show(_rows(name, read[name], changes))


def _require_known(model: Any, names: Iterable[str]) -> None:
    """Refuse what was no client of the training, if every client has a radius of its own."""
    from drfl.uncertainty import Ball

    if isinstance(model.problem.ball, Ball):
        return
    for name in names:
        if name not in model.problem.ball:
            raise ValueError(
                f"{name!r} was no client of the training, which had {listed(model.problem.ball)}: "
                "say whose file it is, NAME=FILE"
            )


def table(model: Any, k: int, found: Iterable[dict[str, Any]]) -> list[str]:
    """What `explained_facts` tells of the k-th problem of a model, for people."""
    found, classes = list(found), model.target.classes
    moved = "target moved" if classes is None else "labels changed"
    rows = [["client", "weight", "loss", "worst loss", moved, "features moved", "per radius"]]
    for entry in found:
        told = entry["target_moved"] if classes is None else entry["labels_changed"]
        rows.append(
            [
                entry["client"],
                "-" if entry["weight"] is None else f"{entry['weight']:.4f}",
                f"{entry['loss']:.5g}",
                f"{entry['worst_loss']:.5g}",
                f"{told:.4g}" if classes is None else f"{told:.2%}",
                f"{entry['features_moved']:.4g}",
                f"{entry['price']:.4g}",
            ]
        )
    return [
        *([f"class {classes[k]} against the rest"] if model.n_problems > 1 else []),
        *aligned(rows, [0, 7, 9, 10, 14, 14, 10]),
        *(f"{entry['client']}: {sentence}" for entry in found for sentence in _sentences(entry)),
    ]


def _sentences(found: dict[str, Any]) -> Iterator[str]:
    """What is to be said of the worst case at a client."""
    from drfl.models.adversary import found_sentence

    bound = float(found["bound"])  # JSON has no infinity: "inf"
    if bound > found["worst_loss"]:
        yield found_sentence(bound)
    carried = list(_shares(dict(list(found["carriers"].items())[:SHOWN]), 0))
    nothing = "the target" if found["target_moved"] > 0.0 else "no feature"
    yield f"the risk is carried by {', '.join(carried) or nothing}"
    if moved := list(_shares(found.get("labels_moved_to", {}), 2)):
        yield f"labels are changed to {', '.join(moved)}"
    if not found["attained"]:
        yield "the worst case is approached only, by rows that move very far"


def _shares(shares: Mapping[str, float], digits: int) -> Iterator[str]:
    """Names with their percentages, without those of which nothing would be seen.

    Examples
    --------
    >>> list(_shares({"mild": 0.0125, "none": 3e-9}, 2))
    ['mild 1.25%']
    """
    for name, share in shares.items():
        if round(100.0 * share, digits) > 0.0:
            yield f"{name} {share:.{digits}%}"


def _rows(name: str, file: Any, changes: list[tuple[int, str]]) -> list[str]:
    if not changes:
        return [f"{name}: no row is changed"]
    lines = file.lines([row for row, _ in changes])
    return [f"{name}: rows that the adversary changes most"] + [
        f"  {file.table.path}, line {line}: {text}"
        for line, (_, text) in zip(lines, changes, strict=True)
    ]
