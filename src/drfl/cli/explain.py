"""``drfl explain``."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from typing import Any

from drfl._registry import listed

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
    from drfl.cli.evaluate import reading_options

    parser.epilog = EXAMPLE
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help="the clients' files")
    reading_options(parser)
    parser.add_argument("--rows", type=int, nargs="?", const=10, metavar="N", help="show N rows")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(options: argparse.Namespace) -> int:
    """Explain."""
    from drfl.cli.evaluate import sources
    from drfl.cli.main import OK, say
    from drfl.models import read_model
    from drfl.models.adversary import changed_rows, worst_weights
    from drfl.models.file_rows import read_rows
    from drfl.problem import to_json
    from drfl.protocols.explanation import attack
    from drfl.training.settings import named_files

    model = read_model(options.model)
    files = sources(options, named_files(options.files))
    _require_known(model, [name for name, _, _ in files])
    read = {name: read_rows(model, path, target=True, reading=how) for name, path, how in files}
    for name, file in read.items():
        for sentence in file.unseen_sentences(model):
            say(f"warning: {name}: {sentence}")
    for k in range(model.n_problems):
        found = {name: attack(model, k, name, rows) for name, rows in read.items()}
        attacks = {name: facts for name, (facts, _, _) in found.items()}
        weights = worst_weights(model, k, attacks)
        if options.json:
            for name, one in attacks.items():
                facts = {"model": k, "client": name, "weight": weights.get(name)}
                print(json.dumps(to_json(facts | one.facts()), allow_nan=False))
            continue
        if model.n_problems > 1:
            assert model.target.classes is not None
            print(f"class {model.target.classes[k]} against the rest")
        print("\n".join(_lines(model, attacks, weights)))
        for name, (_, rows, distribution) in found.items():
            if options.rows is not None:
                changes = list(changed_rows(model, rows, distribution, options.rows))
                print("\n".join(_rows(name, read[name], changes)))
    return OK


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


def _lines(model: Any, attacks: dict[str, Any], weights: dict[str, float]) -> list[str]:
    width = max(len("client"), *(len(name) for name in attacks))
    numeric = model.target.classes is None
    head = "target moved" if numeric else "labels changed"
    lines = [
        f"{'client':{width}}  {'weight':>7}  {'loss':>9}  {'worst loss':>10}  "
        f"{head:>14}  {'features moved':>14}  {'per radius':>10}"
    ]
    for name, found in attacks.items():
        weight = f"{weights[name]:.4f}" if name in weights else "-"
        label = f"{found.target_moved:.4g}" if numeric else f"{found.flipped:.2%}"
        lines.append(
            f"{name:{width}}  {weight:>7}  {found.loss:>9.5g}  {found.worst_loss:>10.5g}  "
            f"{label:>14}  {found.moved:>14.4g}  {found.price:>10.4g}"
        )
    for name, found in attacks.items():
        carried = [f"{feature} {share:.0%}" for feature, share in found.carriers(SHOWN)]
        if found.bound > found.worst_loss:
            most = f"at most {found.bound:.5g}" if found.bound < math.inf else "without a bound"
            lines.append(f"{name}: the worst loss was found, and is {most}, as proved")
        nothing = "the target" if found.target_moved > 0.0 else "no feature"
        said = ", ".join(carried) if carried else nothing
        lines.append(f"{name}: the risk is carried by {said}")
        if found.moved_to:
            to = ", ".join(f"{label} {share:.2%}" for label, share in found.moved_to.items())
            lines.append(f"{name}: labels are changed to {to}")
        if not found.attained:
            lines.append(f"{name}: the worst case is approached only, by rows that move very far")
    return lines


def _rows(name: str, file: Any, changes: list[tuple[int, str]]) -> list[str]:
    if not changes:
        return [f"{name}: no row is changed"]
    lines = file.lines([row for row, _ in changes])
    return [f"{name}: rows that the adversary changes most"] + [
        f"  {file.table.path}, line {line}: {text}"
        for line, (_, text) in zip(lines, changes, strict=True)
    ]
