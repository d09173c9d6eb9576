"""What the adversary does to the rows of the clients at a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfl.client import Client
from drfl.models import Model
from drfl.models.adversary import attack_of, changed_rows
from drfl.report.measure.sample import ClientSample, clients_of
from drfl.rows import Rows
from drfl.worst_case import make_oracle
from drfl.worst_case.oracle import Distribution

Json = dict[str, Any]


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


def _in_their_balls(model: Model, k: int, clients: Sequence[Client]) -> list[ClientMove]:
    problem = model.problem
    found = [problem.oracle(c.rows, c.name).evaluate(*model.at(c.name).linear(k)) for c in clients]
    losses = np.array([worst.value for worst in found])
    q = problem.mixture.resolve([client.rows.total for client in clients]).worst_weights(losses)
    return [
        ClientMove(weight, worst.value, worst.multiplier, worst.distribution())
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
        share = Distribution(
            source=d.source[mine] - start,
            mass=mass,
            x=d.x[mine],
            y=d.y[mine],
            cost=d.cost,
            expected_loss=float(mass @ loss[mine]),
            attained=d.attained,
            tolerance=d.tolerance,
        )
        choices.append(ClientMove(q_s, share.expected_loss, worst.multiplier, share))
    return choices


def _facts(model: Model, k: int, client: Client, move: ClientMove) -> Json:
    rows, d = client.rows, move.distribution
    found = attack_of(model.at(client.name), k, rows, move.worst_loss, move.price, d)
    moves = np.asarray(d.mass @ np.abs(d.x - rows.take(d.source)))
    return {
        "client": client.name,
        "weight": move.weight,
        "loss": found.loss,
        "worst_loss": found.worst_loss,
        "price": found.price,
        "labels_changed": found.flipped,
        "features_moved": found.moved,
        "scaled_moves": dict(zip(model.features, moves.tolist(), strict=True)),
        "attained": found.attained,
        **({"labels_moved_to": dict(found.moved_to)} if found.moved_to else {}),
    }
