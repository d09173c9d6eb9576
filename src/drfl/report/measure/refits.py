"""Models that are fitted again: on resampled rows, with other radii, by other methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from drfl.arrays import Array
from drfl.inference import Estimate, InferenceError, Inquiry
from drfl.models import Model
from drfl.models.adversary import mean_loss
from drfl.models.curve_facts import curve_facts, slope_estimates
from drfl.named_problems import NAMED_PROBLEMS, restated
from drfl.problem import Json, Problem
from drfl.protocols.evaluation import under_noise
from drfl.report.measure.sample import ClientSample, Refit, clients_of, metrics, refit
from drfl.training.left_out import FEWEST, KIND, without
from drfl.uncertainty import Mixture

METHODS = ("local", "pooled", *NAMED_PROBLEMS)
FACTORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
LEVEL = 0.9


def bootstrap(
    model: Model, data: Mapping[str, ClientSample], refits: int, rng: np.random.Generator
) -> Iterator[Json]:
    """Percentile intervals of the coefficients: every client draws its own rows again."""
    fits = []
    for _ in range(refits):
        drawn = {
            name: sample.take(rng.integers(len(sample.y), size=len(sample.y)))
            for name, sample in data.items()
        }
        fits.append(refit(model, model.problem, drawn).coef)
    low, high = np.quantile(fits, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    for k in range(len(model.coef)):
        ends = {"low": low[k].tolist(), "high": high[k].tolist()}
        yield {"kind": "bootstrap", "model": k, "refits": refits, "level": LEVEL} | ends


def comparisons(
    model: Model, data: Mapping[str, ClientSample], methods: Sequence[str]
) -> Iterator[Json]:
    """Other methods on the same rows, by what their problems are."""
    rows = [len(sample.y) for sample in data.values()]
    for method in methods:
        if method == "local":
            fits = {name: _alone(model, name, sample) for name, sample in data.items()}
        elif method == "pooled":
            fits = dict.fromkeys(data, _alone(model, "all", _together(data)))
        elif method == "wafl" and (
            model.joint or model.problem.curves or model.problem.own_intercepts
        ):
            continue  # one ball for all is for one straight score
        else:
            fits = dict.fromkeys(data, refit(model, restated(model.problem, method, rows), data))
        scores = {n: metrics(model, fits[n].coef, fits[n].at(n), s) for n, s in data.items()}
        gap = max((result.gap for fit in fits.values() for result in fit.results), default=0.0)
        yield {"kind": "comparison", "method": method, "clients": scores, "gap": gap}


def left_out(model: Model, data: Mapping[str, ClientSample]) -> Iterator[Json]:
    """What every client does to the others: their losses with it and without it.

    The losses are means over the other clients, of their rows as they are.
    """
    rows = {name: len(sample.y) for name, sample in data.items()}
    if len(data) < FEWEST:
        return
    for name in data:
        others = {other: sample for other, sample in data.items() if other != name}
        fit = refit(model, without(model.problem, rows, name), others)
        yield {
            "kind": KIND,
            "client": name,
            "weight": max(part.weights[0] for part in model.clients if part.name == name),
            "with": _mean_loss(model, model.coef, lambda n: model.at(n).intercept, others),
            "without": _mean_loss(model, fit.coef, fit.at, others),
        }


def _mean_loss(
    model: Model, coef: Array, at: Callable[[str], Array], data: Mapping[str, ClientSample]
) -> float:
    losses = []
    for k in range(model.n_problems):
        for client in clients_of(model, k, data):
            b = at(client.name)
            own = (coef, b) if model.joint else (coef[k], float(b[k]))
            losses.append(mean_loss(model, k, client.rows, *own))
    return float(np.mean(losses))


def with_radii(problem: Problem, factor: float) -> Problem:
    """The same problem with all radii multiplied."""
    if problem.curves is not None and factor == 0.0:
        problem = replace(problem, curves=problem.curves.free())  # rules need a radius
    return problem.with_balls(lambda ball: replace(ball, radius=factor * ball.radius))


def drawn_curves(model: Model, data: Mapping[str, ClientSample]) -> tuple[list[Json], str]:
    """The curves with bands, rows under them and linear models beside, from rows at hand.

    And why there are no bands, where the estimate fails.
    """
    curves = model.problem.curves
    if curves is None or not data:
        return curve_facts(model), ""
    rows = np.zeros(curves.n_slopes, dtype=np.intp)
    for client in clients_of(model, 0, data):
        X = client.rows.take(slice(None))
        rows += np.concatenate([curves.counts(j, X[:, j]) for j in range(curves.n)])
    lines = refit(model, replace(model.problem, curves=curves.straight()), data).coef
    found, refused = dict[int, Estimate](), ""
    try:
        for k in range(model.n_problems):
            found[k] = _estimated(model, k, data)
    except InferenceError as error:
        refused = str(error)
    bands = slope_estimates(model, found)
    return curve_facts(model, estimates=bands, lines=lines, rows=rows.tolist()), refused


def _estimated(model: Model, k: int, data: Mapping[str, ClientSample]) -> Estimate:
    """The unpenalised estimate of the k-th problem."""
    weights = {part.name: part.weights[k] for part in model.clients}
    with Inquiry(model.problem, clients_of(model, k, data)) as inquiry:
        return inquiry.estimate(*model.linear(k), weights)


def noises(
    model: Model, data: Mapping[str, ClientSample], levels: Sequence[float], draws: int, seed: int
) -> Iterator[Json]:
    """The metrics of the model under noise."""
    for name, sample in data.items():
        if not sparse.issparse(sample.X):
            own = model.at(name).intercept
            for level in levels:
                scores = _noisy(model, model.coef, own, sample, level, draws, seed)
                yield {"kind": "noise", "client": name, "noise": level, "scores": scores}


def radii(
    model: Model, data: Mapping[str, ClientSample], level: float, draws: int, seed: int
) -> Iterator[Json]:
    """The metrics of models with other radii, on rows as they are and under noise."""
    largest = max(model.problem.ball_of(name).radius for name in data)
    dense = not any(sparse.issparse(sample.X) for sample in data.values())
    for factor in FACTORS if largest > 0.0 else ():
        fit = refit(model, with_radii(model.problem, factor), data)
        for noise in (0.0, level) if dense else (0.0,):
            scores = {
                name: _noisy(model, fit.coef, fit.at(name), sample, noise, draws, seed)
                for name, sample in data.items()
            }
            radius = {"radius": factor * largest, "noise": noise}
            yield {"kind": "radius", "clients": scores} | radius


def _noisy(
    model: Model,
    coef: Array,
    intercept: Array,
    sample: ClientSample,
    level: float,
    draws: int,
    seed: int,
) -> dict[str, float]:
    def judge(X: Any) -> dict[str, float]:
        return metrics(model, coef, intercept, ClientSample(X, sample.y))

    return under_noise(model, sample.X, level, draws, seed, judge)


def _alone(model: Model, name: str, sample: ClientSample) -> Refit:
    """ERM on the rows of one client."""
    ball = model.problem.balls[0]
    # Alone, a client's own intercept is the only one.
    b = "none" if model.problem.intercept == "none" else "shared"
    one = replace(model.problem, ball=ball, mixture=Mixture(), shared_ball=False, intercept=b)
    return refit(model, restated(one, "erm", [1]), {name: sample})


def _together(data: Mapping[str, ClientSample]) -> ClientSample:
    samples = list(data.values())
    stack = sparse.vstack if sparse.issparse(samples[0].X) else np.vstack
    X = stack([sample.X for sample in samples])
    weights = [np.ones(len(s.y)) if s.weight is None else s.weight for s in samples]
    return ClientSample(
        X, np.concatenate([sample.y for sample in samples]), np.concatenate(weights)
    )
