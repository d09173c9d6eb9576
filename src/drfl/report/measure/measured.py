"""The plan of what is measured, and its execution."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drfl.client import Client
from drfl.models import Model
from drfl.models.adversary import attack_of, changed_rows
from drfl.problem import Json
from drfl.report.measure.refits import METHODS, bootstrap, comparisons, left_out, noises, radii
from drfl.report.measure.sample import ClientSample, class_tables, clients_of
from drfl.rows import Rows
from drfl.worst_case import make_oracle
from drfl.worst_case.oracle import Distribution


def adversary(model: Model, data: Mapping[str, ClientSample], shown: int) -> Iterator[Json]:
    """Records "adversary" of every client and linear model, then records "row" if some are wanted.

    A shared ball lies around the mixture: the adversary has one budget for the rows of all.
    """
    choose = _in_a_shared_ball if model.problem.shared_ball else _in_their_balls
    for k in range(model.n_problems):
        clients = clients_of(model, k, data)
        for client, choice in zip(clients, choose(model, k, clients), strict=True):
            yield {"kind": "adversary", "model": k} | _facts(model, k, client, choice)
            lines = data[client.name].lines
            for row, change in changed_rows(model, client.rows, choice.distribution, shown):
                where = row + 1 if lines is None else int(lines[row])
                yield {"kind": "row", "client": client.name, "row": where, "change": change}


@dataclass(frozen=True, eq=False)
class ClientMove:
    """What happens to the rows of one client, and the weight that it gets."""

    weight: float
    worst_loss: float
    price: float
    distribution: Distribution
    bound: float | None = None  # what is proved, where the worst loss is what was found


def _in_their_balls(model: Model, k: int, clients: Sequence[Client]) -> list[ClientMove]:
    problem = model.problem
    found = [problem.oracle(c.rows, c.name).evaluate(*model.at(c.name).linear(k)) for c in clients]
    losses = np.array([worst.value for worst in found])
    q = problem.mixture.resolve([client.rows.total for client in clients]).worst_weights(losses)
    return [
        ClientMove(weight, worst.value, worst.multiplier, worst.distribution(), worst.bound)
        for weight, worst in zip(q.tolist(), found, strict=True)
    ]


def _in_a_shared_ball(model: Model, k: int, clients: Sequence[Client]) -> list[ClientMove]:
    """The worst case around the mixture, taken apart by client."""
    weights = {part.name: part.weights[k] for part in model.clients}
    q = np.array([weights[client.name] for client in clients])
    rows = [client.rows for client in clients]
    mixture = Rows(
        np.vstack([part.take(slice(None)) for part in rows]),
        np.concatenate([part.y for part in rows]),
        weights=np.concatenate(
            [q_s * part.masses(np.arange(part.n_rows)) for q_s, part in zip(q, rows, strict=True)]
        ),
    )
    problem, (w, b) = model.problem, model.linear(k)
    oracle = make_oracle(mixture, problem.loss, problem.ball_of(clients[0].name))
    worst = oracle.evaluate(w, b)
    d = worst.distribution()
    loss = problem.loss.value(oracle.arguments(d.x @ w + b, d.y))
    ends = np.cumsum([part.n_rows for part in rows])
    choices = []
    for q_s, part, end in zip(q.tolist(), rows, ends.tolist(), strict=True):
        start = end - part.n_rows
        mine = (d.source >= start) & (d.source < end)
        mass = d.mass[mine] / q_s if q_s > 0.0 else np.zeros(int(mine.sum()))
        share = replace(
            d,
            source=d.source[mine] - start,
            mass=mass,
            x=d.x[mine],
            y=d.y[mine],
            expected_loss=float(mass @ loss[mine]),
        )
        choices.append(ClientMove(q_s, share.expected_loss, worst.multiplier, share))
    return choices


def _facts(model: Model, k: int, client: Client, move: ClientMove) -> Json:
    rows, d = client.rows, move.distribution
    found = attack_of(model.at(client.name), k, rows, move.worst_loss, move.price, d, move.bound)
    moves = np.asarray(d.mass @ np.abs(d.x - rows.take(d.source)))
    return {
        "client": client.name,
        "weight": move.weight,
        "loss": found.loss,
        "worst_loss": found.worst_loss,
        **({"bound": found.bound} if found.bound > found.worst_loss else {}),
        "price": found.price,
        "labels_changed": found.flipped,
        "features_moved": found.moved,
        "scaled_moves": dict(zip(model.features, moves.tolist(), strict=True)),
        "attained": found.attained,
        **({"labels_moved_to": dict(found.moved_to)} if found.moved_to else {}),
    }


@dataclass(frozen=True)
class Plan:
    """What a report computes from rows.

    Attributes
    ----------
    bootstrap : int
        Refits for the intervals of coefficients; 0: no intervals.
    noise : sequence of float
        Deviations of noise, in standard deviations of a column; the last is also used to compare
        radii. Empty: no noise.
    draws : int
        Of the noise.
    radii : bool
        Whether models with other radii are fitted.
    methods : sequence of str
        What is trained beside, of "local", "pooled", "erm", "afl", "drfa" and "wafl".
    adversary : bool
        Whether the adversary's choice is shown.
    left_out : bool
        Whether a model is fitted without each client in turn.
    validation : bool
        Whether an estimator is judged on rows and clients that it has not seen.
    rows : int
        How many rows of every client are shown one by one. The page then holds single rows, and
        must stay where the data lie.
    seed : int
        Of the bootstrap and the noise.
    classes : bool
        Whether it is told which of more than two classes is taken for which.
    """

    bootstrap: int = 30
    noise: Sequence[float] = (0.0, 0.25, 0.5, 1.0)
    draws: int = 5
    radii: bool = True
    methods: Sequence[str] = METHODS
    adversary: bool = True
    left_out: bool = True
    validation: bool = True
    rows: int = 0
    seed: int = 0
    classes: bool = True

    def __post_init__(self) -> None:
        for name in ("bootstrap", "rows"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} of a plan must not be negative")
        if self.draws < 1 or not all(0.0 <= level < float("inf") for level in self.noise):
            raise ValueError("a plan needs at least one draw and finite noise >= 0")
        for method in self.methods:
            if method not in METHODS:
                raise ValueError(f"a report knows no method {method!r}: take {', '.join(METHODS)}")

    def without(self, kinds: Collection[str], methods: Collection[str]) -> Plan:
        """The plan for what records of these kinds, and of these methods, do not tell yet."""
        return replace(
            self,
            bootstrap=0 if "bootstrap" in kinds else self.bootstrap,
            noise=() if "noise" in kinds else self.noise,
            radii=self.radii and "radius" not in kinds,
            methods=[method for method in self.methods if method not in methods],
            adversary=self.adversary and "adversary" not in kinds,
            left_out=self.left_out and "left_out" not in kinds,
            classes=self.classes and "confusion" not in kinds,
        )


def measured(model: Model, data: Mapping[str, ClientSample], plan: Plan) -> Iterator[Json]:
    """Records of what the rows of the training, by client, tell about a model, as planned."""
    for sample in data.values():
        if sample.X.shape[1] != len(model.features):
            raise ValueError(
                f"the rows have {sample.X.shape[1]} columns, but the model has "
                f"{len(model.features)}: give the rows of the training"
            )
    if model.problem.network is not None:
        # Its intervals are in the records of the run; nothing is trained again for a page.
        yield from noises(model, data, plan.noise, plan.draws, plan.seed)
        return
    if plan.classes:
        yield from class_tables(model, data)
    if plan.adversary or plan.rows:
        yield from adversary(model, data, plan.rows)
    yield from noises(model, data, plan.noise, plan.draws, plan.seed)
    if plan.radii:
        level = max(plan.noise, default=0.0)
        yield from radii(model, data, level, plan.draws, plan.seed)
    if plan.left_out:
        yield from left_out(model, data)
    yield from comparisons(model, data, plan.methods)
    if plan.bootstrap:
        yield from bootstrap(model, data, plan.bootstrap, np.random.default_rng(plan.seed))
