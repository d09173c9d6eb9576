"""Run the sections, print the table, write the records and the picture."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks._stored import unchecked
from benchmarks.suite.memory import one_thread

os.environ.update(one_thread())  # before NumPy is loaded

from benchmarks.suite.records import (
    LOSS,
    merged,
    number,
    regressions,
    store,
    stored,
    table,
    write_records,
)
from benchmarks.suite.row import Line, Row, Skipped

SECTIONS = {
    "programs": "cvxpy, HiGHS and dro, one client",
    "yardsticks": "scikit-learn, which is not robust",
    "bundles": "osbdo, the nearest algorithm",
    "methods": "Algorithm 1, the field's methods, FedNL's figures",
    "growth": "time and memory against the size of the data",
    "files": "a file larger than the memory limit",
    "startup": "import drfl, drfl --help",
    "cores": "the processes engine",
    "scale": "100,000 clients",
}
AGAIN = 2  # a row that seems worse is measured so many times more before it counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder of the records")
    parser.add_argument("--libsvm", type=Path, help="the file a9a, for FedNL's figures")
    parser.add_argument("--check", action="store_true", help="fail on a loss of more than 25 %%")
    parser.add_argument("--store", action="store_true", help="compare later runs with this one")
    options = parser.parse_args()
    unknown = [name for name in options.section if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}: take one of {', '.join(SECTIONS)}")
    lines = list(measured(options.section or list(SECTIONS), options))
    rows = [line for line in lines if isinstance(line, Row)]
    lines = merged(options.out, lines, list(SECTIONS))
    print("\n".join(["", *table(lines), ""]))
    print("written:", write_records(options.out, lines))
    print("written:", *draw(options.out, lines))
    if options.check:
        sys.exit(judged(rows, options))
    if options.store:
        store(rows)


def measured(names: list[str], options: argparse.Namespace) -> Iterator[Line]:
    """The lines of the sections, told as they come."""
    for name in names:
        print(f"{name}: {SECTIONS[name]}", file=sys.stderr, flush=True)
        for line in import_module(f"benchmarks.suite.{name}").rows(options):
            said = number(line.value) if isinstance(line, Row) else f"not run: {line.why}"
            print(f"  {line.name}: {said}", file=sys.stderr, flush=True)
            yield line


def judged(rows: list[Row], options: argparse.Namespace) -> int:
    """Compare with what is stored; what seems worse is measured again. The exit code."""
    known, worse = stored(), regressions(rows)
    for _ in range(AGAIN):
        if not worse:
            break
        again = list(measured(sorted({row.section for row in worse}), options))
        keys = {row.key for row in worse}
        worse = regressions(r for r in again if isinstance(r, Row) and r.key in keys)
    for row in worse:
        print(f"{row.key}: {number(row.value)}, stored {number(known[row.key])}")
    guarded = {row.key for row in rows if row.guarded}
    new = sorted(guarded - {*known})
    for key in new:
        print(f"{key}: nothing is stored to compare it with")
    print(f"{len(guarded - {*new})} values compared, {len(worse)} {LOSS:.0%} worse than stored")
    print(unchecked(known, guarded))
    return 1 if worse or new or not guarded else 0


def draw(folder: Path, lines: list[Line]) -> list[Path]:
    from benchmarks.suite.picture import draw_picture

    return draw_picture(folder, [line for line in lines if not isinstance(line, Skipped)])


if __name__ == "__main__":
    main()
