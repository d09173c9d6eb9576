"""How a model does at the clients, by what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drfl.models import Model
from drfl.training import evaluation, explanation
from drfl.training.adversary import Attack, worst_weights
from drfl.training.evaluation import EVALUATE, evaluate_message
from drfl.training.federation import Federation
from drfl.training.metrics import metric_names
from drfl.wire import WireError, reply_kind, validate


def evaluate(
    federation: Federation,
    model: Model,
    *,
    noise: Sequence[float] = (0.0,),
    repeats: int = 1,
    seed: int = 0,
    partial: bool = False,
) -> dict[str, list[dict[str, float]]]:
    """The metrics of a model at every client, one entry for each deviation of the noise.

    If ``partial``, clients that do not answer are left out.
    """
    message = evaluate_message(model, list(noise), repeats, seed)
    replies = federation.ask(dict.fromkeys(federation.names, message), partial=partial)
    found = {}
    for name, reply in replies.items():
        validate(reply, reply_kind(EVALUATE), 0, evaluation.REPLY, {"L": len(noise)})
        told = {key: reply.arrays[key] for key in metric_names(model) if key in reply.arrays}
        if not told or int(reply.arrays["rows"]) < 1:
            raise WireError(f"client {name!r} told no metric of the model")
        found[name] = [
            {key: float(values[k]) for key, values in told.items()} for k in range(len(noise))
        ]
    return found


def explain(
    federation: Federation, model: Model
) -> list[tuple[dict[str, Attack], dict[str, float]]]:
    """The worst case at every client and the worst weights, for each linear model."""
    message = explanation.explain_message(model)
    replies = federation.ask(dict.fromkeys(federation.names, message))
    read = {name: explanation.read_reply(model, reply) for name, reply in replies.items()}
    found = []
    for k in range(len(model.coef)):
        attacks = {name: each[k] for name, each in read.items()}
        found.append((attacks, worst_weights(model, k, attacks)))
    return found


def explained_facts(
    found: Sequence[tuple[dict[str, Attack], dict[str, float]]],
) -> list[dict[str, Any]]:
    """What `explain` found, one object per model and client; nothing of single rows."""
    return [
        {"model": k, "client": name, "weight": weights.get(name)} | attack.facts()
        for k, (attacks, weights) in enumerate(found)
        for name, attack in attacks.items()
    ]
