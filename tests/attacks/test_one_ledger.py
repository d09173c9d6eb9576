"""Several problems on one ledger: what was told of one is no answer to another."""

from itertools import product

import numpy as np
import pytest
from attack_kit import guard

import drfl
from drfl.protocols.federation import Remote
from drfl.protocols.station import Station
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from kit.stations import Loopback, Silent

N, K = 200, 5
TARGETS, COLUMNS = ("ill", "old"), ([0, 1, 2], [1, 2, 3], [3, 2, 0])
KINDS = list(product(TARGETS, range(len(COLUMNS)), (1.0, -1.0), ("hinge", "logistic")))
UNITS = ((0.0, 1.0), (0.5, 2.0))


def table():
    """Columns of a file, and two targets that have little to do with each other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    scores = {"ill": X @ [2.0, -1.0, 0.5, 0.0], "old": X @ [-1.0, 0.5, 0.0, 2.0]}
    return X, {name: np.where(s > rng.normal(size=N), 1.0, -1.0) for name, s in scores.items()}


def trained(kind, ledger, settings):
    """A training of one problem under a ledger, and the same without a guard."""
    target, columns, positive, loss = kind[:4]
    shift, scale = kind[4] if len(kind) > 4 else UNITS[0]
    ball = kind[5] if len(kind) > 5 else drfl.Ball(0.05, "l2")
    X, y = table()
    chosen = X[:, COLUMNS[columns]]
    units = {"shift": np.full(3, shift), "scale": np.full(3, scale)}
    problem = drfl.Problem(loss, ball, intercept="shared")
    client = drfl.Client("a", chosen, positive * y[target], guard=settings, ledger=ledger, **units)
    result = drfl.solve(problem, [client], max_rounds=12)
    plain = drfl.Client("a", chosen, positive * y[target], **units)
    truth = drfl.solve(problem, [plain], tol=1e-8)
    value = drfl.client.Site(plain, problem).oracle.evaluate(result.coef, result.intercept).value
    return result, truth.objective, value


def holds(result, optimum, value):
    """Whether what a result says of itself is true."""
    slack = 1e-7 * optimum
    return result.lower_bound <= optimum + slack and value <= result.objective + slack


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1]], ids=["forth", "back"])
@pytest.mark.slow
def test_every_pair_of_problems_on_one_ledger(kinds, table):
    """In both orders, so that each comes before and after each other one."""
    settings = guard(K, answers=10**4, scalars=10**4)
    ledger = settings.begin(b"a file", N)
    false = sum(not holds(*trained(kind, ledger, settings)) for kind in kinds)
    assert false == 0
    attack = f"every pair of {len(kinds)} targets, columns, classes and losses on one ledger"
    table(attack, "–", f"{false} false certificates")


@pytest.mark.slow
def test_other_units_and_balls_on_one_ledger():
    settings = guard(K, answers=10**4, scalars=10**4)
    ledger = settings.begin(b"a file", N)
    balls = [
        drfl.Ball(radius, norm, cost)
        for radius, norm, cost in product((0.02, 0.2), ("l1", "linf"), (np.inf, 1.0))
    ]
    kinds = [("ill", 0, 1.0, "hinge", units, ball) for units, ball in product(UNITS, balls)]
    assert all(holds(*trained(kind, ledger, settings)) for kind in kinds)


def test_jobs_of_a_site_with_other_targets_columns_and_classes(tmp_path):
    """As a site lives through them: a file, a ledger, one job after the other, with metrics.

    The first model must not come back as the answer to the second question, nor its accuracy.
    """
    X, targets = table()
    lines = ["a,b,c,d,ill,old"]
    for x, ill, old in zip(X.round(4).tolist(), targets["ill"], targets["old"], strict=True):
        lines.append(",".join([*map(str, x), "yes" if ill > 0 else "no", str(int(old > 0))]))
    path = tmp_path / "site.csv"
    path.write_text("\n".join(lines) + "\n")
    accuracies = []
    jobs = [("ill", "old"), ("old", "ill"), ("ill", "old,a"), ("old", "ill,d")]
    for number, (target, exclude) in enumerate([*jobs, *jobs]):
        station = Station("site", path, guard(K, ledger=tmp_path / "ledger"))
        values = {"target": target, "exclude": exclude, "radius": "0.05", "max_rounds": "5"}
        settings = from_values(
            {**values, "scale": "none", "loss": "hinge"}, dict.fromkeys(["site"])
        )
        run = RunFolder(tmp_path / f"RUN{number}", tmp_path / f"kept{number}")
        engine = Remote(Loopback([station]), ["site"])
        outcome = train(settings, run, engine, Silent(), fresh=True)
        (result,) = outcome.results
        used = [k for k, name in enumerate("abcd") if name not in exclude.split(",")]
        plain = drfl.Client("site", X.round(4)[:, used], targets[target])
        problem = drfl.Problem("hinge", drfl.Ball(0.05, "l2"))
        truth = drfl.solve(problem, [plain], tol=1e-8)
        oracle = drfl.client.Site(plain, problem).oracle
        value = oracle.evaluate(result.coef, result.intercept).value
        assert holds(result, truth.objective, value), (number, target, exclude)
        (said,) = [r for r in outcome.records.all if r["kind"] == "result"]
        right = (targets[target] * plain.rows.scores(result.coef, result.intercept) > 0).mean()
        accuracies.append(float(said["clients"]["site"]["accuracy"]) - right)
    known = np.array(accuracies)[~np.isnan(accuracies)]  # while there are scalars left
    assert len(known) >= 2
    assert np.abs(known).max() <= K / N + 1e-9
