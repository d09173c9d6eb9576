"""What the adversary does to the rows of a client: what is asked, and the client's half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.models import Model
from drfl.models.adversary import Attack, attack_of, network_attack, worst_weights
from drfl.models.calibration import located
from drfl.models.file_rows import FileRows
from drfl.protocols.evaluation import model_array
from drfl.protocols.federation import Federation
from drfl.rows import Rows
from drfl.wire import Field, Message, WireError, reply_kind, validate
from drfl.worst_case.oracle import Distribution

EXPLAIN = "explain"
REQUEST = {"model": Field("uint8", (None,))}
NUMBERS = ("loss", "worst_loss", "price", "flipped", "target_moved", "moved")
REPLY = {
    "rows": Field("int64"),
    **{name: Field("float64", ("K",)) for name in NUMBERS},
    "bound": Field("float64", ("K",), finite=False),  # of a network it may be infinite
    "attained": Field("int64", ("K",)),
    "carried": Field("float64", ("K", "n")),
    "feature_moves": Field("float64", ("K", "n")),
    "moved_to": Field("float64", ("K", "C"), optional=True),  # by class, where all are at once
}


def explain_message(model: Model) -> Message:
    """Ask for the worst case of a model on a client's rows."""
    return Message(EXPLAIN, 0, {"model": model_array(model)})


def attack(model: Model, k: int, name: str, file: FileRows) -> tuple[Attack, Rows, Distribution]:
    """What the adversary does to a client's file in the k-th problem, and to which rows."""
    shift, scale = model.scaling(file.X)
    assert file.y is not None
    rows = Rows(file.X, model.target_of(k, file.y), shift=shift, scale=scale)
    if model.problem.network is not None:
        found, where = network_attack(model, rows, name)
        return found, rows, where
    oracle = model.problem.oracle(rows, name)
    model = located(model, name, file.X, file.y)
    worst = oracle.evaluate(*model.linear(k))
    d = worst.distribution()
    return attack_of(model, k, rows, worst.value, worst.multiplier, d, worst.bound), rows, d


def answer(name: str, model: Model, rows: FileRows) -> Mapping[str, NDArray[Any]]:
    """The client's half; sums over all rows, for each of the K problems."""
    found = [attack(model, k, name, rows)[0] for k in range(model.n_problems)]
    labels = [str(label) for label in model.target.classes or ()]
    to = [[one.moved_to.get(label, 0.0) for label in labels] for one in found]
    return {
        **({"moved_to": np.array(to)} if model.joint else {}),
        "rows": np.array(found[0].n_rows),
        **{key: np.array([getattr(a, key) for a in found], dtype=np.float64) for key in NUMBERS},
        "bound": np.array([a.bound for a in found]),
        "attained": np.array([int(a.attained) for a in found]),
        "carried": np.array([a.carried for a in found]),
        "feature_moves": np.array([a.feature_moves for a in found]),
    }


def read_reply(model: Model, message: Message) -> Sequence[Attack]:
    """The worst case of each problem; WireError if the answer is not of this form."""
    labels = [str(label) for label in model.target.classes or ()]
    sizes = {"K": model.n_problems, "n": len(model.features), "C": len(labels)}
    validate(message, reply_kind(EXPLAIN), 0, REPLY, sizes)
    arrays = message.arrays
    if int(arrays["rows"]) < 1 or not np.isin(arrays["attained"], (0, 1)).all():
        raise WireError("an explanation has impossible numbers")
    if not (arrays["bound"] >= arrays["worst_loss"]).all():
        raise WireError("an explanation has a worst loss above its own bound")
    to = arrays.get("moved_to", np.zeros((model.n_problems, len(labels))))
    if (to < 0.0).any() or (to.sum(axis=1) > 1.0 + 1e-9).any():
        raise WireError("an explanation moves labels that there are not")
    return [
        Attack(
            **{key: float(arrays[key][k]) for key in (*NUMBERS, "bound")},
            n_rows=int(arrays["rows"]),
            carried=arrays["carried"][k],
            features=tuple(model.features),
            feature_moves=arrays["feature_moves"][k],
            attained=bool(arrays["attained"][k]),
            moved_to={c: float(v) for c, v in zip(labels, to[k], strict=True) if v > 0.0},
        )
        for k in range(model.n_problems)
    ]


def explain(
    federation: Federation, model: Model, *, partial: bool = False
) -> list[tuple[dict[str, Attack], dict[str, float]]]:
    """The worst case at every client and the worst weights, for each problem.

    If ``partial``, clients that do not answer are left out.
    """
    message = explain_message(model)
    replies = federation.ask(dict.fromkeys(federation.names, message), partial=partial)
    read = {name: read_reply(model, reply) for name, reply in replies.items()}
    found = []
    for k in range(model.n_problems):
        attacks = {name: each[k] for name, each in read.items()}
        found.append((attacks, worst_weights(model, k, attacks)))
    return found


def explained_facts(
    k: int, attacks: Mapping[str, Attack], weights: Mapping[str, float]
) -> list[dict[str, Any]]:
    """What `explain` found for the k-th problem, one object per client; nothing of single rows."""
    return [
        {"model": k, "client": name, "weight": weights.get(name)} | attack.facts()
        for name, attack in attacks.items()
    ]
