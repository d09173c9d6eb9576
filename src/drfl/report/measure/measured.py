"""The plan of what is measured, and its execution."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drfl.models import Model
from drfl.report.measure.refits import METHODS, bootstrap, comparisons, left_out, noises, radii
from drfl.report.measure.sample import ClientSample, class_tables
from drfl.report.measure.worst_case import adversary

Json = dict[str, Any]


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
    """Records of what the rows tell about a model.

    Parameters
    ----------
    model : Model
        The model.
    data : mapping of str to ClientSample
        The rows of the training, by client.
    plan : Plan
        What is computed.
    """
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
