"""How did it get there?"""

from __future__ import annotations

from drfl.problem import Json
from drfl.report.blocks import MOST_POINTS, Block, Lines, Section, Series, TableBlock, Text
from drfl.report.evidence import Evidence, number, numbers, thinned, whole
from drfl.report.figures import count, plain, size
from drfl.report.questions.proof import model_name
from drfl.report.suppression import Groups

QUESTION = "How did it get there?"
MOST_MODELS = 4
TABLE_ROWS = 25


def section(evidence: Evidence, groups: Groups) -> Section:
    """Upper and lower bound by round, kilobytes, seconds."""
    rounds = [record for record in evidence.of("round") if whole(record.get("round")) is not None]
    if not rounds:
        return Section("course", QUESTION, "The rounds are not recorded.")
    count_of = max(len(evidence.models), 1)
    blocks: list[Block] = []
    for k in range(min(count_of, MOST_MODELS)):
        mine = [record for record in rounds if record.get("model", 0) == k]
        which = "" if count_of == 1 else f", {model_name(k, count_of, groups.classes)}"
        blocks += [*_bounds(mine, which), Text("")]  # the next model begins on a line of its own
    blocks.append(_table(rounds, count_of, groups))
    return Section("course", QUESTION, _answer(rounds, count_of), blocks)


def _answer(rounds: list[Json], models: int) -> str:
    last = [
        [record for record in rounds if record.get("model", 0) == k][-1]
        for k in range(models)
        if any(record.get("model", 0) == k for record in rounds)
    ]
    up, down = (sum(_bytes(record, key) for record in last) for key in ("bytes_up", "bytes_down"))
    clients, server = (
        sum(number(record.get(key)) or 0.0 for record in last)
        for key in ("seconds_clients", "seconds_server")
    )
    return (
        f"In {len(rounds)} rounds, with {size(up)} from the clients and {size(down)} to them; "
        f"{clients:.2f} s of computing at the clients in all, {server:.2f} s at the server."
    )


def _bytes(record: Json, key: str) -> float:
    return sum(numbers(record.get(key)).values())


def _points(rounds: list[Json], key: str) -> list[tuple[float, float]]:
    pairs = [(float(record["round"]), number(record.get(key))) for record in rounds]
    known = [(x, y) for x, y in pairs if y is not None]
    return thinned(known, MOST_POINTS)


def _bounds(rounds: list[Json], which: str) -> list[Block]:
    upper, lower = _points(rounds, "objective"), _points(rounds, "lower_bound")
    gap = [(x, y) for x, y in _points(rounds, "gap") if y > 0.0]
    charts = []
    if upper or lower:
        pair = [Series("upper bound", upper), Series("lower bound", lower)]
        series = [line for line in pair if line.points]
        note = "The optimum lies between the two."
        charts.append(Lines(f"Bounds by round{which}", "round", "loss", series, note=note))
    if gap:
        series = [Series("relative gap", gap)]
        charts.append(Lines(f"Gap by round{which}", "round", "relative gap", series, log=True))
    return list(charts)


def _table(rounds: list[Json], models: int, groups: Groups) -> TableBlock:
    rows = []
    for record in thinned(rounds, TABLE_ROWS):
        seconds = [number(record.get(key)) for key in ("seconds_clients", "seconds_server")]
        bounds = [number(record.get(key)) for key in ("objective", "lower_bound")]
        rows.append(
            [
                count(number(record["round"])),
                model_name(whole(record.get("model", 0)) or 0, models, groups.classes),
                *(plain(bound, 6) for bound in bounds),
                plain(number(record.get("gap")), 2),
                size(_bytes(record, "bytes_up")),
                size(_bytes(record, "bytes_down")),
                *(plain(value, 3) for value in seconds),
            ]
        )
    head = ["round", "of", "upper bound", "lower bound", "gap", "sent up", "sent down"]
    head += ["s at clients", "s at server"]
    return TableBlock("Rounds; costs are sums since the start.", head, rows, texts=2, folded=True)
