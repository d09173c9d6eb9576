"""A file at a client with differential privacy: nothing is told of it but what is public."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from drfl.client import RefusedError
from drfl.inspection.column import NOTHING
from drfl.protocols.client_file import ClientFile
from drfl.protocols.data_request import DataRequest
from drfl.tables import Number, Reading, TableError
from drfl.tables.encoding import Encoding
from drfl.tables.moments import Moments


class PublicFile(ClientFile):
    """A file whose columns and labels the request names, with ranges that everybody knows.

    The middle of a range stands for the mean and half of it for the deviation, so that all agree on
    units that do not come from rows. Gaps become the middle. The number of rows is public.
    """

    def __init__(
        self,
        path: Path,
        request: DataRequest,
        reading: Reading = Reading(),  # noqa: B008  (frozen)
        allowed: frozenset[str] | None = None,
    ) -> None:
        columns = [name for name in request.ranges if name != request.target]
        _check(path, request, columns)
        if allowed is not None and not set(columns) <= allowed:
            raise RefusedError("the policy does not allow one of the columns")
        super().__init__(path, request, 0, reading, frozenset(columns))
        missing = [name for name in columns if name not in self.numbers]
        if missing:
            raise TableError(f"{path} has no column {missing[0]!r} of numbers, which has a range")
        self.names = self.numbers = columns
        self.moments = _as_moments([request.ranges[name] for name in columns], self.n_rows)

    def facts(self) -> dict[str, Any]:
        """What is told beside the ranges: how many rows there are."""
        return {
            "rows": self.n_rows,
            "dropped": 0,
            "guard": 0,
            "sparse": False,
            "columns": self.names,
            "numbers": self.names,
            "texts": {},
            "target": self._target_facts(),
            "unknown": [],
            "hints": NOTHING,
        }

    def require_agreed(self, encoding: Encoding) -> None:
        """Refuse an encoding that is not that of the request."""
        request = self.request
        asked = (request.target, request.scale, request.missing)
        if (encoding.target.name, encoding.scale, encoding.missing) != asked:
            raise RefusedError("a binding speaks of other data than the preflight")
        units = [(c.name, c.shift, c.scale) for c in encoding.columns if isinstance(c, Number)]
        known = zip(self.names, self.moments.mean, self.moments.deviation, strict=True)
        if len(units) != len(encoding.columns) or not _same(units, list(known)):
            raise RefusedError("a binding has other columns or ranges than the preflight")
        target, (mid, half) = encoding.target, self._target_units()
        if target.classes is None:
            if not _same([(target.name, target.shift, target.scale)], [(target.name, mid, half)]):
                raise RefusedError("a binding has another range of the target than the preflight")
        elif sorted(map(str, target.classes)) != sorted(map(_plain, request.classes)):
            raise RefusedError("a binding has other classes than the preflight")

    def _target_units(self) -> tuple[float, float]:
        low, high = self.request.ranges.get(self.request.target, (-1.0, 1.0))
        return 0.5 * (low + high), 0.5 * (high - low)

    def _target_facts(self) -> dict[str, Any]:
        labels: list[Any] = list(self.request.classes)
        if not labels:
            m = _as_moments([self.request.ranges[self.request.target]], self.n_rows)
            sums = [float(m.count[0]), float(m.sum[0]), float(m.squares[0])]
            return {"kind": "number", "values": None, "moments": sums}
        with suppress(ValueError):
            numbers = [[float(label), 0] for label in labels]
            return {"kind": "number", "values": numbers, "moments": [0.0, 0.0, 0.0]}
        return {"kind": "text", "values": [[label, 0] for label in labels]}


def _check(path: Path, request: DataRequest, columns: list[str]) -> None:
    """Refuse a request that leaves something to be found out from rows."""
    numeric = request.target in request.ranges
    wrong = {
        "ranges: give the public range of every column that is used": not columns,
        "ranges of finite length": not all(
            -math.inf < low < high < math.inf for low, high in request.ranges.values()
        ),
        "either two classes or a range of the target": numeric == bool(request.classes)
        or len(set(request.classes)) not in (0, 2),
        "--scale federated and --missing mean, which then follow from the ranges": (
            (request.scale, request.missing) != ("federated", "mean")
            or bool(request.missing_columns)
        ),
        "numbers only: leave out categorical and support": bool(
            request.categorical or request.support
        ),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise TableError(f"{path}: differential privacy needs {what}")


def _as_moments(ranges: list[tuple[float, float]], n_rows: int) -> Moments:
    """As if half of the rows were at each end: middles are means, halves are deviations."""
    low, high = np.array(ranges).T
    count = np.full(len(low), float(n_rows))
    return Moments(count, count * 0.5 * (low + high), count * (0.5 * (high - low)) ** 2)


def _same(units: list[tuple[str, float, float]], known: list[tuple[str, float, float]]) -> bool:
    if [name for name, _, _ in units] != [name for name, _, _ in known]:
        return False
    found, wanted = (np.array([pair[1:] for pair in part], dtype=float) for part in (units, known))
    return bool(np.allclose(found, wanted, rtol=1e-9, atol=1e-12 * float(np.abs(wanted).max())))


def _plain(label: str) -> str:
    """A label as the agreement writes it: whole numbers without a point."""
    try:
        number = float(label)
    except ValueError:
        return label
    return str(int(number)) if number.is_integer() else str(number)
