"""What the preflight says of columns bounds what a client can answer, and refuses nobody honest."""

import numpy as np
import pytest

from drfl.privacy import Guard
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.federation import Remote
from drfl.protocols.station import Station
from drfl.protocols.table_one import SLACK
from drfl.solvers import StatusKind
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from kit.lossy import with_arrays
from kit.stations import Loopback, Silent

NAMES = ("south", "north", "west")
LIAR = "north"


def write(folder, gaps=0.0, rows=(90, 70, 110), center=60.0):
    """Numbers of several sizes, a category with rare levels, a constant at one client."""
    rng = np.random.default_rng(11)
    for name, n in zip(NAMES, rows, strict=True):
        age, dose = rng.normal(center, 9, n), rng.normal(2e-6, 5e-7, n)
        weight = np.full(n, 70.0) if name == "west" else rng.normal(70, 12, n)
        town = rng.choice(["rome", "bern", "oslo", "pisa"], n, p=[0.6, 0.3, 0.07, 0.03])
        score = (age - center) / 9 - (dose - 2e-6) / 5e-7 + 0.7 * rng.normal(size=n)
        ill = np.where(score > 0.0, "yes", "no")
        shown = [
            ["" if g else f"{v!r}" for v, g in zip(c.tolist(), rng.random(n) < gaps, strict=True)]
            for c in (age, dose, weight)
        ]
        columns = [*shown, town, ill, (score * 3.0 + 5.0).tolist()]
        lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["age,dose,weight,town,ill,score", *lines]))
    return {name: folder / f"{name}.csv" for name in NAMES}


class Lying(Loopback):
    """One site adds a'w to its loss: convex, right at 0, its cuts tangent."""

    def __init__(self, stations, column, by):
        super().__init__(stations)
        self.column, self.by = column, by

    def _carried(self, site, message, seat):
        r = super()._carried(site, message, seat)
        if site != LIAR or "cuts" not in r.arrays:
            return r
        d = self.clients[site].n_features + 1
        x = message.arrays.get("x", np.zeros((1, d)))  # the first question is w = 0
        cuts, value = r.arrays["cuts"].copy(), r.arrays["value"].copy()
        cuts[:, :, cuts.shape[2] - d + self.column] += self.by
        value[:, 0] += self.by * x[:, self.column]
        return with_arrays(r, cuts=cuts, value=value, dual=None, local=None)


def trained(files, folder, engine, **values):
    usual = {"target": "ill", "exclude": "score", "radius": "0.02", "mixture_radius": "0.5"}
    settings = from_values({"validation": False} | usual | values, dict.fromkeys(files))
    run = RunFolder(folder / "RUN", folder / "kept")
    return train(settings, run, Remote(engine, list(files)), Silent(), fresh=True)


def failures(outcome):
    return [r.failures for result in outcome.results for r in result.history if r.failures]


def stations(files, guard=None, folder=None):
    def guard_of(name):
        return None if guard is None else Guard(k=guard, ledger=folder / f"{name}.ledger")

    return [Station(name, path, guard_of(name)) for name, path in files.items()]


def test_slopes_beyond_a_column_are_refused(tmp_path):
    """All features together would allow such a slope, the column does not."""
    files = write(tmp_path)
    engine = Lying(stations(files), 0, -1.2)
    outcome = trained(files, tmp_path, engine)
    assert {name for told in failures(outcome) for name in told} == {LIAR}
    assert "its columns" in failures(outcome)[0][LIAR]
    assert outcome.results[0].status.kind is StatusKind.PARTIAL


HONEST = {
    "categories": {},
    "a number": {"target": "score", "exclude": "ill"},
    "gaps filled": {"missing": "mean"},
    "gaps dropped": {"missing": "drop"},
    "per client": {"missing": "mean", "scale": "per-client"},
}


@pytest.mark.parametrize("scale", ["federated", "per-client", "none"])
@pytest.mark.parametrize("missing", ["mean", "drop"])
@pytest.mark.parametrize("center", [60.0, 1e9])
def test_sizes_bound_the_columns(tmp_path, scale, missing, center):
    """And not by much, where numbers have digits."""
    known = {s.name: s for s in stations(write(tmp_path, 0.2, center=center))}
    agreement = preflight(
        DataRequest("ill", exclude=("score",), scale=scale, missing=missing),
        NAMES,
        lambda messages: {name: known[name].handle(m) for name, m in messages.items()},
    )
    for name, station in known.items():
        rows = station.client(agreement, 1).rows
        X = (rows.X - rows.shift) / rows.scale
        rms, told = np.sqrt((X**2).mean(axis=0)), np.array(agreement.column_sizes[name])
        assert (rms <= told).all()
        digits = 3.0 * SLACK * (np.abs(rows.X).mean(axis=0) + np.abs(rows.shift)) / rows.scale
        assert (told <= rms * (1.0 + 2.0 * SLACK) + digits)[:3].all()
        assert set(told[3:]) == {1.0}


@pytest.mark.parametrize("guard", [None, 5])
@pytest.mark.parametrize("name", HONEST)
@pytest.mark.sampled(5)
def test_nobody_honest_is_refused(tmp_path, name, guard):
    values = HONEST[name]
    files = write(tmp_path, 0.15 if "missing" in values else 0.0, rows=(290, 270, 310))
    outcome = trained(files, tmp_path, Loopback(stations(files, guard, tmp_path)), **values)
    assert failures(outcome) == []
    assert outcome.results[0].status.kind is not StatusKind.PARTIAL
