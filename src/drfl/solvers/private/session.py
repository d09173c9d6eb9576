r"""The server's half: moments, a few slopes, and a close look at the last point.

Every release is paid for from the budgets of the clients, by fixed shares, so that what is asked
does not depend on what a budget would still hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from drfl.arrays import Array
from drfl.privacy.dp import ENOUGH, Sensitivity, deviation, require_known, row_length, unpacked
from drfl.problem import Problem
from drfl.solvers.base import Assignment, Session, Standing, Status, StatusKind, relative_gap
from drfl.solvers.limits import LARGEST
from drfl.solvers.private.certificate import (
    Ellipsoid,
    Proof,
    choose_region,
    length_bound,
    prove,
    value_margin,
)
from drfl.solvers.private.client import CLOSE, REPLIES, SLOPE, START, TERMS
from drfl.solvers.private.surrogate import NoisySlope, Surrogate, newton
from drfl.wire import Failure, Message, WireError, reply_kind, validate

MOMENTS, SLOPES = 0.05, (0.01, 0.05, 0.24)
CLOSING = (0.27, 0.27, 0.11)
"""Shares of a budget: the moments, slopes on the way, and slope, curvature and value at the end."""

FAR = 10.0
"""So many deviations beyond what is expected, noise is none."""

STAGES = (TERMS, START, *[SLOPE] * (len(SLOPES) - 1), CLOSE)


@dataclass
class PrivateState:
    """All that changes while a run goes on."""

    stage: int = 0
    round: int = 0
    x: Array = field(default_factory=lambda: np.zeros(0))
    subgradient: Array = field(default_factory=lambda: np.zeros(0))
    replies: dict[str, Mapping[str, Array]] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    # What clients have stated, arrays (S,): rows, row length, targets, budget of this training.
    terms: dict[str, Array] = field(default_factory=dict)
    surrogate: Surrogate | None = None
    told: list[NoisySlope] = field(default_factory=list)
    region: Ellipsoid | None = None
    values: Array = field(default_factory=lambda: np.zeros(0))
    margin: float = math.inf
    proof: Proof | None = None


@final
class PrivateSession(Session):
    """See `drfl.solvers.private.Private`."""

    def __init__(self, share: float, task: Assignment) -> None:
        self.share, self.problem, self.names = share, task.problem, list(task.names)
        self.n, self.d = task.n, task.n + task.problem.shared_intercept
        self.norm = self.problem.ball_of(self.names[0]).norm
        _check(self.problem, self.names)
        self.state = PrivateState(x=np.zeros(self.d), subgradient=np.zeros(self.d))
        self.state.values = np.full(len(self.names), np.nan)

    # ------------------------------------------------------------------ the run
    def propose(self) -> dict[str, Message]:
        replies = self.state.replies
        waiting = [(s, name) for s, name in enumerate(self.names) if name not in replies]
        return {name: self._request(s) for s, name in waiting}

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        state, kind = self.state, STAGES[self.state.stage]
        state.rejected = {}
        sizes = {"n": self.n, "d": self.d, "t": self.d * (self.d + 1) // 2}
        number = {name: s for s, name in enumerate(self.names)}
        for name, reply in replies.items():
            try:
                validate(reply, reply_kind(kind), state.round, REPLIES[kind], sizes)
                self._require_possible(number[name], reply.arrays)
                state.replies[name] = reply.arrays
            except WireError as error:
                state.rejected[name] = str(error)
        state.reason = self._ending(failures)
        state.round += 1
        if len(state.replies) == len(self.names):
            found = [state.replies[name] for name in self.names]
            {TERMS: self._terms, START: self._start, SLOPE: self._slope, CLOSE: self._close}[kind](
                found
            )
            state.replies, state.stage = {}, state.stage + 1
            if state.stage == len(STAGES) - 1:
                self._look_around()

    def _ending(self, failures: Mapping[str, str]) -> str:
        """Why a run cannot go on; a client that was lost or late is asked again, for nothing."""
        if any(code == Failure.REFUSED for code in failures.values()):
            name = next(name for name, code in failures.items() if code == Failure.REFUSED)
            return (
                f"client {name!r} refuses: it has made no promise of differential privacy, or its "
                "budget does not hold what is asked"
            )
        for name, code in failures.items():
            if code in set(Failure) and code not in (Failure.DEADLINE, Failure.BAD_REPLY):
                return f"client {name!r} cannot answer: {Failure(code).sentence}"
        for name, why in self.state.rejected.items():
            return f"the answer of client {name!r} cannot be used: {why}"
        return ""

    def _request(self, s: int) -> Message:
        state, kind = self.state, STAGES[self.state.stage]
        arrays: dict[str, Array] = {}
        if kind != TERMS:
            arrays["rho"] = np.array(self._shares()) * state.terms["budget"][s]
        if kind in (SLOPE, CLOSE):
            arrays["x"] = state.x
        if kind == CLOSE:
            assert state.region is not None
            arrays["region"] = state.region.inverse
        return Message(kind, state.round, arrays)

    def _shares(self) -> float | tuple[float, ...]:
        kind = STAGES[self.state.stage]
        if kind == START:
            return MOMENTS, SLOPES[0]
        return CLOSING if kind == CLOSE else SLOPES[self.state.stage - 1]

    def _require_possible(self, s: int, told: Mapping[str, Array]) -> None:
        """Refuse what rows within a client's own bounds would not give in a thousand years."""
        state, kind = self.state, STAGES[self.state.stage]
        if kind == TERMS:
            if not all(float(told[name]) <= LARGEST for name in told):
                raise WireError("its bounds are larger than those of any client")
            return
        bound, loss = self._bounds()[s], self.problem.loss
        shares = np.atleast_1d(self._shares()).tolist()
        least, most = bound.values(state.x)
        square = bound.length**2
        known = {
            "moments": (square, bound.moments),
            "slope": (loss.lipschitz * bound.length, bound.slope),
            "curvature": (loss.curvature_bound * square, bound.curvature),
            "value": (most, bound.value(state.x)),
        }
        for name, share in zip(REPLIES[kind], shares, strict=True):
            size, sensitivity = known[name]
            sigma = deviation(sensitivity, share * state.terms["budget"][s])
            room = sigma * (math.sqrt(told[name].size) + FAR)
            if float(np.linalg.norm(told[name])) > size + room:
                raise WireError(f"its {name} is larger than its own bounds allow")
        if "value" in told and float(told["value"]) < least - room:
            raise WireError("its value is smaller than that of any row")

    # ------------------------------------------------------------------ what replies mean
    def _terms(self, found: list[Mapping[str, Array]]) -> None:
        terms = {name: np.array([float(one[name]) for one in found]) for name in REPLIES[TERMS]}
        if not all((terms[name] > 0.0).all() for name in terms):
            spent = self.names[int(np.argmin(terms["left"]))]
            self.state.reason = f"client {spent!r} has nothing left of its privacy budget"
            return
        intercept = self.problem.shared_intercept
        terms["length"] = np.array([row_length(b, intercept=intercept) for b in terms["norm"]])
        terms["budget"] = self.share * terms["left"]
        terms["weights"] = self.problem.mixture.resolve(terms["rows"]).weights
        self.state.terms = terms

    def _start(self, found: list[Mapping[str, Array]]) -> None:
        moments = unpacked(self._mean(found, "moments"), self.d)
        noise = self._noise([bound.moments for bound in self._bounds()], MOMENTS)
        self.state.surrogate = Surrogate.from_moments(
            self.problem.loss, moments, noise, intercept=self.problem.shared_intercept
        )
        self._slope(found)

    def _slope(self, found: list[Mapping[str, Array]]) -> None:
        state = self.state
        assert state.surrogate is not None
        price = SLOPES[state.stage - 1]
        # Far from the optimum the expected curvature is not good enough to carry a slope along.
        kept = [told for told in state.told if told.x.any()]
        state.told = [*kept, NoisySlope(state.x, self._mean(found, "slope"), price)]
        state.x, state.subgradient = newton(
            state.surrogate, state.told, self._radius, self.norm, self.n
        )

    def _look_around(self) -> None:
        """Choose the region of the close look."""
        state = self.state
        assert state.surrogate is not None
        bounds = self._bounds()
        slopes = [bound.slope for bound in bounds]
        seen = self._noise(slopes, CLOSING[0])
        left = self._noise(slopes, sum(told.price for told in state.told))
        # As long as slopes are on the average; one that is longer is what `SPARE` is for.
        expected = np.full(self.d, math.hypot(seen, left))
        noise = self._noise([bound.curvature for bound in bounds], CLOSING[1])
        slope = length_bound(expected, seen)
        state.region = choose_region(state.surrogate, state.x, noise, slope)

    def _close(self, found: list[Mapping[str, Array]]) -> None:
        state, bounds = self.state, self._bounds()
        assert state.region is not None
        told = self._mean(found, "slope") + self._radius * state.subgradient
        sigma = self._noise([bound.slope for bound in bounds], CLOSING[0])
        M = unpacked(self._mean(found, "curvature"), self.d) - state.region.price
        length = self.norm.dual(state.x[: self.n])
        slack = self._radius * max(0.0, length - float(state.subgradient @ state.x))
        state.proof = prove(told, sigma, M, state.region.matrix, slack)
        state.values = np.array([float(one["value"]) for one in found])
        state.margin = value_margin(self._noise([b.value(state.x) for b in bounds], CLOSING[2]))

    def _mean(self, found: list[Mapping[str, Array]], name: str) -> Array:
        weights = self.state.terms["weights"]
        return np.asarray(sum(q * one[name] for q, one in zip(weights, found, strict=True)))

    def _noise(self, sensitivities: list[float], share: float) -> float:
        """The deviation of a mean over clients."""
        terms = self.state.terms
        sigmas = [
            deviation(bound, share * rho)
            for bound, rho in zip(sensitivities, terms["budget"], strict=True)
        ]
        return float(np.linalg.norm(terms["weights"] * np.array(sigmas)))

    def _bounds(self) -> list[Sensitivity]:
        terms, loss = self.state.terms, self.problem.loss
        targets = terms["target"] * (loss.task == "regression")
        return [
            Sensitivity(int(rows), float(length), float(target), loss)
            for rows, length, target in zip(terms["rows"], terms["length"], targets, strict=True)
        ]

    # ------------------------------------------------------------------ where it stands
    @property
    def _radii(self) -> Array:
        return np.array([self.problem.ball_of(name).radius for name in self.names])

    @property
    def _radius(self) -> float:
        """R: what the objective pays for the norm of w."""
        return float(self.state.terms["weights"] @ self._radii) * self.problem.loss.lipschitz

    @property
    def standing(self) -> Standing:
        """Losses are estimates, with noise but without bias; bounds hold with probability 99 %."""
        state, terms, unknown = self.state, self.state.terms, np.full(len(self.names), np.nan)
        w, proof = state.x[: self.n], state.proof
        weights = terms["weights"] if terms else unknown
        price = self.problem.loss.lipschitz * self.norm.dual(w)
        losses = state.values + self._radii * price
        upper, lower, status = math.inf, -math.inf, None
        info: dict[str, Any] = {"stage": STAGES[min(state.stage, len(STAGES) - 1)]}
        if proof is not None:
            info |= {"excess": proof.excess, "value_margin": state.margin}
            estimate = float(weights @ losses)
            upper = max(0.0, estimate) + state.margin
            bound = max(0.0, estimate - state.margin - proof.excess)  # where the proof holds
            # 0 if nothing is proved of all models: no loss is negative.
            lower = bound if math.isinf(proof.radius) else 0.0
            gap = relative_gap(upper, bound, math.inf)
            status = Status(*_sentence(proof, upper, gap, self._few_rows()))
        return Standing(
            Status.failed(state.reason) if state.reason else status,
            w,
            float(state.x[-1]) if self.problem.shared_intercept else 0.0,
            upper,
            lower,
            math.inf,  # nobody has told: clients would have to pay for it
            weights,
            losses,
            np.full(len(self.names), price),
            state.rejected,
            info,
        )

    def _few_rows(self) -> str:
        """A remark on the first client that noise leaves little of."""
        rows = self.state.terms["rows"]
        few = [name for name, n in zip(self.names, rows, strict=True) if n < ENOUGH]
        return (
            f"; {few[0]!r} has fewer than {ENOUGH} rows: noise leaves little there" if few else ""
        )


def _sentence(proof: Proof, upper: float, gap: float, more: str) -> tuple[StatusKind, str]:
    if math.isinf(proof.excess):
        return StatusKind.PRIVATE, (
            "the privacy budget is used; the noise is larger than the curvature, and nothing is "
            f"proved of the model but that its objective is, with probability 99 %, at most "
            f"{upper:.4g}{more}"
        )
    kind, where, beyond = StatusKind.PRIVATE, "the optimum", ""
    if math.isfinite(proof.radius):
        kind = StatusKind.LOCAL
        where = f"the best model whose coefficients differ by at most {proof.radius:.3g}"
        beyond = " there, and nothing is proved beyond"
    return kind, (
        f"the privacy budget is used; with probability 99 % the objective is above that of {where} "
        f"by at most {proof.excess:.2g}, and with the noise of its value the proved gap is "
        f"{gap:.1e} (relative){beyond}{more}"
    )


def _check(problem: Problem, names: Sequence[str]) -> None:
    """Refuse what the method does not solve, before any round."""
    for name in names:
        require_known(problem, name)
    if len({problem.ball_of(name).norm for name in names}) > 1:
        raise ValueError("the solver 'private' takes one norm for all clients")
